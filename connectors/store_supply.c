#include <unistd.h>

#include "connectors/store_in.h"
#include "proxy/io/memfd.h"

static void
on_answer(void *ctx, enum status st, struct ask_msg *m)
{
	struct store *s = ctx;

	s->is_asked = false;
	if (st == ST_OK) {
		struct wire in = wire_from(m->body);
		uint16_t told = wire_u16(&in);
		st = told < ST_COUNT && wire_end(&in) == ST_OK ? (enum status)told
							       : ST_NO_KEEPER;
	} else {
		st = ST_NO_KEEPER;
	}
	store_supplied(s, st);
}

static enum status
put_body(const struct store *s, struct buf *b, enum status why,
	 const struct kv_value *value)
{
	const struct image_store_item *item = store_item(s);

	wire_put_str(b, image_str(s->all->role.image, item->name));
	buf_put_u16(b, (uint16_t)why);
	buf_put_u32(b, value == NULL ? 0 : value->version);
	buf_put_u64(b, value == NULL ? 0 : value->expires_s);
	return b->st;
}

static enum status
ask(struct store *s, enum status why, const struct kv_value *value)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	int fd =
		value == NULL ? -1 : memfd_sealed("value", cred_since(&value->text, 0));
	enum status st = ST_NO_FILES;

	buf_init(&b, ask_rule(ASK_SUPPLY)->size);
	if (value == NULL || fd >= 0)
		st = put_body(s, &b, why, value);
	if (st == ST_OK)
		st = ask_call(s->line, ASK_SUPPLY,
			      ASK_LOAD(str_of(b.p, b.len), &fd, fd >= 0 ? 1 : 0),
			      on_answer, s, &s->seq);
	if (fd >= 0)
		(void)close(fd);
	return st;
}

void
store_supply(struct store *s, enum status why, const struct kv_value *value)
{
	enum status st = ST_NO_KEEPER;

	s->state = STORE_SUPPLY;
	s->supplied = why;
	s->line = s->all->keeper;
	if (s->line != NULL)
		st = ask(s, why, value);
	s->is_asked = st == ST_OK;
	if (st != ST_OK)
		store_supplied(s, st);
}
