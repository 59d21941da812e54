#include "connectors/lease.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/io/memfd.h"

struct lease_part { /* one ask */
	struct lease_call *call;
	uint32_t seq;
	bool is_asked;
};

struct lease_call {
	struct connector *all;
	struct ask_line *line;
	struct lease_part part[AUTH_PARTS];
	struct lease lease;
	enum status st;
	unsigned waits;
	lease_fn fn;
	void *ctx;
};

static void
cancel_asks(struct lease_call *c)
{
	for (size_t i = 0; i < AUTH_PARTS; i++) {
		if (c->part[i].is_asked)
			ask_cancel(c->line, c->part[i].seq);
		c->part[i].is_asked = false;
	}
}

void
lease_cancel(struct lease_call *c)
{
	if (c == NULL)
		return;
	cancel_asks(c);
	lease_done(&c->lease);
	loop_defer(c->all->loop, free, c);
}

static void
finish(struct lease_call *c)
{
	lease_fn fn = c->fn;

	cancel_asks(c);
	if (c->st != ST_OK)
		lease_done(&c->lease);
	loop_defer(c->all->loop, free, c);
	fn(c->ctx, c->st, &c->lease);
}

/* status u16, version u32, expires u64, length u32; a memfd */
static enum status
read_answer(struct lease_call *c, size_t part, struct ask_msg *m)
{
	struct wire in = wire_from(m->body);
	uint16_t told = wire_u16(&in);
	uint32_t version = wire_u32(&in);
	uint64_t expires_s = wire_u64(&in);
	uint32_t length = wire_u32(&in);
	enum status st = told < ST_COUNT ? (enum status)told : ST_NO_KEEPER;
	int fd = ask_msg_take(m, 0);

	if (wire_end(&in) != ST_OK || (st == ST_OK && fd < 0))
		st = ST_NO_KEEPER;
	if (st == ST_OK)
		st = secret_from_fd(fd, length, &c->lease.part[part]);
	if (fd >= 0)
		(void)close(fd);
	if (st == ST_OK && part == AUTH_PART_SECRET) {
		c->lease.version = version;
		c->lease.expires_s = expires_s;
	}
	return st;
}

static void
on_answer(void *ctx, enum status st, struct ask_msg *m)
{
	struct lease_part *p = ctx;
	struct lease_call *c = p->call;

	p->is_asked = false;
	c->waits--;
	if (st == ST_OK)
		st = read_answer(c, (size_t)(p - c->part), m);
	else
		st = ST_NO_KEEPER;
	if (c->st == ST_OK)
		c->st = st;
	if (c->waits == 0 || c->st != ST_OK)
		finish(c);
}

static enum status
ask_part(struct lease_call *c, const struct lease_wish *wish, size_t part)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	size_t fds_n = wish->sandbox >= 0 ? 1 : 0;
	struct str body;
	enum status st;

	buf_init(&b, ask_rule(ASK_LEASE)->size);
	wire_put_str(&b, wish->connector);
	wire_put_str(&b, wish->conf->vault[part]);
	st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_call(c->line, ASK_LEASE, ASK_LOAD(body, &wish->sandbox, fds_n),
			      on_answer, &c->part[part], &c->part[part].seq);
	if (st != ST_OK)
		return st == ST_NOMEM ? st : ST_NO_KEEPER;
	c->part[part].is_asked = true;
	c->waits++;
	return ST_OK;
}

enum status
lease_begin(struct connector *all, const struct lease_wish *wish, lease_fn fn,
	    void *ctx, struct lease_call **ret_c)
{
	struct lease_call *c;
	enum status st = ST_OK;

	need(wish->parts != 0);
	if (all->keeper == NULL)
		return ST_NO_KEEPER;
	c = calloc(1, sizeof *c);
	if (c == NULL)
		return ST_NOMEM;
	*c = (struct lease_call){
		.all = all, .line = all->keeper, .fn = fn, .ctx = ctx
	};
	for (size_t i = 0; i < AUTH_PARTS && st == ST_OK; i++) {
		c->part[i].call = c;
		if ((wish->parts & 1u << i) != 0)
			st = ask_part(c, wish, i);
	}
	if (st != ST_OK) {
		lease_cancel(c);
		return st;
	}
	*ret_c = c;
	return ST_OK;
}

