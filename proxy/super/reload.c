#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/super/super.h"

/*
 * One reload: compile, bind what is new, PREPARE to all who serve, and only when each
 * has said yes COMMIT to all.  Anything that fails leaves every role with what it had.
 */
struct reload {
	struct super *super;
	struct ask_line *asker; /* NULL: a signal, or the asker is gone */
	uint32_t seq;
	struct policy next;
	struct listeners listeners;
	size_t waiting; /* answers that are open */
	bool is_committing;
	enum status st; /* the first refusal */
	struct buf messages;
};

/* The end. */

static void
answer(struct reload *r)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	if (r->asker == NULL)
		return;
	buf_init(&b, SUPER_MESSAGE_MAX + 64);
	buf_put_u16(&b, (uint16_t)r->st);
	buf_put_u64(&b, r->super->policy.generation);
	wire_put_str(&b, str_of(r->messages.p, r->messages.len));
	if (buf_finish(&b, &body) != ST_OK ||
	    ask_answer(r->asker, ASK_RELOAD, r->seq, body, NULL, 0) != ST_OK)
		log_error(&r->super->log, "reload: the answer is lost");
}

static void
reload_free(void *ctx)
{
	struct reload *r = ctx;

	policy_close(&r->next);
	buf_done(&r->messages);
	free(r);
}

static void
finish(struct reload *r)
{
	struct super *s = r->super;
	struct str text = str_of(r->messages.p, r->messages.len);
	struct str said = str_ends(text, STR("\n")) ? str_head(text, text.n - 1) : text;
	char detail[64];

	(void)snprintf(detail, sizeof detail, "generation %llu",
		       (unsigned long long)s->policy.generation);
	if (r->st == ST_OK)
		log_info(&s->log, "reload: %s", detail);
	else
		log_error(&s->log, "reload refused: %s %.*s", status_code(r->st),
			  STR_ARG(said));
	super_row(s, ROW_RELOAD, r->st, r->st == ST_OK ? str_from(detail) : text);
	stats_add(s->stats, r->st == ST_OK ? STAT_RELOADS : STAT_RELOADS_REFUSED, 1);
	if (r->st == ST_OK)
		spawn_groups(s);
	answer(r);
	if (s->drain == NULL)
		notify("READY=1");
	s->reload = NULL;
	loop_defer(s->loop, reload_free, r);
}

static void
refuse(struct reload *r, enum status st)
{
	struct super *s = r->super;
	CLEANUP(buf_done) struct buf b = { 0 };

	r->st = st;
	buf_init(&b, 16);
	buf_put_u64(&b, r->next.generation);
	for (size_t i = 1; i < s->slots_n; i++) {
		if (s->slots[i].line != NULL && r->next.generation > 0 &&
		    ask_tell(s->slots[i].line, ASK_ABORT, str_of(b.p, b.len), NULL,
			     0) != ST_OK)
			log_error(&s->log, "%s: ABORT is lost", s->slots[i].name);
	}
	bind_close(&r->listeners);
	finish(r);
}

/* COMMIT. */

static void
committed(void *ctx, enum status st, struct ask_msg *m)
{
	struct slot *slot = ctx;
	struct reload *r = slot->super->reload;
	struct wire w = wire_from(st == ST_OK ? m->body : STR(""));

	if (r == NULL || !slot->is_asked)
		return;
	slot->is_asked = false;
	/* It said yes before: whatever it is now, it must not go on with the old one.
	 */
	if (st != ST_OK || wire_u16(&w) != ST_OK || w.is_bad)
		spawn_kill(slot);
	if (--r->waiting == 0)
		finish(r);
}

static bool
is_same_layout(const struct listeners *a, const struct listeners *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (!b->of[i].is_kept || a->of[i].fds[0] != b->of[i].fds[0])
			return false;
	}
	return true;
}

/* The sockets' indices change with the policy: nothing may be accepted in between. */
static enum status
commit_slot(struct reload *r, struct slot *slot, bool is_same)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	enum status st = ST_OK;

	buf_init(&b, 16);
	buf_put_u64(&b, r->next.generation);
	bool has_listeners = slot->role == ROLE_WORKER || slot->role == ROLE_DNS;
	if (!is_same && has_listeners)
		st = give(slot, GIVE_UNLISTEN, 0, "", NULL, 0);
	if (slot->role == ROLE_KEEPER)
		st = sources_give(slot, r->next.image);
	if (st == ST_OK)
		st = ask_call(slot->line, ASK_COMMIT,
			      ASK_LOAD(str_of(b.p, b.len), NULL, 0), committed, slot,
			      NULL);
	if (st == ST_OK && !is_same)
		st = give_listeners(slot, &r->listeners);
	return st;
}

static void
commit(struct reload *r)
{
	struct super *s = r->super;
	struct listeners old = s->listeners;
	struct policy gone = s->policy;
	bool is_same = is_same_layout(&old, &r->listeners);

	r->is_committing = true;
	for (size_t i = 1; i < s->slots_n; i++) {
		struct slot *slot = &s->slots[i];
		slot->is_asked = slot->state == SLOT_SERVING &&
				 slot->generation == r->next.generation;
		if (!slot->is_asked)
			continue;
		r->waiting++;
		if (commit_slot(r, slot, is_same) != ST_OK)
			spawn_kill(slot);
	}
	s->policy = r->next;
	s->listeners = r->listeners;
	r->next = gone; /* closed with r */
	bind_close(&old);
	/* Those that became ready meanwhile have the old one: they start again. */
	for (size_t i = 1; i < s->slots_n; i++) {
		if (s->slots[i].state == SLOT_SERVING &&
		    s->slots[i].generation != s->policy.generation)
			spawn_kill(&s->slots[i]);
	}
	if (r->waiting == 0)
		finish(r);
}

