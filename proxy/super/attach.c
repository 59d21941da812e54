#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/super/super.h"

enum { SANDBOX_MAX = 20480, SOURCES_MAX = WHO_SOURCES };

/* What roles are told. */

static enum status
tell(struct slot *slot, const struct attached *a, bool present)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	buf_init(&b, SANDBOX_MAX);
	buf_put_u32(&b, a->handle);
	buf_put_u8(&b, present);
	buf_put(&b, str_of(a->text.p, a->text.len));
	buf_put(&b, str_of(a->narrow.p, a->narrow.len));
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

static size_t
size_of(const struct attached *a)
{
	return a->text.len + a->narrow.len;
}

static void
attached_free(struct super *s, struct attached *a)
{
	for (size_t i = 0; i < a->fds_n; i++)
		(void)close(a->fds[i]);
	s->attached_bytes -= size_of(a);
	buf_done(&a->text);
	buf_done(&a->narrow);
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

/* Lengths only: what it says is the roles' to judge. */

static void
skip_names(struct wire *w, struct str *ret_id)
{
	*ret_id = wire_str(w);
	for (int i = 0; i < 4; i++)
		(void)wire_str(w); /* user, agent, session, policy */
	(void)wire_u8(w);
}

static enum status
skip_sources(struct wire *w)
{
	uint8_t n = wire_u8(w);

	for (uint8_t i = 0; i < n; i++)
		(void)wire_str(w);
	return n >= 1 && n <= SOURCES_MAX ? ST_OK : ST_BAD_MESSAGE;
}

static struct str
passed(struct str whole, const struct wire *w)
{
	return str_head(whole, whole.n - w->rest.n);
}

static enum status
read_attach(struct attached *a, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	struct str rest, kinds, id;

	(void)wire_u32(&w); /* the handle is ours to give */
	(void)wire_u8(&w);
	rest = w.rest;
	a->cookie = wire_u64(&w);
	skip_names(&w, &id);
	rest = passed(rest, &w);
	kinds = wire_str(&w);
	if (wire_end(&w) != ST_OK || a->cookie == 0)
		return ST_BAD_MESSAGE;
	buf_put(&a->text, rest);
	buf_put_u8(&a->text, 0); /* no sources */
	buf_put_u8(&a->narrow, 0);
	buf_put_u16(&a->narrow, 0);
	for (; a->fds_n < m->fds_n; a->fds_n++)
		a->fds[a->fds_n] = ask_msg_take(m, a->fds_n);
	return take_kinds(a, kinds) ? a->text.st : ST_BAD_MESSAGE;
}

struct enrolled { /* views into the ask */
	struct str text, narrow, id;
};

static enum status
read_enroll(const struct ask_msg *m, struct enrolled *ret_e)
{
	struct wire w = wire_from(m->body);
	struct enrolled e;

	(void)wire_u32(&w);
	(void)wire_u8(&w);
	e.text = w.rest;
	uint64_t cookie = wire_u64(&w);
	skip_names(&w, &e.id);
	enum status st = skip_sources(&w);
	e.text = passed(e.text, &w);
	e.narrow = w.rest;
	(void)wire_u8(&w);
	(void)wire_str(&w);
	if (st != ST_OK || wire_end(&w) != ST_OK || cookie != 0)
		return ST_BAD_MESSAGE;
	*ret_e = e;
	return ST_OK;
}

static enum status
attached_new(struct super *s, struct attached **ret_a)
{
	struct attached *a;

	if (s->attached_n >= SUPER_ATTACHED)
		return ST_TOO_BIG;
	if (s->drain != NULL)
		return ST_DRAINING;
	a = calloc(1, sizeof *a);
	if (a == NULL)
		return ST_NOMEM;
	buf_init(&a->text, SANDBOX_MAX);
	buf_init(&a->narrow, SANDBOX_MAX);
	a->worker = least_loaded(s);
	a->handle = HANDLE_ATTACHED + ++s->attached_last;
	list_append(&s->attached, &a->link);
	s->attached_n++;
	*ret_a = a;
	return ST_OK;
}

static enum status
attach(struct super *s, struct ask_msg *m, uint32_t *ret_handle)
{
	struct attached *a;
	enum status st = attached_new(s, &a);

	if (st != ST_OK)
		return st;
	st = read_attach(a, m);
	s->attached_bytes += size_of(a);
	if (st != ST_OK) {
		attached_free(s, a);
		return st;
	}
	tell_everybody(s, a);
	*ret_handle = a->handle;
	return ST_OK;
}

static struct attached *
find_enrolled(struct super *s, struct str id)
{
	list_each (it, &s->attached) {
		struct attached *a = LIST_OF(it, struct attached, link);
		if (a->cookie == 0 && str_eq(a->id, id))
			return a;
	}
	return NULL;
}

static enum status
replace(struct super *s, struct buf *b, struct str bytes)
{
	size_t others = s->attached_bytes - b->len;
	struct buf copy;

	if (bytes.n > SUPER_ATTACHED_BYTES - others)
		return ST_TOO_BIG;
	buf_init(&copy, SANDBOX_MAX);
	buf_put(&copy, bytes);
	if (copy.st != ST_OK) {
		enum status st = copy.st;
		buf_done(&copy);
		return st;
	}
	buf_done(b);
	*b = copy;
	s->attached_bytes = others + bytes.n;
	return ST_OK;
}

static enum status
enroll(struct super *s, const struct ask_msg *m, uint32_t *ret_handle)
{
	struct enrolled e;
	enum status st = read_enroll(m, &e);

	if (st != ST_OK)
		return st;
	struct attached *a = find_enrolled(s, e.id);
	bool is_new = a == NULL;
	if (is_new)
		st = attached_new(s, &a);
	if (st != ST_OK)
		return st;
	st = replace(s, &a->text, e.text);
	if (st == ST_OK) {
		a->id = str_of(a->text.p + (e.id.p - e.text.p), e.id.n);
		st = replace(s, &a->narrow, e.narrow);
	}
	if (st != ST_OK) {
		/* What is kept for the next role's start must be what all know. */
		if (!is_new)
			tell_gone(s, a);
		attached_free(s, a);
		return st;
	}
	tell_everybody(s, a);
	*ret_handle = a->handle;
	return ST_OK;
}

static struct attached *
find_handle(struct super *s, uint32_t handle)
{
	list_each (it, &s->attached) {
		struct attached *a = LIST_OF(it, struct attached, link);
		if (a->handle == handle)
			return a;
	}
	return NULL;
}

static enum status
narrow(struct super *s, const struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	uint32_t handle = wire_u32(&w);
	struct str bytes = w.rest;

	(void)wire_u8(&w);
	(void)wire_str(&w);
	if (wire_end(&w) != ST_OK)
		return ST_BAD_MESSAGE;
	struct attached *a = find_handle(s, handle);
	if (a == NULL || a->cookie != 0)
		return ST_NOT_FOUND;
	enum status st = replace(s, &a->narrow, bytes);
	if (st == ST_OK)
		tell_everybody(s, a);
	return st;
}

static void
answer(struct slot *control, const struct ask_msg *m, const struct buf *b)
{
	/* A control that can't hear it is dying. */
	enum status st = ask_answer(control->line, m->ask, m->seq, str_of(b->p, b->len),
				    NULL, 0);

	if (st != ST_OK)
		log_error(&control->super->log, "%s: %s", ask_name(m->ask),
			  status_code(st));
}

static void
answer_handle(struct slot *control, const struct ask_msg *m, enum status st,
	      uint32_t handle)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	buf_put_u32(&b, handle);
	answer(control, m, &b);
}

static void
answer_status(struct slot *control, const struct ask_msg *m, enum status st)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	answer(control, m, &b);
}

void
attach_heard(struct slot *control, struct ask_msg *m)
{
	uint32_t handle = HANDLE_NONE;
	enum status st = attach(control->super, m, &handle);

	answer_handle(control, m, st, handle);
}

void
enroll_heard(struct slot *control, struct ask_msg *m)
{
	uint32_t handle = HANDLE_NONE;
	enum status st = enroll(control->super, m, &handle);

	answer_handle(control, m, st, handle);
}

void
narrow_heard(struct slot *control, struct ask_msg *m)
{
	answer_status(control, m, narrow(control->super, m));
}

static enum status
detach(struct super *s, uint32_t handle)
{
	struct attached *a = find_handle(s, handle);

	if (a == NULL)
		return ST_NOT_FOUND;
	tell_gone(s, a);
	attached_free(s, a);
	return ST_OK;
}

void
detach_heard(struct slot *control, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	uint32_t handle = wire_u32(&w);
	enum status st = wire_end(&w);

	if (st == ST_OK)
		st = detach(control->super, handle);
	answer_status(control, m, st);
}
