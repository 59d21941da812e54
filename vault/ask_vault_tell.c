#include "vault/ask_vault_in.h"

#include <openssl/evp.h>

#include "proxy/base/enc.h"
#include "vault/secret.h"

void
op_put_grants(struct buf *b, const struct table_grant *g, size_t n)
{
	buf_put(b, STR("\"grants\":["));
	for (size_t i = 0; i < n; i++) {
		buf_put(b, i > 0 ? STR(",{\"connector\":") : STR("{\"connector\":"));
		buf_put_json(b, g[i].connector);
		buf_put(b, STR(",\"user\":"));
		buf_put_json(b, g[i].user);
		buf_putc(b, '}');
	}
	buf_putc(b, ']');
}

static void
put_versions(struct buf *b, const struct table_entry *e, uint64_t now)
{
	bool is_first = true;

	buf_put(b, STR("\"versions\":["));
	for (size_t i = 0; i < e->versions_n; i++) {
		const struct table_version *v = &e->versions[i];
		if (table_version(e, v->number, now) == NULL)
			continue;
		buf_putf(b,
			 "%s{\"version\":%u,\"created\":%llu,\"expires\":%llu,"
			 "\"retires\":%llu}",
			 is_first ? "" : ",", v->number, (unsigned long long)v->created,
			 (unsigned long long)v->expires,
			 (unsigned long long)v->retires);
		is_first = false;
	}
	buf_put(b, STR("],"));
}

static void
put_entry(struct buf *b, const struct table_entry *e)
{
	buf_put(b, STR("{\"name\":"));
	buf_put_json(b, e->name);
	buf_put(b, STR(",\"tenant\":"));
	buf_put_json(b, e->tenant);
	buf_putf(b, ",\"kind\":\"%s\",", e->kind == VAULT_PEM ? "pem" : "text");
	put_versions(b, e, vault_now());
	op_put_grants(b, e->grants, e->grants_n);
	buf_putc(b, '}');
}

const struct table_entry *
op_find(const struct op *o)
{
	return table_find(vault_table(o->keeper->vault), o->ask.tenant, o->ask.name);
}

/* The secrets of one tenant, as many as an answer holds. */
enum status
op_list(struct op *o)
{
	CLEANUP(buf_done) struct buf one = { 0 };
	const struct table *t = vault_table(o->keeper->vault);
	size_t i = table_after(t, o->ask.tenant, o->ask.name), n = 0;
	struct str last = STR("");

	buf_init(&one, TEXT_MAX / 2);
	buf_put(&o->text, STR("{\"secrets\":["));
	for (; i < table_size(t); i++) {
		const struct table_entry *e = table_at(t, i);
		if (!str_eq(e->tenant, o->ask.tenant))
			break;
		if (e->kind == TABLE_CA)
			continue;
		buf_clear(&one);
		put_entry(&one, e);
		if (one.len > TEXT_MAX - VAULT_NAME_MAX - 64 - o->text.len)
			break;
		if (n++ > 0)
			buf_putc(&o->text, ',');
		buf_put(&o->text, str_of(one.p, one.len));
		last = e->name;
	}
	bool is_all =
		i == table_size(t) || !str_eq(table_at(t, i)->tenant, o->ask.tenant);
	buf_put(&o->text, STR("],\"next\":"));
	if (is_all)
		buf_put(&o->text, STR("null"));
	else
		buf_put_json(&o->text, last);
	buf_putc(&o->text, '}');
	return o->text.st;
}

static size_t
count(const struct vault *v)
{
	const struct table *t = vault_table(v);
	size_t n = 0;

	for (size_t i = 0; i < table_size(t); i++)
		n += table_at(t, i)->kind != TABLE_CA;
	return n;
}

enum status
op_status(struct op *o)
{
	static const char *const keys[VAULT_KEY_COUNT] = {
		[VAULT_KEY_FILE] = "file",
		[VAULT_KEY_PASSPHRASE] = "passphrase",
		[VAULT_KEY_GIVEN] = "given",
	};
	struct keeper *k = o->keeper;
	struct vault *v = k->vault;
	const struct safe_head *head = vault_head(v);
	bool is_open = vault_is_open(v) == ST_OK;
	uint64_t until = 0;
	const struct ca *ca = is_open ? vault_minter(v, &until) : NULL;

	buf_putf(&o->text,
		 "{\"state\":\"%s\",\"key\":\"%s\",\"change\":%llu,\"secrets\":%zu,"
		 "\"locked_seconds\":%llu,\"ca_expires\":%llu,\"memory\":\"%s\"}",
		 vault_state_word(vault_state(v)), head == NULL ? "" : keys[head->key],
		 head == NULL ? 0ULL : (unsigned long long)head->change,
		 is_open ? count(v) : 0,
		 (unsigned long long)((vault_locked_ms(v) + 999) / 1000),
		 ca == NULL ? 0ULL : (unsigned long long)ca_expires(ca),
		 k->page_is_plain ? "locked" : "secret");
	return o->text.st;
}

/* What control compares with the token that a sandbox shows; the token stays here. */
static enum status
put_digest(struct op *o, const struct table_entry *e, const struct table_version *v)
{
	const struct envelope_place place = table_place(e, v);
	CLEANUP(secret_done) struct secret value = { 0 };
	size_t len = v->envelope.sealed.n - SEAL_MORE;
	uint8_t hash[32];
	unsigned n = sizeof hash;
	enum status st = secret_new(len, &value);

	if (st == ST_OK)
		st = envelope_open(vault_master(o->keeper->vault), &place, &v->envelope,
				   secret_bytes_mut(&value));
	if (st != ST_OK)
		return st;
	if (EVP_Digest(secret_bytes(&value), len, hash, &n, EVP_sha256(), NULL) != 1)
		return ST_NOMEM;
	buf_putc(&o->text, '"');
	enc_put_hex(&o->text, str_of(hash, sizeof hash));
	buf_putc(&o->text, '"');
	return ST_OK;
}

/* Of what a connector may use there is none: a short secret can be guessed from it. */
enum status
op_digest(struct op *o)
{
	uint64_t now = vault_now();
	const struct table_entry *e = op_find(o);
	enum status st = e == NULL || e->kind == TABLE_CA ? ST_NO_SECRET : ST_OK;
	bool is_first = true;

	if (st == ST_OK && e->grants_n > 0)
		st = ST_SECRET_DENIED;
	buf_put(&o->text, STR("{\"sha256\":["));
	for (size_t i = 0; st == ST_OK && i < e->versions_n; i++) {
		const struct table_version *v = &e->versions[i];
		if (table_version(e, v->number, now) == NULL ||
		    (v->expires != 0 && v->expires <= now))
			continue;
		if (!is_first)
			buf_putc(&o->text, ',');
		is_first = false;
		st = put_digest(o, e, v);
	}
	buf_put(&o->text, STR("]}"));
	return st == ST_OK ? o->text.st : st;
}
