/*
 * What operators do with API keys.  A new key is told once, over the Unix socket only, and
 * stands nowhere: not in the ledger, whose rows have its id, and not in the store.
 */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "proxy/base/enc.h"
#include "proxy/control/keys_in.h"

enum { ID_MAX = 20, GRACE_MAX_S = 90 * 86400 };

struct made { /* a new key */
	char id[ID_MAX + 1], text[KEY_TEXT + 1];
	uint8_t hash[KEY_HASH];
};

static enum status
make(struct made *ret_m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct {
		uint8_t key[KEY_OCTETS];
		uint64_t id;
	} dice;
	struct made m = { .id = "" };

	if (getrandom(&dice, sizeof dice, 0) != sizeof dice)
		return ST_SYSTEM;
	buf_init(&b, 256);
	buf_put(&b, STR("sgk_"));
	enc_put_base64url(&b, str_of(dice.key, sizeof dice.key));
	OPENSSL_cleanse(dice.key, sizeof dice.key);
	if (b.st != ST_OK || b.len != KEY_TEXT)
		return ST_NOMEM;
	memcpy(m.text, b.p, KEY_TEXT);
	token_hash(str_from(m.text), m.hash);
	OPENSSL_cleanse(b.p, b.len);
	buf_clear(&b);
	buf_put(&b, STR("key-"));
	enc_put_id(&b, dice.id);
	if (b.st != ST_OK || b.len > ID_MAX)
		return ST_NOMEM;
	memcpy(m.id, b.p, b.len);
	*ret_m = m;
	return ST_OK;
}

/* The request. */

static bool
is_label(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
			return false;
	return s.n <= KEY_LABEL_MAX;
}

static enum status
read_scopes(const struct admin_conn *a, unsigned *ret_scopes, struct str *ret_why)
{
	const json_t *j = json_object_get(a->request, "scopes");

	if (j == NULL) {
		*ret_scopes = SCOPE_ALL;
		return ST_OK;
	}
	if (scopes_read(api_text(a, "scopes"), ret_scopes))
		return ST_OK;
	*ret_why = STR("scopes: of read, run, files and egress");
	return ST_BAD_REQUEST;
}

/* Whose it is; the first must be said. */
static enum status
check_names(const struct key_row *k, struct str *ret_why)
{
#define NAME_RULE ": 1 to 128 letters, digits and -_.@+:|=~"
	_Static_assert(PRINCIPAL_NAME_MAX == 128, "what people are told");
	const struct {
		struct str name, why;
	} all[] = { { k->user, STR("user" NAME_RULE) },
		    { k->agent, STR("agent" NAME_RULE) },
		    { k->tenant, STR("tenant" NAME_RULE) } };
#undef NAME_RULE

	for (size_t i = 0; i < COUNT_OF(all); i++) {
		if (principal_is_name(all[i].name) || (i > 0 && all[i].name.n == 0))
			continue;
		*ret_why = all[i].why;
		return ST_BAD_PRINCIPAL;
	}
	return ST_OK;
}

/* When a new one ends, in seconds since 1970; 0: never. */
static enum status
read_expires(const struct admin_conn *a, uint64_t *ret_s, struct str *ret_why)
{
	uint64_t s;

	if (!api_number(a, "expires", INT64_MAX, &s) || (s > 0 && s <= keys_now_s())) {
		*ret_why = STR("expires: a time to come");
		return ST_BAD_REQUEST;
	}
	*ret_s = s;
	return ST_OK;
}

static enum status
check_id(struct str id, struct str *ret_why)
{
	if (str_is_name(id))
		return ST_OK;
	*ret_why = STR("an id of a key is what `keys list` has");
	return ST_BAD_REQUEST;
}

static enum status
read_row(const struct admin_conn *a, struct key_row *ret_k, struct str *ret_why)
{
	const json_t *delegate = json_object_get(a->request, "may_delegate");
	struct key_row k = { .tenant = api_text(a, "tenant"),
			     .user = api_text(a, "user"),
			     .agent = api_text(a, "agent"),
			     .label = api_text(a, "label"),
			     .may_delegate = json_is_true(delegate),
			     .created_s = keys_now_s() };
	enum status st = read_scopes(a, &k.scopes, ret_why);

	if (st == ST_OK)
		st = read_expires(a, &k.expires_s, ret_why);
	if (st == ST_OK && (delegate != NULL && !json_is_boolean(delegate)))
		st = ST_BAD_REQUEST;
	if (st == ST_OK)
		st = check_names(&k, ret_why);
	if (st == ST_OK && !is_label(k.label)) {
		_Static_assert(KEY_LABEL_MAX == 200, "what people are told");
		*ret_why = STR("label: 200 bytes at most, without control characters");
		st = ST_BAD_REQUEST;
	}
	if (st == ST_OK)
		*ret_k = k;
	return st;
}

/* The answer. */

/* The row that says how it went has the ids. */
static void
name_in_ledger(struct admin_conn *a, const char *old_id, const char *id)
{
	char name[STR_NAME_MAX + ID_MAX + 8];

	(void)snprintf(name, sizeof name, "%s%s%s", old_id,
		       old_id[0] == '\0' ? "" : " ", id);
	(void)json_object_set_new(a->request, "name", json_string(name));
}

