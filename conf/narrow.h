#ifndef CONF_NARROW_H
#define CONF_NARROW_H
/*
 * narrow: what a sandbox wants refused beside its policy.  It only takes away: what the
 * policy refuses stays refused, whatever is written here.
 *
 *	default deny
 *	allow packages.test
 *	allow *.example.test
 *	deny 10.0.0.0/8
 *
 * The first line is the answer when no rule matches; each further line is a rule: a name,
 * `*.` before a name (any depth, not the name itself), an address or a network.  In order,
 * the first that matches decides.  Case doesn't matter; empty lines are nothing.  A text
 * that is empty, too big or of another form denies everything.
 *
 * Names are matched by names only, literal addresses by addresses and networks only.  Of a
 * name that was resolved, the first rule that holds the address is asked as well: it may
 * refuse the address, and never allows the name.
 *
 * Pure; compiled once, then only read.
 */
#include "proxy/base/buf.h"
#include "proxy/http/dest.h"

enum { NARROW_TEXT_MAX = 16384, NARROW_RULES_MAX = 512 };

struct narrow;

/* What a sandbox may: a policy of the image in force, less its own narrowing.  All that
 * judges takes both at once, so that none is asked without the other. */
struct mandate {
	uint32_t policy;             /* index in the image, or POLICY_NONE */
	const struct narrow *narrow; /* NULL: nothing is taken away */
};

static inline struct mandate
mandate_of(uint32_t policy)
{
	return (struct mandate){ policy, NULL };
}

/* Is the text of the form?  narrow_new() takes any. */
bool narrow_is_text(struct str text);
/* NULL: no memory. */
struct narrow *narrow_new(struct str text);
void narrow_free(struct narrow *n);

/* ST_OK or ST_NARROWED.  n NULL: ST_OK. */
enum status narrow_judge(const struct narrow *n, const struct dest *d) MUSTCHECK;
/* And this address, which d stands for? */
enum status narrow_judge_address(const struct narrow *n, const struct dest *d,
				 const struct addr *a) MUSTCHECK;
/* What a connector dials for the sandbox is not what the sandbox named: here only a rule
 * that denies it refuses, not the default. */
enum status narrow_judge_fetch(const struct narrow *n, const struct dest *d,
			       const struct addr *a) MUSTCHECK;

/* In the form above: a text that means the same. */
void narrow_put(struct buf *b, const struct narrow *n);
/* As a member of JSON: {"default": "deny", "rules": [{"allow": "packages.test"}, ...]} */
void narrow_put_json(struct buf *b, const struct narrow *n);

#endif
