/* What a caller may be called and may ask for: the pure part of keys.h. */
#include <string.h>

#include "proxy/control/principal.h"

/* Names. */

/* In a row, a label of metrics and a line of text these stand for themselves; '/' parts a
 * user from the one on whose behalf he asks. */
bool
principal_is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) &&
		    !str_has(STR("-_.@+:|=~"), s.p[i]))
			return false;
	return s.n > 0 && s.n <= PRINCIPAL_NAME_MAX;
}

enum status
principal_set(char *name, struct str s)
{
	if (s.n > 0 && !principal_is_name(s))
		return ST_BAD_PRINCIPAL;
	memset(name, 0, PRINCIPAL_NAME_MAX + 1);
	if (s.n > 0)
		memcpy(name, s.p, s.n);
	return ST_OK;
}

void
principal_own(struct principal *p)
{
	struct str user = str_from(p->user), other = str_from(p->on_behalf_of);

	memset(p->owner, 0, sizeof p->owner);
	memcpy(p->owner, user.p, user.n);
	if (other.n == 0)
		return;
	p->owner[user.n] = '/';
	memcpy(p->owner + user.n + 1, other.p, other.n);
}

/* Scopes. */

static const struct {
	struct str word;
	enum scope scope;
} scope_words[] = {
	{ { "read", 4 }, SCOPE_READ },
	{ { "run", 3 }, SCOPE_RUN },
	{ { "files", 5 }, SCOPE_FILES },
	{ { "egress", 6 }, SCOPE_EGRESS },
};

static unsigned
scope_by_word(struct str word)
{
	for (size_t i = 0; i < COUNT_OF(scope_words); i++)
		if (str_eq(word, scope_words[i].word))
			return scope_words[i].scope;
	return 0;
}

bool
scopes_read(struct str words, unsigned *ret_scopes)
{
	unsigned all = 0;

	while (words.p != NULL) {
		struct str some = str_cut(&words, ',');
		while (some.p != NULL) {
			struct str word = str_cut(&some, ' ');
			unsigned one = scope_by_word(word);
			if (one == 0 && word.n > 0)
				return false;
			all |= one;
		}
	}
	if (all == 0)
		return false;
	*ret_scopes = all;
	return true;
}

void
scopes_put(struct buf *b, unsigned scopes)
{
	bool is_first = true;

	for (size_t i = 0; i < COUNT_OF(scope_words); i++) {
		if ((scopes & scope_words[i].scope) == 0)
			continue;
		if (!is_first)
			buf_putc(b, ',');
		buf_put(b, scope_words[i].word);
		is_first = false;
	}
}

/* What a route needs. */

struct route {
	uint8_t class, part;
	bool is_get; /* looks, and changes nothing, where the class says so */
};

enum { GET = 1, POST = 2, PUT = 4, PATCH = 8, DELETE = 16 };

#define EXEC_ROUTE(part, op, name, methods, pattern, class, body, answer)              \
	[EXEC_OP_##op] = { EXEC_CLASS_##class, EXEC_PART_##part, (methods) == GET },
#define EXEC_FILES EXEC_ROUTE
#define EXEC_HOP(part, pattern)
#define EXEC_REST(part, pattern, op, class)
static const struct route routes[EXEC_OP_COUNT] = {
#include "proxy/http/exec_routes.def"
	[EXEC_OP_EXECD_OTHER] = { EXEC_CLASS_COMMAND, EXEC_PART_EXECD, false },
	[EXEC_OP_EGRESS_OTHER] = { EXEC_CLASS_EGRESS, EXEC_PART_EGRESS, false },
	[EXEC_OP_APP] = { EXEC_CLASS_APP, EXEC_PART_APP, false },
};
#undef EXEC_ROUTE
#undef EXEC_FILES
#undef EXEC_HOP
#undef EXEC_REST

/* A terminal is attached to by GET, and what has run is told by GET: of what runs in a
 * sandbox nothing is only read. */
static const struct {
	unsigned get, other;
} needs[EXEC_CLASS_COUNT] = {
	[EXEC_CLASS_LIFECYCLE] = { SCOPE_READ, SCOPE_RUN },
	[EXEC_CLASS_COMMAND] = { SCOPE_RUN, SCOPE_RUN },
	[EXEC_CLASS_CODE] = { SCOPE_RUN, SCOPE_RUN },
	[EXEC_CLASS_FILE] = { SCOPE_FILES, SCOPE_FILES },
	[EXEC_CLASS_PTY] = { SCOPE_RUN, SCOPE_RUN },
	[EXEC_CLASS_EGRESS] = { SCOPE_READ, SCOPE_EGRESS },
	[EXEC_CLASS_APP] = { SCOPE_RUN, SCOPE_RUN },
	[EXEC_CLASS_HEALTH] = { 0, 0 },
};

unsigned
scope_of_op(enum exec_op op)
{
	const struct route *r = &routes[op];

	/* SDKs send what they measured of themselves. */
	if (op == EXEC_OP_TELEMETRY)
		return 0;
	/* Nobody knows what it does: also with files. */
	if (op == EXEC_OP_EXECD_OTHER)
		return SCOPE_RUN | SCOPE_FILES;
	return r->is_get ? needs[r->class].get : needs[r->class].other;
}

bool
op_is_inside(enum exec_op op)
{
	return routes[op].part != EXEC_PART_SERVER;
}

enum status
principal_may(const struct principal *p, enum exec_op op)
{
	unsigned wanted = scope_of_op(op);

	return (p->scopes & wanted) == wanted ? ST_OK : ST_KEY_SCOPE;
}
