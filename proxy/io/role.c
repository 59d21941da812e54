#include "proxy/io/role.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"
#include "proxy/io/sock.h"

void
give_put(struct buf *b, enum give kind, uint32_t index, struct str text)
{
	buf_put_u8(b, (uint8_t)kind);
	buf_put_u32(b, index);
	wire_put_str(b, text);
}

/* A role that doesn't understand super, or can't reach it, serves nobody. */
NORETURN static void
role_die(const struct role_self *r, const char *what, enum status st)
{
	log_error(&r->log, "ends: %s: %s", what, status_code(st));
	_exit(1);
}

static void
answer(struct role_self *r, const struct ask_msg *m, enum status st,
       uint64_t generation)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	buf_put_u64(&b, generation);
	enum status sent = buf_finish(&b, &body);
	if (sent == ST_OK)
		sent = ask_send(&r->super, m->ask, true, m->seq,
				ASK_LOAD(body, NULL, 0));
	/* That super is gone is heard next.  One that doesn't read a hundred answers is
	 * stuck. */
	if (sent != ST_OK && sent != ST_END)
		role_die(r, "an answer to super", sent);
}

/* GIVE */

static enum status
given_slot(struct role_self *r, uint32_t index, struct str text)
{
	if (index > UINT8_MAX || text.n >= sizeof r->name)
		return ST_BAD_MESSAGE;
	r->slot = r->ids.slot = (uint8_t)index;
	memcpy(r->name, text.p, text.n);
	r->name[text.n] = '\0';
	return ST_OK;
}

static enum status
given_ring(struct role_self *r, struct ask_msg *m)
{
	struct rowring *ring;
	int memfd = ask_msg_take(m, 0), bell = ask_msg_take(m, 1);
	enum status st = rowring_open_writer(memfd, bell, &ring);

	(void)close(memfd);
	if (st != ST_OK) {
		(void)close(bell);
		return st;
	}
	if (r->ring != NULL)
		(void)close(r->bell);
	rowring_close(r->ring);
	r->ring = ring;
	r->bell = bell;
	return ST_OK;
}

static enum status
given_stats(struct role_self *r, struct ask_msg *m)
{
	struct stats *s;

	if (m->fds_n == 0)
		return ST_BAD_MESSAGE;
	enum status st = stats_open(m->fds[0], true, &s);
	if (st == ST_OK) {
		stats_close(r->stats);
		r->stats = s;
	}
	return st;
}

static enum status
given_shapes(struct role_self *r, struct str text)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, sizeof(r->shapes.bytes));
	if (!enc_get_hex(&b, text) || b.len != sizeof(r->shapes.bytes))
		return ST_BAD_MESSAGE;
	memcpy(r->shapes.bytes, b.p, b.len);
	return ST_OK;
}

static enum status
given_other(struct role_self *r, enum give kind, uint32_t index, struct str text,
	    struct ask_msg *m)
{
	if (r->hooks->given == NULL)
		return ST_OK; /* what it carried is closed with the message */
	return r->hooks->given(r->hooks->ctx, kind, index, text, m);
}

static enum status
heard_give(struct role_self *r, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	uint8_t kind = wire_u8(&w);
	uint32_t index = wire_u32(&w);
	struct str text = wire_str(&w);
	enum status st = wire_end(&w);

	if (st != ST_OK || kind >= GIVE_COUNT)
		return ST_BAD_MESSAGE;
	if (kind == GIVE_SLOT)
		return given_slot(r, index, text);
	if (kind == GIVE_SHAPES)
		return given_shapes(r, text);
	if (kind == GIVE_RING)
		return given_ring(r, m);
	if (kind == GIVE_STATS && (r->self != ROLE_CONTROL || index == r->slot))
		st = given_stats(r, m);
	if (st != ST_OK || (kind == GIVE_STATS && r->self != ROLE_CONTROL))
		return st;
	return given_other(r, (enum give)kind, index, text, m);
}

/* Policy */

static enum status
take_generation(const struct ask_msg *m, uint64_t *ret_generation)
{
	struct wire w = wire_from(m->body);
	uint64_t generation = wire_u64(&w);
	enum status st = wire_end(&w);

	if (st == ST_OK)
		*ret_generation = generation;
	return st;
}

static void
forget_prepared(struct role_self *r)
{
	image_close(r->prepared);
	r->prepared = NULL;
	r->prepared_generation = 0;
}

