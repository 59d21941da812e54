#ifndef CONF_RISK_CODE_H
#define CONF_RISK_CODE_H
/*
 * risk_code: names, calls and strings of a text in a programming language.  No grammar:
 * comments and strings are told from the rest, dotted names are joined, what stands in
 * the parentheses of a call belongs to it.  A string is looked at as a path, a host, a
 * command if its call runs commands, and as code.
 */
#include "conf/risk_private.h"

enum { CODE_FRAMES = 32, CODE_ALIASES = 64 };

struct code_strings { /* of one call, the newest first */
	struct risk_fact *first;
	size_t n;
};

struct code_frame {
	struct str name; /* of the call; empty: a bare parenthesis */
	struct code_strings strings;
};

struct risk_code {
	struct risk_run *run;
	struct str language, rest;
	char *out; /* room for names and strings: never more than text */
	size_t used;
	struct risk_deed deed;
	struct code_frame frame[CODE_FRAMES]; /* [0]: the statement */
	size_t frames_n;                      /* may be more than there are */
	struct code_strings last;             /* of the call that ended just now */
	struct str name;                      /* the last name */
	char before;                          /* the last byte that is no blank */
	struct {
		struct str alias, target;
	} alias[CODE_ALIASES];
	size_t aliases_n;
	struct str from; /* `from X import`: X */
	bool is_import;  /* until the line's end */
	bool is_start;   /* of a line */
};

static inline char
code_peek(const struct risk_code *c, size_t i)
{
	return risk_at(c->rest, i);
}

static inline void
code_skip(struct risk_code *c, size_t n)
{
	c->rest = str_skip(c->rest, n);
}

static inline bool
code_is_start(char ch) /* of a name */
{
	return ascii_is_alpha(ch) || ch == '_' || ch == '$' ||
	       (unsigned char)ch >= 0x80;
}

static inline bool
code_is_name(char ch)
{
	return code_is_start(ch) || ascii_is_digit(ch);
}

/* At a quote: the string and those that are joined to it. */
void code_read_string(struct risk_code *c, bool is_format, bool is_raw);

bool code_is(const struct risk_code *c, const char *languages); /* "a|b" */
struct code_frame *code_frame(struct risk_code *c);
/* A string, without quotes, escapes decoded. */
void code_string(struct risk_code *c, struct str s);
/* A name is called; its parenthesis was read. */
void code_open(struct risk_code *c, struct str name);
void code_close(struct risk_code *c);
/* `.unlink()` behind a call: what that call named is touched. */
void code_method(struct risk_code *c, struct str name);

#endif
