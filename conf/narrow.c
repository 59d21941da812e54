#include "conf/narrow.h"

#include <stdlib.h>
#include <string.h>

struct narrow_rule {
	bool allows, is_name, is_wild;
	struct cidr cidr; /* of no name */
	struct str name;  /* lower case, in narrow.text; of `*.x` without the `*.` */
};

struct narrow {
	bool allows; /* when no rule matches */
	size_t n;
	struct narrow_rule rules[]; /* behind them: the text, in lower case */
};

/* Reading. */

static bool
is_label(struct str label)
{
	if (label.n == 0 || label.n > 63)
		return false;
	for (size_t i = 0; i < label.n; i++)
		if (!ascii_is_alpha(label.p[i]) && !ascii_is_digit(label.p[i]) &&
		    label.p[i] != '-' && label.p[i] != '_')
			return false;
	return true;
}

/* What ends in a number is an address to most resolvers, and it isn't one of the plain
 * form. */
static bool
is_name(struct str name)
{
	if (name.n == 0 || name.n > DEST_NAME_MAX || ascii_is_digit(name.p[name.n - 1]))
		return false;
	for (struct str rest = name; rest.p != NULL;)
		if (!is_label(str_cut(&rest, '.')))
			return false;
	return true;
}

static bool
read_word(struct str word, bool *ret_allows)
{
	if (!str_eq(word, STR("allow")) && !str_eq(word, STR("deny")))
		return false;
	*ret_allows = str_eq(word, STR("allow"));
	return true;
}

static bool
read_rule(struct str line, struct narrow_rule *ret_r)
{
	struct narrow_rule r = { .allows = false };
	struct str word = str_cut(&line, ' ');

	if (!read_word(word, &r.allows))
		return false;
	if (!cidr_parse(line, &r.cidr)) {
		r.is_name = true;
		r.is_wild = str_starts(line, STR("*."));
		r.name = r.is_wild ? str_skip(line, 2) : line;
		if (!is_name(r.name))
			return false;
	}
	*ret_r = r;
	return true;
}

/* text is in lower case already.  rules may be NULL: only the form is looked at. */
static bool
read_text(struct str text, bool *ret_allows, struct narrow_rule *rules, size_t *ret_n)
{
	struct str first = str_cut(&text, '\n'), word = str_cut(&first, ' ');
	struct narrow_rule r;
	bool allows;
	size_t n = 0;

	if (!str_eq(word, STR("default")) || !read_word(first, &allows))
		return false;
	while (text.p != NULL) {
		struct str line = str_cut(&text, '\n');
		if (line.n == 0)
			continue;
		if (n == NARROW_RULES_MAX || !read_rule(line, &r))
			return false;
		if (rules != NULL)
			rules[n] = r;
		n++;
	}
	*ret_allows = allows;
	*ret_n = n;
	return true;
}

static void
fold(char *to, struct str text)
{
	for (size_t i = 0; i < text.n; i++)
		to[i] = ascii_lower(text.p[i]);
}

bool
narrow_is_text(struct str text)
{
	char lower[NARROW_TEXT_MAX];
	bool allows;
	size_t n;

	if (text.n > sizeof lower)
		return false;
	fold(lower, text);
	return read_text(str_of(lower, text.n), &allows, NULL, &n);
}

/* Each rule has a line, so there are no more of them than lines. */
static size_t
lines_of(struct str text)
{
	size_t n = 1;

	for (size_t i = 0; i < text.n; i++)
		n += text.p[i] == '\n';
	return n < NARROW_RULES_MAX ? n : NARROW_RULES_MAX;
}

struct narrow *
narrow_new(struct str text)
{
	if (text.n > NARROW_TEXT_MAX)
		text = STR("");
	size_t rules = lines_of(text) * sizeof(struct narrow_rule);
	struct narrow *n = calloc(1, sizeof(*n) + rules + text.n);
	if (n == NULL)
		return NULL;
	char *lower = (char *)(n + 1) + rules;
	fold(lower, text);
	if (!read_text(str_of(lower, text.n), &n->allows, n->rules, &n->n)) {
		n->allows = false;
		n->n = 0;
	}
	return n;
}