static enum status
prepare(struct role_self *r, struct ask_msg *m, uint64_t generation)
{
	struct image *im;
	int memfd = ask_msg_take(m, 0);

	forget_prepared(r);
	if (memfd < 0)
		return m->lost_fds ? ST_NO_FILES : ST_BAD_MESSAGE;
	enum status st = image_open(memfd, &im);
	(void)close(memfd);
	if (st != ST_OK)
		return st;
	if (r->hooks->prepare != NULL)
		st = r->hooks->prepare(r->hooks->ctx, im, m);
	if (st != ST_OK) {
		image_close(im);
		return st;
	}
	r->prepared = im;
	r->prepared_generation = generation;
	return ST_OK;
}

static enum status
heard_prepare(struct role_self *r, struct ask_msg *m)
{
	uint64_t generation = 0;
	enum status st = take_generation(m, &generation);

	if (st != ST_OK)
		return st;
	/* A refusal is an answer; the policy in force stays. */
	answer(r, m, prepare(r, m, generation), generation);
	return ST_OK;
}

static enum status
commit(struct role_self *r, uint64_t generation)
{
	struct image *old = r->image;

	if (r->prepared == NULL || r->prepared_generation != generation)
		return ST_CONFLICT;
	enum status st = who_set_image(r->who, r->prepared);
	if (st != ST_OK)
		return st;
	r->image = r->prepared;
	r->generation = generation;
	r->prepared = NULL;
	r->log.level = (enum log_level)image_number(r->image, OPT_LOG_LEVEL);
	if (r->hooks->commit != NULL)
		r->hooks->commit(r->hooks->ctx, old);
	image_close(old);
	return ST_OK;
}

static enum status
heard_commit(struct role_self *r, struct ask_msg *m)
{
	uint64_t generation = 0;
	enum status st = take_generation(m, &generation);

	if (st == ST_OK)
		answer(r, m, commit(r, generation), generation);
	return st;
}

static enum status
heard_abort(struct role_self *r, struct ask_msg *m)
{
	uint64_t generation = 0;
	enum status st = take_generation(m, &generation);

	if (st == ST_OK && r->prepared != NULL && r->prepared_generation == generation)
		forget_prepared(r);
	return st;
}

/* Sandboxes, start and end */

static void
tell_sandbox(struct role_self *r, uint32_t handle, bool present)
{
	const struct who *w = who_by_handle(r->who, handle);

	if (w != NULL && r->hooks->sandbox != NULL)
		r->hooks->sandbox(r->hooks->ctx, w, present);
}

struct sandbox_told {
	struct who_entry entry; /* views into the message */
	bool is_present;
	struct addr sources[WHO_SOURCES];
	struct str narrow;
};

static bool
take_source(struct wire *w, struct addr *ret_a)
{
	struct str bytes = wire_str(w);
	struct addr a = { .family = bytes.n == 4 ? 4 : 6 };

	if (bytes.n != 4 && bytes.n != 16)
		return false;
	memcpy(a.b, bytes.p, bytes.n);
	*ret_a = a;
	return true;
}

static enum status
read_sandbox(struct ask_msg *m, struct sandbox_told *t)
{
	struct wire w = wire_from(m->body);
	struct who_entry *e = &t->entry;

	e->handle = wire_u32(&w);
	t->is_present = wire_u8(&w) != 0;
	e->netns_cookie = wire_u64(&w);
	e->id = wire_str(&w);
	e->user = wire_str(&w);
	e->agent = wire_str(&w);
	e->session = wire_str(&w);
	e->policy = wire_str(&w);
	e->trusts_ca = wire_u8(&w) != 0;
	e->sources = t->sources;
	for (uint8_t n = wire_u8(&w); n > 0; n--)
		if (e->sources_n == WHO_SOURCES ||
		    !take_source(&w, &t->sources[e->sources_n++]))
			return ST_BAD_MESSAGE;
	bool is_narrowed = wire_u8(&w) != 0;
	t->narrow = wire_str(&w);
	e->narrow = is_narrowed ? &t->narrow : NULL;
	return wire_end(&w);
}

static enum status
heard_sandbox(struct role_self *r, struct ask_msg *m)
{
	struct sandbox_told t = { .is_present = false };
	enum status st = read_sandbox(m, &t);

	if (st != ST_OK)
		return st;
	if (t.is_present) {
		st = who_attach(r->who, &t.entry);
		if (st == ST_OK) {
			tell_sandbox(r, t.entry.handle, true);
			return ST_OK;
		}
		/* unknown here, so denied here; the others go on */
		log_error(&r->log, "sandbox %.*s: %s", STR_ARG(t.entry.id),
			  status_code(st));
	}
	tell_sandbox(r, t.entry.handle, false);
	who_detach(r->who, t.entry.handle);
	return ST_OK;
}

static enum status
heard_start(struct role_self *r, struct ask_msg *m)
{
	if (r->is_started)
		return ST_CONFLICT;
	r->is_started = true;
	r->start_seq = m->seq;
	return ST_OK;
}

