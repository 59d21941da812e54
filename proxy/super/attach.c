#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/super/super.h"

/* What roles are told. */

static enum status
tell(struct slot *slot, const struct attached *a, bool present)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	buf_init(&b, 2048);
	buf_put_u32(&b, a->handle);
	buf_put_u8(&b, present);
	buf_put(&b, str_of(a->text.p, a->text.len));
	if (buf_finish(&b, &body) != ST_OK)
		return ST_TOO_BIG;
	return slot->line == NULL ? ST_END
				  : ask_tell(slot->line, ASK_SANDBOX, body, NULL, 0);
}

/* Its own sockets, to the one worker that it belongs to and to dns. */
static enum status
give_sockets(struct slot *slot, const struct attached *a)
{
	enum status st = ST_OK;

	for (size_t i = 0; i < a->fds_n && st == ST_OK; i++) {
		bool is_dns = str_starts(str_from(a->kinds[i]), STR("dns-"));
		if (is_dns ? slot->role == ROLE_DNS : slot->index == a->worker)
			st = give(slot, GIVE_ATTACHED, a->handle, a->kinds[i],
				  &a->fds[i], 1);
	}
	return st;
}

enum status
attach_tell_all(struct slot *slot)
{
	enum status st = ST_OK;

	list_each (it, &slot->super->attached) {
		const struct attached *a = LIST_OF(it, struct attached, link);
		if (st == ST_OK)
			st = tell(slot, a, true);
		if (st == ST_OK)
			st = give_sockets(slot, a);
	}
	return st;
}

/* A role that starts just now hears of it with its own start; one that can't be told is
 * killed with its line, and starts again with everything. */
static void
tell_role(struct slot *slot, enum status st)
{
	if (st != ST_OK && st != ST_END)
		log_error(&slot->super->log, "%s: sandbox: %s", slot->name,
			  status_code(st));
}

/* Everybody knows the sandbox before its first connection can arrive. */
static void
tell_everybody(struct super *s, const struct attached *a)
{
	for (size_t i = 1; i < s->slots_n; i++)
		tell_role(&s->slots[i], tell(&s->slots[i], a, true));
	for (size_t i = 1; i < s->slots_n; i++)
		tell_role(&s->slots[i], give_sockets(&s->slots[i], a));
}

static void
tell_gone(struct super *s, const struct attached *a)
{
	for (size_t i = 1; i < s->slots_n; i++) {
		struct slot *slot = &s->slots[i];
		if (slot->role == ROLE_DNS || slot->index == a->worker)
			tell_role(slot,
				  give(slot, GIVE_REVOKED, a->handle, "", NULL, 0));
	}
	for (size_t i = 1; i < s->slots_n; i++)
		tell_role(&s->slots[i], tell(&s->slots[i], a, false));
}

/* The registry. */

static void
attached_free(struct super *s, struct attached *a)
{
	for (size_t i = 0; i < a->fds_n; i++)
		(void)close(a->fds[i]);
	buf_done(&a->text);
	list_remove(&a->link);
	s->attached_n--;
	free(a);
}

static uint8_t
least_loaded(const struct super *s)
{
	size_t load[SUPER_SLOTS] = { 0 }, first = s->first_worker, best = first;

	list_each (it, &s->attached)
		load[LIST_OF(it, struct attached, link)->worker]++;
	for (size_t i = first; i < first + s->workers_n; i++) {
		if (load[i] < load[best])
			best = i;
	}
	return (uint8_t)best;
}

static bool
take_kinds(struct attached *a, struct str kinds)
{
	static const char *const known[] = { "tcp", "proxy", "dns-udp", "dns-tcp" };

	for (size_t i = 0; i < a->fds_n; i++) {
		struct str kind = str_cut(&kinds, ',');
		bool is_known = false;
		for (size_t k = 0; k < COUNT_OF(known); k++)
			is_known = is_known || str_eq(kind, str_from(known[k]));
		if (!is_known)
			return false;
		memcpy(a->kinds[i], kind.p, kind.n);
	}
	return kinds.n == 0;
}

static enum status
read_ask(struct attached *a, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	struct str rest, kinds;

	(void)wire_u32(&w); /* the handle is ours to give */
	(void)wire_u8(&w);
	rest = w.rest;
	a->cookie = wire_u64(&w);
	for (int i = 0; i < 5; i++)
		(void)wire_str(&w);
	(void)wire_u8(&w);
	rest = str_head(rest, rest.n - w.rest.n);
	kinds = wire_str(&w);
	if (wire_end(&w) != ST_OK || a->cookie == 0)
		return ST_BAD_MESSAGE;
	buf_put(&a->text, rest);
	for (; a->fds_n < m->fds_n; a->fds_n++)
		a->fds[a->fds_n] = ask_msg_take(m, a->fds_n);
	return take_kinds(a, kinds) ? a->text.st : ST_BAD_MESSAGE;
}

static enum status
attach(struct super *s, struct ask_msg *m, uint32_t *ret_handle)
{
	struct attached *a;
	enum status st;

	if (s->attached_n >= SUPER_ATTACHED)
		return ST_TOO_BIG;
	if (s->drain != NULL)
		return ST_DRAINING;
	a = calloc(1, sizeof *a);
	if (a == NULL)
		return ST_NOMEM;
	buf_init(&a->text, 2048);
	a->worker = least_loaded(s);
	list_append(&s->attached, &a->link);
	s->attached_n++;
	st = read_ask(a, m);
	if (st != ST_OK) {
		attached_free(s, a);
		return st;
	}
	a->handle = HANDLE_ATTACHED + ++s->attached_last;
	tell_everybody(s, a);
	*ret_handle = a->handle;
	return ST_OK;
}

void
attach_heard(struct slot *control, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	uint32_t handle = HANDLE_NONE;
	enum status st = attach(control->super, m, &handle);

	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	buf_put_u32(&b, handle);
	/* A control that can't hear it is dying. */
	st = ask_answer(control->line, ASK_ATTACH, m->seq, str_of(b.p, b.len), NULL, 0);
	if (st != ST_OK)
		log_error(&control->super->log, "attach: %s", status_code(st));
}

static enum status
detach(struct super *s, uint32_t handle)
{
	list_each (it, &s->attached) {
		struct attached *a = LIST_OF(it, struct attached, link);
		if (a->handle != handle)
			continue;
		tell_gone(s, a);
		attached_free(s, a);
		return ST_OK;
	}
	return ST_NOT_FOUND;
}

void
detach_heard(struct slot *control, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	uint32_t handle = wire_u32(&w);
	enum status st = wire_end(&w);

	if (st == ST_OK)
		st = detach(control->super, handle);
	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	st = ask_answer(control->line, ASK_DETACH, m->seq, str_of(b.p, b.len), NULL, 0);
	if (st != ST_OK)
		log_error(&control->super->log, "detach: %s", status_code(st));
}
