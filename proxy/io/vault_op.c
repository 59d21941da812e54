#include "proxy/io/vault_op.h"

struct row {
	const char *word;
	enum vault_value value;
	unsigned fields;
};

#define VAULT_OP(name, word, value, fields, what)                                      \
	[VAULT_OP_##name] = { word, VAULT_##value, fields },
static const struct row rows[VAULT_OP_COUNT] = {
#include "proxy/io/vault_op.def"
};
#undef VAULT_OP

enum { PARTS_MAX = 8 };

const char *
vault_op_word(enum vault_op op)
{
	need((size_t)op < VAULT_OP_COUNT);
	return rows[op].word;
}

bool
vault_op_by_word(struct str word, enum vault_op *ret_op)
{
	for (size_t i = 0; i < VAULT_OP_COUNT; i++) {
		if (!str_eq(word, str_from(rows[i].word)))
			continue;
		*ret_op = (enum vault_op)i;
		return true;
	}
	return false;
}

enum vault_value
vault_op_value(enum vault_op op)
{
	need((size_t)op < VAULT_OP_COUNT);
	return rows[op].value;
}

bool
vault_is_name(struct str name)
{
	size_t parts = 0;

	if (name.n == 0 || name.n > VAULT_NAME_MAX)
		return false;
	while (name.p != NULL) {
		struct str part = str_cut(&name, '/');
		if (!str_is_name(part) || ++parts > PARTS_MAX)
			return false;
	}
	return true;
}

void
vault_ask_put(struct buf *b, const struct vault_ask *a)
{
	buf_put_u8(b, (uint8_t)a->op);
	wire_put_str(b, a->name);
	wire_put_str(b, a->tenant);
	wire_put_str(b, a->connector);
	wire_put_str(b, a->user);
	buf_put_u8(b, a->kind);
	buf_put_u64(b, a->expires);
	buf_put_u32(b, a->seconds);
}

static bool
is_name_or_empty(struct str s)
{
	return s.n == 0 || str_is_name(s);
}

static bool
names_fit(const struct vault_ask *a, unsigned fields)
{
	bool is_named = (fields & VAULT_F_NAME) != 0,
	     is_after = (fields & VAULT_F_AFTER) != 0;

	if (is_named ? !vault_is_name(a->name) : a->name.n > 0 && !is_after)
		return false;
	if (is_after && a->name.n > 0 && !vault_is_name(a->name))
		return false;
	if (!is_name_or_empty(a->tenant) || (a->tenant.n > 0 && !is_named && !is_after))
		return false;
	return is_name_or_empty(a->connector) && is_name_or_empty(a->user) &&
	       ((fields & VAULT_F_WHO) != 0 || a->connector.n + a->user.n == 0);
}

static bool
fits(const struct vault_ask *a)
{
	unsigned fields = rows[a->op].fields;

	return names_fit(a, fields) && (a->kind == 0 || (fields & VAULT_F_KIND) != 0) &&
	       (a->expires == 0 || (fields & VAULT_F_EXPIRES) != 0) &&
	       (a->seconds == 0 || (fields & VAULT_F_SECONDS) != 0);
}

enum status
vault_ask_get(struct str body, struct vault_ask *ret_a)
{
	struct wire w = wire_from(body);
	uint8_t op = wire_u8(&w);
	struct vault_ask a = { .op = (enum vault_op)op };

	a.name = wire_str(&w);
	a.tenant = wire_str(&w);
	a.connector = wire_str(&w);
	a.user = wire_str(&w);
	a.kind = wire_u8(&w);
	a.expires = wire_u64(&w);
	a.seconds = wire_u32(&w);
	if (wire_end(&w) != ST_OK || op >= VAULT_OP_COUNT || !fits(&a) ||
	    a.expires > INT64_MAX)
		return ST_BAD_MESSAGE;
	*ret_a = a;
	return ST_OK;
}
