#include "proxy/control/pin.h"

#include <stdlib.h>
#include <string.h>

enum { PINNED_MAX = 4096 };

struct pin {
	struct control *control;
	struct ask_line *line;
	uint32_t seq;
	enum ask ask;
	char id[STR_NAME_MAX + 1];
	pin_fn fn;
	void *ctx;
};

bool
pin_is_on(const struct control *c)
{
	return image_text(c->role.image, OPT_EXEC_DOCKER).n > 0;
}

bool
pin_is_there(const struct control *c, struct str id)
{
	return c->pinned.max > 0 && map_get(&c->pinned, id) != NULL;
}

void
pin_forget_all(struct control *c)
{
	if (c->pinned.max > 0)
		map_done(&c->pinned);
	map_init(&c->pinned, PINNED_MAX);
}

/* status, container, port, MAC: for people, in the locator's log; then the addresses. */
static enum status
read_place(struct wire *w, struct pin_found *ret_found)
{
	struct str container = wire_str(w), port = wire_str(w), mac = wire_bytes(w, 6);
	uint8_t n = wire_u8(w);

	(void)container;
	(void)port;
	(void)mac;
	if (n == 0 || n > PIN_ADDRS)
		return ST_BAD_MESSAGE;
	for (size_t i = 0; i < n; i++) {
		struct str b = wire_str(w);
		struct addr a = { .family = b.n == 4 ? 4 : 6 };

		if (b.n != 4 && b.n != 16)
			return ST_BAD_MESSAGE;
		memcpy(a.b, b.p, b.n);
		ret_found->of[i] = a;
	}
	ret_found->n = n;
	return wire_end(w);
}

static enum status
read_answer(enum ask ask, struct str body, struct pin_found *ret_found)
{
	struct wire w = wire_from(body);
	uint16_t told = wire_u16(&w);
	enum status st = told < ST_COUNT ? (enum status)told : ST_BAD_MESSAGE;

	if (st == ST_OK && ask == ASK_LOCATE)
		return read_place(&w, ret_found);
	if (st == ST_OK && ask == ASK_MEASURE)
		ret_found->octets = wire_u64(&w);
	return st == ST_OK ? wire_end(&w) : st;
}

static void
on_answer(void *ctx, enum status st, struct ask_msg *m)
{
	struct pin *p = ctx;
	struct control *c = p->control;
	struct pin_found found = { 0 };

	if (st == ST_END)
		st = ST_NO_LOCATOR;
	if (st == ST_OK)
		st = read_answer(p->ask, m->body, &found);
	/* Of a line that has ended since, nothing is pinned. */
	if (st == ST_OK && p->ask == ASK_PIN)
		st = p->line == c->locator ? map_put(&c->pinned, str_from(p->id), c)
					   : ST_NO_LOCATOR;
	p->fn(p->ctx, st, &found);
	free(p);
}

static enum status
begin(struct control *c, enum ask ask, const struct pin_wish *w, struct pin **ret_pin)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct pin *p;
	enum status st;

	if (c->locator == NULL)
		return ST_NO_LOCATOR;
	if (w->id.n > STR_NAME_MAX)
		return ST_BAD_PARAMETER;
	p = calloc(1, sizeof *p);
	if (p == NULL)
		return ST_NOMEM;
	*p = (struct pin){
		.control = c, .line = c->locator, .ask = ask, .fn = w->fn, .ctx = w->ctx
	};
	memcpy(p->id, w->id.p, w->id.n);
	buf_init(&b, ask_rule(ask)->size);
	if (ask != ASK_MEASURE)
		wire_put_str(&b, w->id);
	if (ask != ASK_PIN)
		wire_put_str(&b, w->upstream);
	if (ask == ASK_LOCATE)
		wire_put_str(&b, w->network);
	st = b.st == ST_OK
		     ? ask_call(c->locator, ask, ASK_LOAD(str_of(b.p, b.len), NULL, 0),
				on_answer, p, &p->seq)
		     : b.st;
	if (st == ST_OK)
		*ret_pin = p;
	else
		free(p);
	/* The line is just ending. */
	return st == ST_END ? ST_NO_LOCATOR : st;
}

enum status
pin_locate(struct control *c, const struct pin_wish *w, struct pin **ret_pin)
{
	return begin(c, ASK_LOCATE, w, ret_pin);
}

enum status
pin_add(struct control *c, const struct pin_wish *w, struct pin **ret_pin)
{
	return begin(c, ASK_PIN, w, ret_pin);
}

enum status
pin_measure(struct control *c, const struct pin_wish *w, struct pin **ret_pin)
{
	return begin(c, ASK_MEASURE, w, ret_pin);
}

void
pin_cancel(struct pin *p)
{
	if (p == NULL)
		return;
	ask_cancel(p->line, p->seq);
	free(p);
}

static void
removed(void *ctx, enum status st, struct ask_msg *m)
{
	struct control *c = ctx;

	if (st == ST_OK) {
		struct wire w = wire_from(m->body);
		uint16_t told = wire_u16(&w);

		st = told < ST_COUNT ? (enum status)told : ST_BAD_MESSAGE;
	}
	/* ST_END: with the line all pins go. */
	if (st != ST_OK && st != ST_NOT_FOUND && st != ST_END)
		log_error(&c->role.log, "a pin stays: %s", status_code(st));
}

void
pin_remove(struct control *c, struct str id)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	enum status st;

	if (c->locator == NULL)
		return;
	(void)map_take(&c->pinned, id);
	buf_init(&b, ask_rule(ASK_UNPIN)->size);
	wire_put_str(&b, id);
	st = b.st == ST_OK
		     ? ask_call(c->locator, ASK_UNPIN,
				ASK_LOAD(str_of(b.p, b.len), NULL, 0), removed, c, NULL)
		     : b.st;
	if (st != ST_OK)
		log_error(&c->role.log, "a pin stays: %s", status_code(st));
}