static void
tell_key(struct admin_conn *a, struct made *m)
{
	json_t *body = json_pack("{s:s,s:s}", "id", m->id, "key", m->text);

	OPENSSL_cleanse(m, sizeof *m);
	if (body == NULL)
		api_refuse(a, ST_NOMEM, STR(""));
	else
		api_succeed(a, body);
}

static enum status
api_add(struct admin_conn *a, struct str *ret_why)
{
	struct key_row k;
	struct made m;
	enum status st = read_row(a, &k, ret_why);

	if (st == ST_OK)
		st = make(&m);
	if (st != ST_OK)
		return st;
	k.id = str_from(m.id);
	st = key_store_add(&a->control->keys->store, &k, m.hash);
	if (st != ST_OK)
		return st;
	name_in_ledger(a, "", m.id);
	tell_key(a, &m);
	return ST_OK;
}

static enum status
api_rotate(struct admin_conn *a, struct str *ret_why)
{
	struct key_rotation r = { .id = api_text(a, "name"), .now_s = keys_now_s() };
	char old_id[STR_NAME_MAX + 1] = "";
	struct made m;
	enum status st = read_expires(a, &r.expires_s, ret_why);

	if (st == ST_OK)
		st = check_id(r.id, ret_why);
	if (st == ST_OK && !api_number(a, "seconds", GRACE_MAX_S, &r.grace_s)) {
		*ret_why = STR("grace: 90 days at most");
		st = ST_BAD_REQUEST;
	}
	if (st == ST_OK)
		st = make(&m);
	if (st != ST_OK)
		return st;
	r.new_id = str_from(m.id);
	st = key_store_rotate(&a->control->keys->store, &r, m.hash);
	if (st != ST_OK)
		return st;
	memcpy(old_id, r.id.p, r.id.n);
	name_in_ledger(a, old_id, m.id);
	tell_key(a, &m);
	return ST_OK;
}

static enum status
api_revoke(struct admin_conn *a, struct str *ret_why)
{
	struct str id = api_text(a, "name");
	enum status st = check_id(id, ret_why);

	if (st == ST_OK)
		st = key_store_revoke(&a->control->keys->store, id, keys_now_s());
	if (st == ST_OK)
		api_succeed(a, json_pack("{s:b}", "ok", 1));
	return st;
}

/* The list. */

struct listing {
	json_t *keys;
	uint64_t last, n;
};

static json_t *
text(struct str s)
{
	return json_stringn(s.p == NULL ? "" : s.p, s.n);
}

static void
list_one(void *ctx, const struct key_row *k)
{
	struct listing *l = ctx;
	CLEANUP(buf_done) struct buf scopes = { 0 };

	buf_init(&scopes, 128);
	scopes_put(&scopes, k->scopes);
	(void)json_array_append_new(
		l->keys,
		json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:I,s:I,s:I,s:I}", "id",
			  text(k->id), "tenant", text(k->tenant), "user", text(k->user),
			  "agent", text(k->agent), "label", text(k->label), "scopes",
			  text(str_of(scopes.p, scopes.len)), "may_delegate",
			  k->may_delegate, "created", (json_int_t)k->created_s,
			  "expires", (json_int_t)k->expires_s, "revoked",
			  (json_int_t)k->revoked_s, "last_used",
			  (json_int_t)k->last_used_s));
	l->last = k->n;
	l->n++;
}

static enum status
api_list(struct admin_conn *a, struct str *ret_why)
{
	struct keys *k = a->control->keys;
	struct listing l = { .n = 0 };
	uint64_t after;

	(void)ret_why;
	if (!api_number(a, "after", INT64_MAX, &after))
		return ST_BAD_REQUEST;
	keys_write_used(k);
	l.keys = json_array();
	enum status st = l.keys == NULL
				 ? ST_NOMEM
				 : key_store_walk(&k->store, after, list_one, &l);
	json_t *body = st == ST_OK ? json_pack("{s:O}", "keys", l.keys) : NULL;
	json_decref(l.keys);
	if (body == NULL)
		return st == ST_OK ? ST_NOMEM : st;
	if (l.n == KEY_LIST_MAX)
		(void)json_object_set_new(body, "next",
					  json_integer((json_int_t)l.last));
	api_succeed(a, body);
	return ST_OK;
}

/* The table. */

static const struct {
	const char *word; /* of api.def */
	bool tells_key;
	/* ST_OK: has answered; else *ret_why may say more */
	enum status (*fn)(struct admin_conn *a, struct str *ret_why);
} acts[] = {
	{ "keys/add", true, api_add },
	{ "keys/rotate", true, api_rotate },
	{ "keys/revoke", false, api_revoke },
	{ "keys/list", false, api_list },
};

void
api_keys(struct admin_conn *a)
{
	enum status st = ST_NOT_FOUND;
	struct str why = STR("");

	for (size_t i = 0; i < COUNT_OF(acts); i++) {
		if (strcmp(a->word, acts[i].word) != 0)
			continue;
		if (a->control->keys == NULL)
			st = ST_STORE_DAMAGED; /* said in the log at start */
		else if (acts[i].tells_key && !a->control->admin_is_unix)
			st = ST_NEEDS_SOCKET;
		else
			st = a->request == NULL ? ST_BAD_REQUEST : acts[i].fn(a, &why);
		break;
	}
	if (st != ST_OK)
		api_refuse(a, st, why);
}