static enum status
heard_drain(struct role_self *r, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	uint32_t deadline = wire_u32(&w);
	enum status st = wire_end(&w);

	if (st != ST_OK)
		return st;
	if (r->hooks->drain != NULL)
		r->hooks->drain(r->hooks->ctx, deadline, m->seq);
	else
		role_drained(r, m->seq);
	return ST_OK;
}

static enum status
heard_answer(struct role_self *r, struct ask_msg *m)
{
	if (r->hooks->answered == NULL)
		return ST_BAD_MESSAGE;
	r->hooks->answered(r->hooks->ctx, m);
	return ST_OK;
}

typedef enum status (*heard_fn)(struct role_self *r, struct ask_msg *m);

static const struct {
	enum ask ask;
	heard_fn fn;
} from_super[] = {
	{ ASK_GIVE, heard_give },     { ASK_PREPARE, heard_prepare },
	{ ASK_COMMIT, heard_commit }, { ASK_ABORT, heard_abort },
	{ ASK_START, heard_start },   { ASK_SANDBOX, heard_sandbox },
	{ ASK_DRAIN, heard_drain },
};

static enum status
dispatch(struct role_self *r, struct ask_msg *m)
{
	if (m->is_answer)
		return heard_answer(r, m);
	for (size_t i = 0; i < COUNT_OF(from_super); i++)
		if (from_super[i].ask == m->ask)
			return from_super[i].fn(r, m);
	return ST_BAD_MESSAGE;
}

/* One message: ST_OK, ST_AGAIN, ST_END; anything else ends the process. */
static enum status
hear_one(struct role_self *r)
{
	struct ask_msg m;
	enum status st = ask_recv(&r->super, r->space, &m);

	if (st == ST_AGAIN || st == ST_END)
		return st;
	if (st != ST_OK)
		role_die(r, "a message of super", st);
	st = dispatch(r, &m);
	ask_msg_done(&m);
	if (st != ST_OK)
		role_die(r, ask_name(m.ask), st);
	return ST_OK;
}

/* A write to a closed pipe or socket gives an error, not death.  What a terminal or
 * `timeout` sends to the whole group is for super, who drains us and ends us. */
static void
ignore_signals(struct role_self *r)
{
	static const int ignored[] = { SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	for (size_t i = 0; i < COUNT_OF(ignored); i++)
		if (signal(ignored[i], SIG_IGN) == SIG_ERR)
			role_die(r, "signal", ST_SYSTEM);
}

void
role_start(struct role_self *r, enum role self, const struct role_hooks *hooks)
{
	struct log log = { .role = r->name, .level = LOG_INFO };

	*r = (struct role_self){ .self = self, .hooks = hooks };
	r->log = log;
	(void)snprintf(r->name, sizeof r->name, "%s", role_name(self));
	r->super = (struct ask_end){ ROLE_SUPER_FD, self, ROLE_SUPER };
	ignore_signals(r);
	r->space = malloc(ASK_BODY_MAX + 8);
	if (r->space == NULL || who_new(&r->who) != ST_OK)
		role_die(r, "start", ST_NOMEM);
	while (!r->is_started)
		if (hear_one(r) != ST_OK)
			_exit(0); /* super ended before it needed us */
}

/* status u16, generation u64, then what its jail is made of: no new privileges u8,
 * seccomp u8, version of Landlock u8 (0: none). */
static void
answer_start(struct role_self *r, const struct jail_report *report)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u16(&b, ST_OK);
	buf_put_u64(&b, r->generation);
	buf_put_u8(&b, report->no_new_privs);
	buf_put_u8(&b, report->seccomp);
	buf_put_u8(&b, (uint8_t)report->landlock_abi);
	need(b.st == ST_OK);
	enum status st = ask_send(&r->super, ASK_START, true, r->start_seq,
				  ASK_LOAD(str_of(b.p, b.len), NULL, 0));
	if (st != ST_OK && st != ST_END)
		role_die(r, "an answer to super", st);
}

void
role_enter(struct role_self *r, const char *writable)
{
	struct jail_report report;
	enum status st = sock_set_nonblock(r->super.fd);

	need(r->is_started);
	if (st == ST_OK)
		st = jail_enter(r->self, writable, &report);
	if (st != ST_OK)
		role_die(r, "jail", st);
	answer_start(r, &report);
}

enum status
role_heard(struct role_self *r)
{
	enum status st;

	do
		st = hear_one(r);
	while (st == ST_OK);
	return st == ST_AGAIN ? ST_OK : st;
}

void
role_drained(struct role_self *r, uint32_t seq)
{
	struct ask_msg drain = { .ask = ASK_DRAIN, .seq = seq };

	answer(r, &drain, ST_OK, r->generation);
}