void
narrow_free(struct narrow *n)
{
	free(n);
}

/* Judging. */

static bool
name_fits(const struct narrow_rule *r, struct str name)
{
	if (!r->is_wild)
		return str_ieq(r->name, name);
	if (name.n < r->name.n + 2 || name.p[name.n - r->name.n - 1] != '.')
		return false;
	return str_ieq(str_skip(name, name.n - r->name.n), r->name);
}

/* What is refused is refused in each form that reaches it; what is allowed, only as what it
 * really reaches. */
static bool
addr_fits(const struct narrow_rule *r, const struct addr *a)
{
	struct addr bare = addr_unwrap(a);

	return cidr_has(&r->cidr, &bare) || (!r->allows && cidr_has(&r->cidr, a));
}

static const struct narrow_rule *
rule_for_addr(const struct narrow *n, const struct addr *a)
{
	for (size_t i = 0; i < n->n; i++)
		if (!n->rules[i].is_name && addr_fits(&n->rules[i], a))
			return &n->rules[i];
	return NULL;
}

/* NULL: none, so the default. */
static const struct narrow_rule *
rule_for(const struct narrow *n, const struct dest *d)
{
	if (!dest_is_name(d))
		return rule_for_addr(n, &d->addr);
	for (size_t i = 0; i < n->n; i++)
		if (n->rules[i].is_name && name_fits(&n->rules[i], dest_name(d)))
			return &n->rules[i];
	return NULL;
}

enum status
narrow_judge(const struct narrow *n, const struct dest *d)
{
	if (n == NULL)
		return ST_OK;
	const struct narrow_rule *r = rule_for(n, d);
	return (r == NULL ? n->allows : r->allows) ? ST_OK : ST_NARROWED;
}

static bool
refuses_addr(const struct narrow *n, const struct addr *a)
{
	const struct narrow_rule *r = rule_for_addr(n, a);

	return r != NULL && !r->allows;
}

enum status
narrow_judge_address(const struct narrow *n, const struct dest *d, const struct addr *a)
{
	enum status st = narrow_judge(n, d);

	if (st != ST_OK || n == NULL)
		return st;
	return refuses_addr(n, a) ? ST_NARROWED : ST_OK;
}

enum status
narrow_judge_fetch(const struct narrow *n, const struct dest *d, const struct addr *a)
{
	if (n == NULL)
		return ST_OK;
	const struct narrow_rule *r = rule_for(n, d);
	if ((r != NULL && !r->allows) || refuses_addr(n, a))
		return ST_NARROWED;
	return ST_OK;
}

/* Telling. */

static void
put_target(struct buf *b, const struct narrow_rule *r)
{
	if (r->is_name) {
		buf_put(b, r->is_wild ? STR("*.") : STR(""));
		buf_put(b, r->name);
		return;
	}
	addr_put(b, &r->cidr.net);
	if (r->cidr.bits < (r->cidr.net.family == 4 ? 32 : 128))
		buf_putf(b, "/%u", r->cidr.bits);
}

static const char *
word_of(bool allows)
{
	return allows ? "allow" : "deny";
}

void
narrow_put(struct buf *b, const struct narrow *n)
{
	buf_putf(b, "default %s\n", word_of(n->allows));
	for (size_t i = 0; i < n->n; i++) {
		buf_putf(b, "%s ", word_of(n->rules[i].allows));
		put_target(b, &n->rules[i]);
		buf_putc(b, '\n');
	}
}

/* Names and addresses of the form hold nothing that JSON would escape. */
void
narrow_put_json(struct buf *b, const struct narrow *n)
{
	buf_putf(b, "{\"default\":\"%s\",\"rules\":[", word_of(n->allows));
	for (size_t i = 0; i < n->n; i++) {
		buf_putf(b, "%s{\"%s\":\"", i > 0 ? "," : "",
			 word_of(n->rules[i].allows));
		put_target(b, &n->rules[i]);
		buf_put(b, STR("\"}"));
	}
	buf_put(b, STR("]}"));
}