void
lease_views(const struct lease *l, struct str ret_parts[AUTH_PARTS])
{
	for (size_t i = 0; i < AUTH_PARTS; i++)
		ret_parts[i] = secret_len(&l->part[i]) == 0
				       ? STR("")
				       : str_of(secret_bytes(&l->part[i]),
						secret_len(&l->part[i]));
}

void
lease_client(const struct lease *l, struct str *ret_chain, struct str *ret_key)
{
	struct str parts[AUTH_PARTS];

	lease_views(l, parts);
	*ret_key = parts[AUTH_PART_SECRET];
	*ret_chain = parts[AUTH_PART_CERTIFICATE].n > 0 ? parts[AUTH_PART_CERTIFICATE]
							: *ret_key;
}

void
lease_done(struct lease *l)
{
	for (size_t i = 0; i < AUTH_PARTS; i++)
		secret_done(&l->part[i]);
}

struct rotate_call {
	struct connector *all;
	struct ask_line *line;
	uint32_t seq;
	bool is_asked;
	rotate_fn fn;
	void *ctx;
};

void
rotate_cancel(struct rotate_call *c)
{
	if (c == NULL)
		return;
	if (c->is_asked)
		ask_cancel(c->line, c->seq);
	loop_defer(c->all->loop, free, c);
}

static void
on_rotated(void *ctx, enum status st, struct ask_msg *m)
{
	struct rotate_call *c = ctx;

	c->is_asked = false;
	if (st == ST_OK) {
		struct wire in = wire_from(m->body);
		uint16_t told = wire_u16(&in);
		(void)wire_u32(&in); /* the version that it became */
		st = told < ST_COUNT && wire_end(&in) == ST_OK ? (enum status)told
							       : ST_NO_KEEPER;
	} else {
		st = ST_NO_KEEPER;
	}
	loop_defer(c->all->loop, free, c);
	c->fn(c->ctx, st);
}

static enum status
ask_rotate(struct rotate_call *c, const struct rotate_wish *wish, int memfd)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct lease_wish *of = &wish->of;
	const int both[] = { of->sandbox, memfd };
	struct str body;
	enum status st;

	buf_init(&b, ask_rule(ASK_ROTATE)->size);
	wire_put_str(&b, of->connector);
	wire_put_str(&b, of->conf->vault[AUTH_PART_SECRET]);
	buf_put_u32(&b, wish->version);
	st = buf_finish(&b, &body);
	if (st != ST_OK)
		return st;
	if (of->sandbox >= 0)
		return ask_call(c->line, ASK_ROTATE, ASK_LOAD(body, both, 2),
				on_rotated, c, &c->seq);
	return ask_call(c->line, ASK_ROTATE, ASK_LOAD(body, &memfd, 1), on_rotated, c,
			&c->seq);
}

enum status
rotate_begin(struct connector *all, const struct rotate_wish *wish, rotate_fn fn,
	     void *ctx, struct rotate_call **ret_c)
{
	struct rotate_call *c;
	enum status st;
	int memfd;

	if (all->keeper == NULL)
		return ST_NO_KEEPER;
	c = calloc(1, sizeof *c);
	memfd = memfd_sealed("value", wish->value);
	if (c == NULL || memfd < 0) {
		if (memfd >= 0)
			(void)close(memfd);
		free(c);
		return ST_NOMEM;
	}
	*c = (struct rotate_call){
		.all = all, .line = all->keeper, .fn = fn, .ctx = ctx
	};
	st = ask_rotate(c, wish, memfd);
	(void)close(memfd);
	if (st != ST_OK) {
		free(c);
		return ST_NO_KEEPER;
	}
	c->is_asked = true;
	*ret_c = c;
	return ST_OK;
}
