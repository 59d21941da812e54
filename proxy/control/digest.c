#include "proxy/control/digest.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/io/vault_op.h"

struct asked { /* of the keeper */
	struct control *control;
	struct buf key;
	digest_fn fn;
	void *ctx;
};

static void
put_key(struct buf *b, const struct control *c, const struct image_sandbox *s)
{
	buf_init(b, 4096);
	wire_put_str(b, image_str(c->role.image, s->tenant));
	wire_put_str(b, image_str(c->role.image, s->token));
}

const struct digest *
digest_cached(struct control *c, const struct image_sandbox *s, uint64_t age_ms)
{
	CLEANUP(buf_done) struct buf key = { 0 };

	put_key(&key, c, s);
	const struct digest *d = map_get(&c->digests, str_of(key.p, key.len));
	return d != NULL && loop_now_ms(c->loop) - d->at_ms <= age_ms ? d : NULL;
}

bool
digest_has(const struct digest *d, const uint8_t hash[32])
{
	bool has = false;

	for (size_t i = 0; i < d->n; i++)
		has |= token_hash_eq(d->hash[i], hash);
	return has;
}

static bool
read_hash(const json_t *j, uint8_t ret_hash[32])
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 32);
	if (!enc_get_hex(&b, str_from(json_string_value(j))) || b.st != ST_OK ||
	    b.len != 32)
		return false;
	memcpy(ret_hash, b.p, 32);
	return true;
}

/* {"sha256": [hex, ...]} */
static enum status
read_answer(struct str body, struct digest *d)
{
	struct wire w = wire_from(body);
	uint16_t told = wire_u16(&w);
	struct str text = wire_str(&w);
	json_t *all, *one;
	size_t i;

	if (wire_end(&w) != ST_OK || told >= ST_COUNT)
		return ST_BAD_MESSAGE;
	if (told != ST_OK)
		return (enum status)told;
	all = json_loadb(text.p, text.n, 0, NULL);
	bool fits = json_is_array(json_object_get(all, "sha256"));
	json_array_foreach(json_object_get(all, "sha256"), i, one)
	{
		fits = fits && d->n < DIGESTS_MAX && read_hash(one, d->hash[d->n]);
		d->n += fits;
	}
	json_decref(all);
	return fits ? ST_OK : ST_BAD_MESSAGE;
}

/* The newest word counts; without memory for it the next login asks again. */
static void
keep(struct control *c, struct str key, const struct digest *d)
{
	struct digest *kept = map_get(&c->digests, key);

	if (kept == NULL) {
		kept = malloc(sizeof *kept);
		if (kept == NULL || map_put(&c->digests, key, kept) != ST_OK) {
			free(kept);
			return;
		}
	}
	*kept = *d;
}

static void
asked_free(struct asked *a)
{
	buf_done(&a->key);
	free(a);
}

static void
told(void *ctx, enum status st, struct ask_msg *m)
{
	struct asked *a = ctx;
	struct control *c = a->control;
	struct digest d = { .at_ms = loop_now_ms(c->loop) };

	st = st == ST_OK ? read_answer(m->body, &d) : ST_NO_KEEPER;
	if (st == ST_OK)
		keep(c, str_of(a->key.p, a->key.len), &d);
	a->fn(a->ctx, st, &d);
	asked_free(a);
}

enum status
digest_ask(struct control *c, const struct image_sandbox *s, digest_fn fn, void *ctx)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct vault_ask ask = { .op = VAULT_OP_DIGEST,
				       .name = image_str(c->role.image, s->token),
				       .tenant = image_str(c->role.image, s->tenant) };
	struct str body = STR("");
	struct asked *a;

	if (c->keeper == NULL)
		return ST_NO_KEEPER;
	buf_init(&b, VAULT_ASK_MAX);
	vault_ask_put(&b, &ask);
	enum status st = buf_finish(&b, &body);
	a = st == ST_OK ? calloc(1, sizeof *a) : NULL;
	if (a == NULL)
		return st == ST_OK ? ST_NOMEM : st;
	*a = (struct asked){ .control = c, .fn = fn, .ctx = ctx };
	put_key(&a->key, c, s);
	st = ask_call(c->keeper, ASK_VAULT, ASK_LOAD(body, NULL, 0), told, a, NULL);
	if (st != ST_OK)
		asked_free(a);
	return st;
}