/* PREPARE. */

static void
one_is_prepared(struct reload *r, struct slot *slot, enum status st)
{
	slot->is_asked = false;
	if (st == ST_OK)
		slot->generation = r->next.generation;
	else if (r->st == ST_OK) {
		r->st = st;
		buf_putf(&r->messages, "%s refuses it: %s\n", slot->name,
			 status_code(st));
	}
	if (--r->waiting > 0)
		return;
	if (r->st == ST_OK) {
		commit(r);
		return;
	}
	for (size_t i = 1; i < r->super->slots_n; i++) {
		if (r->super->slots[i].generation == r->next.generation)
			r->super->slots[i].generation = r->super->policy.generation;
	}
	refuse(r, r->st);
}

static void
prepared(void *ctx, enum status st, struct ask_msg *m)
{
	struct slot *slot = ctx;
	struct reload *r = slot->super->reload;
	struct wire w = wire_from(st == ST_OK ? m->body : STR(""));
	uint16_t told = wire_u16(&w);

	if (r == NULL || !slot->is_asked)
		return;
	if (st == ST_OK)
		st = w.is_bad || told >= ST_COUNT ? ST_BAD_MESSAGE : (enum status)told;
	one_is_prepared(r, slot, st);
}

static void
prepare_all(struct reload *r)
{
	struct super *s = r->super;
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u64(&b, r->next.generation);
	r->waiting = 1; /* ours: nobody's answer ends it while we still ask */
	for (size_t i = 1; i < s->slots_n && r->st == ST_OK; i++) {
		struct slot *slot = &s->slots[i];
		if (slot->state != SLOT_SERVING || slot->line == NULL)
			continue;
		r->st = ask_call(slot->line, ASK_PREPARE,
				 ASK_LOAD(str_of(b.p, b.len), r->next.fds,
					  policy_fds_n(&r->next)),
				 prepared, slot, NULL);
		slot->is_asked = r->st == ST_OK;
		r->waiting += slot->is_asked;
	}
	if (--r->waiting > 0)
		return;
	if (r->st == ST_OK)
		commit(r);
	else
		refuse(r, r->st);
}

void
reload_role_gone(struct slot *slot)
{
	struct reload *r = slot->super->reload;

	if (r == NULL || !slot->is_asked)
		return;
	if (!r->is_committing) {
		one_is_prepared(r, slot, ST_END);
		return;
	}
	slot->is_asked = false;
	if (--r->waiting == 0)
		finish(r);
}

void
reload_asker_gone(struct super *s, const struct ask_line *line)
{
	if (s->reload != NULL && s->reload->asker == line)
		s->reload->asker = NULL;
}

/* The start. */

/* What was made at the start stays as it is; who changed it must hear so. */
static void
note_what_waits(struct reload *r)
{
	static const struct {
		enum option option;
		bool is_number;
		const char *key;
	} fixed[] = {
		{ OPT_STATE_DIR, false, "state_dir" },
		{ OPT_ADMIN_ADDRESS, false, "admin.address" },
		{ OPT_WORKERS, true, "workers" },
	};
	const struct image *next = r->next.image, *now = r->super->policy.image;

	for (size_t i = 0; i < COUNT_OF(fixed); i++) {
		enum option o = fixed[i].option;
		bool is_same =
			fixed[i].is_number
				? image_number(next, o) == image_number(now, o)
				: str_eq(image_text(next, o), image_text(now, o));
		if (!is_same)
			buf_putf(&r->messages,
				 "%s: warning: `%s` has changed; that takes effect "
				 "after a restart\n",
				 r->super->config, fixed[i].key);
	}
}

static void
compiled(struct super *s, enum status st, struct policy *p, struct str text)
{
	struct reload *r = s->reload;
	CLEANUP(buf_done) struct buf why = { 0 };

	buf_init(&why, 1024);
	buf_put(&r->messages, text);
	if (st != ST_OK) {
		refuse(r, st);
		return;
	}
	r->next = *p;
	r->next.generation = ++s->generations;
	note_what_waits(r);
	st = super_check_kernel(r->next.image, &why);
	if (st == ST_OK)
		st = bind_listeners(s, r->next.image, &s->listeners, &why,
				    &r->listeners);
	if (st == ST_OK) {
		prepare_all(r);
		return;
	}
	buf_put(&r->messages, str_of(why.p, why.len));
	buf_putc(&r->messages, '\n');
	refuse(r, st);
}

static void
refuse_at_once(struct super *s, struct ask_line *asker, uint32_t seq)
{
	struct reload r = { .super = s, .asker = asker, .seq = seq, .st = ST_CONFLICT };

	buf_init(&r.messages, 128);
	buf_put(&r.messages, STR("another reload runs, or the gateway stops\n"));
	answer(&r);
	buf_done(&r.messages);
}

void
reload_start(struct super *s, struct ask_line *asker, uint32_t seq)
{
	struct reload *r;
	enum status st;

	if (s->reload != NULL || s->compile != NULL || s->drain != NULL ||
	    !s->is_ready) {
		refuse_at_once(s, asker, seq);
		return;
	}
	r = calloc(1, sizeof *r);
	if (r == NULL)
		return; /* the asker's deadline tells it */
	*r = (struct reload){ .super = s, .asker = asker, .seq = seq, .st = ST_OK };
	for (size_t i = 0; i < SUPER_POLICY_FDS; i++)
		r->next.fds[i] = -1;
	buf_init(&r->messages, SUPER_MESSAGE_MAX);
	s->reload = r;
	notify_reloading();
	st = compile_start(s, compiled);
	if (st != ST_OK)
		refuse(r, st);
}
