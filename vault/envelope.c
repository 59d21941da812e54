#include "vault/envelope.h"

#include "proxy/io/wire.h"

enum { PLACE_MAX = 512 };

static enum status
put_place(struct buf *b, const struct envelope_place *p, struct str *ret_aad)
{
	buf_init(b, PLACE_MAX);
	wire_put_str(b, p->tenant);
	wire_put_str(b, p->name);
	buf_put_u8(b, p->kind);
	buf_put_u32(b, p->version);
	return buf_finish(b, ret_aad);
}

static struct str
view(const struct seal_key *k)
{
	return str_of(k->b, sizeof k->b);
}

static enum status
wrap(const struct seal_key *master, struct str aad, const struct seal_key *data,
     unsigned char wrapped[SEAL_WRAPPED])
{
	CLEANUP(seal_key_done) struct seal_key key = { 0 };
	enum status st = seal_derive(master, SEAL_WRAP, &key);

	return st == ST_OK ? seal_close(&key, aad, view(data), wrapped) : st;
}

static enum status
unwrap(const struct seal_key *master, struct str aad, struct str wrapped,
       struct seal_key *ret_data)
{
	CLEANUP(seal_key_done) struct seal_key key = { 0 };

	if (wrapped.n != SEAL_WRAPPED)
		return ST_VAULT_DAMAGED;
	enum status st = seal_derive(master, SEAL_WRAP, &key);
	return st == ST_OK ? seal_open(&key, aad, wrapped, ret_data->b) : st;
}

enum status
envelope_close(const struct seal_key *master, const struct envelope_place *place,
	       struct str value, struct envelope_new *ret_e)
{
	CLEANUP(seal_key_done) struct seal_key data = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str aad;

	if (value.n == 0 || value.n > ENVELOPE_VALUE_MAX)
		return ST_BAD_SECRET;
	enum status st = put_place(&b, place, &aad);
	if (st == ST_OK)
		st = seal_random(&data);
	if (st == ST_OK)
		st = wrap(master, aad, &data, ret_e->wrapped);
	if (st == ST_OK)
		st = seal_close(&data, aad, value, ret_e->sealed);
	if (st == ST_OK)
		ret_e->sealed_n = value.n + SEAL_MORE;
	return st;
}

enum status
envelope_open(const struct seal_key *master, const struct envelope_place *place,
	      const struct envelope *e, unsigned char *value)
{
	CLEANUP(seal_key_done) struct seal_key data = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str aad;
	enum status st = put_place(&b, place, &aad);

	if (st == ST_OK)
		st = unwrap(master, aad, e->wrapped, &data);
	return st == ST_OK ? seal_open(&data, aad, e->sealed, value) : st;
}

enum status
envelope_rewrap(const struct seal_key *from, const struct seal_key *to,
		const struct envelope_place *place, const struct envelope *e,
		struct envelope_new *ret_e)
{
	CLEANUP(seal_key_done) struct seal_key data = { 0 };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str aad;
	enum status st = put_place(&b, place, &aad);

	if (st == ST_OK)
		st = unwrap(from, aad, e->wrapped, &data);
	return st == ST_OK ? wrap(to, aad, &data, ret_e->wrapped) : st;
}
