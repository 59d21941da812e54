/* The processes of slots: started, given what they need, and started again when they die. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/super/super.h"

/* A role that lived this long has started well: the next restart is at once. */
enum { LIVED_MS = 10000, BACKOFF_FIRST = 100, BACKOFF_LAST = 2000 };

void
spawn_kill(struct slot *slot)
{
	if (slot->pid > 0)
		(void)kill(slot->pid, SIGKILL);
}

static void
slot_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct slot *slot = ctx;

	(void)line;
	switch ((unsigned)m->ask) {
	case ASK_RELOAD:
		reload_start(slot->super, slot->line, m->seq);
		break;
	case ASK_ENROLL:
		enroll_heard(slot, m);
		break;
	case ASK_NARROW:
		narrow_heard(slot, m);
		break;
	case ASK_ATTACH:
		attach_heard(slot, m);
		break;
	case ASK_DETACH:
		detach_heard(slot, m);
		break;
	case ASK_HEALTH:
		health_heard(slot, m);
		break;
	case ASK_REJOIN:
		give_again(slot, m);
		break;
	case ASK_DOCKER:
		docker_heard(slot, m);
		break;
	case ASK_PUBLISH:
		publish_heard(slot, m);
		break;
	case ASK_FORGET:
		give_forget(slot->super);
		if (ask_answer(line, ASK_FORGET, m->seq, STR(""), NULL, 0) != ST_OK)
			log_error(&slot->super->log, "FORGET: the answer is lost");
		break;
	case ASK_STOP:
		if (ask_answer(line, ASK_STOP, m->seq, STR(""), NULL, 0) == ST_OK)
			drain_start(slot->super);
		break;
	default:
		break; /* the table lets nothing else through */
	}
}

/* The process still runs, but nothing it says can be heard any more. */
static void
slot_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct slot *slot = ctx;

	if (why != ST_END)
		log_error(&slot->super->log, "%s: line: %s", slot->name,
			  status_code(why));
	reload_asker_gone(slot->super, line);
	ask_line_free(line);
	slot->line = NULL;
	spawn_kill(slot);
}

static void
restart_now(void *ctx)
{
	struct slot *slot = ctx;

	spawn_slot(slot);
	spawn_policy(slot);
}

static void
restart_later(struct slot *slot)
{
	struct super *s = slot->super;
	uint64_t wait = 0;

	if (loop_now_ms(s->loop) - slot->started_ms > LIVED_MS)
		slot->failures = 0;
	if (slot->failures > 0)
		wait = num_min((size_t)BACKOFF_FIRST << num_min(slot->failures - 1, 8),
			       BACKOFF_LAST);
	slot->failures++;
	slot->restarts++;
	stats_add(s->stats, STAT_RESTARTS, 1);
	loop_timer_set(&slot->again, wait);
}

static void
start_failed(struct slot *slot, const char *what, enum status st)
{
	log_error(&slot->super->log, "%s: %s: %s", slot->name, what, status_code(st));
	spawn_kill(slot); /* its death starts it again */
	if (slot->pid == 0)
		restart_later(slot);
}

static enum status
start_process(struct slot *slot)
{
	struct super *s = slot->super;
	const char *args[] = { slot->name, NULL };
	struct ask_end end = { -1, ROLE_SUPER, slot->role };
	enum status st;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ST_SYSTEM;
	end.fd = pair[0];
	st = spawn_process(s, slot->role, pair[1], args, &slot->pid);
	(void)close(pair[1]);
	if (st == ST_OK)
		st = ask_line_new(s->loop, &end, slot_heard, slot_lost, slot,
				  &slot->line);
	if (st != ST_OK)
		(void)close(pair[0]);
	else
		ask_line_widen(slot->line, (size_t)2 * SUPER_ATTACHED,
			       2 * (size_t)SUPER_ATTACHED_BYTES);
	return st;
}

void
spawn_slot(struct slot *slot)
{
	struct super *s = slot->super;
	enum status st;

	need(slot->pid == 0 && slot->line == NULL);
	if (slot->again.loop == NULL)
		loop_timer_init(&slot->again, s->loop, restart_now, slot);
	slot->state = SLOT_STARTING;
	slot->is_drained = false;
	slot->generation = s->policy.generation;
	slot->started_ms = loop_now_ms(s->loop);
	st = start_process(slot);
	if (st == ST_OK)
		st = give_all(slot);
	if (st != ST_OK)
		start_failed(slot, "start", st);
}

/* The policy, then START. */

static bool
step_is_ok(struct slot *slot, const char *what, enum status st, const struct ask_msg *m)
{
	if (st == ST_OK && m->body.n >= 2) {
		struct wire w = wire_from(m->body);
		uint16_t told = wire_u16(&w);
		st = told < ST_COUNT ? (enum status)told : ST_BAD_MESSAGE;
	}
	if (st == ST_OK)
		return true;
	/* ST_END: it died, which is dealt with where it is reaped. */
	if (st != ST_END)
		start_failed(slot, what, st);
	return false;
}

static void
all_serving(struct super *s)
{
	for (size_t i = 1; i < s->slots_n; i++) {
		if (s->slots[i].state != SLOT_SERVING && !s->slots[i].is_idle)
			return;
	}
	if (!s->is_ready)
		super_ready(s);
}

static void
started(void *ctx, enum status st, struct ask_msg *m)
{
	struct slot *slot = ctx;
	struct super *s = slot->super;

	if (!step_is_ok(slot, "START", st, m))
		return;
	struct wire w = wire_from(str_skip(m->body, 2 + 8)); /* status, generation */
	slot->jail.no_new_privs = wire_u8(&w) != 0;
	slot->jail.seccomp = wire_u8(&w) != 0;
	slot->jail.landlock_abi = wire_u8(&w);
	slot->jail.landlock = slot->jail.landlock_abi > 0;
	slot->state = SLOT_SERVING;
	if (slot->role == ROLE_LEDGER)
		slots_ledger_serves(s);
	super_row(s, ROW_ROLE_START, ST_OK, str_from(slot->name));
	/* A reload has passed it by: again, with the new one. */
	if (slot->generation != s->policy.generation)
		spawn_kill(slot);
	all_serving(s);
	drain_serves(slot);
}

static void
committed(void *ctx, enum status st, struct ask_msg *m)
{
	struct slot *slot = ctx;

	if (!step_is_ok(slot, "COMMIT", st, m))
		return;
	st = attach_tell_all(slot);
	if (st == ST_OK)
		st = ask_call(slot->line, ASK_START, ASK_LOAD(STR(""), NULL, 0),
			      started, slot, NULL);
	if (st != ST_OK)
		start_failed(slot, "START", st);
}

static void
prepared(void *ctx, enum status st, struct ask_msg *m)
{
	struct slot *slot = ctx;
	CLEANUP(buf_done) struct buf b = { 0 };

	if (!step_is_ok(slot, "PREPARE", st, m))
		return;
	buf_init(&b, 16);
	buf_put_u64(&b, slot->generation);
	st = ask_call(slot->line, ASK_COMMIT, ASK_LOAD(str_of(b.p, b.len), NULL, 0),
		      committed, slot, NULL);
	if (st != ST_OK)
		start_failed(slot, "COMMIT", st);
}

void
spawn_policy(struct slot *slot)
{
	struct super *s = slot->super;
	CLEANUP(buf_done) struct buf b = { 0 };
	enum status st;

	if (slot->line == NULL)
		return;
	buf_init(&b, 16);
	buf_put_u64(&b, slot->generation);
	st = ask_call(
		slot->line, ASK_PREPARE,
		ASK_LOAD(str_of(b.p, b.len), s->policy.fds, policy_fds_n(&s->policy)),
		prepared, slot, NULL);
	if (st != ST_OK)
		start_failed(slot, "PREPARE", st);
}

/* Deaths. */

static void
tell_death(struct slot *slot, pid_t pid, int how)
{
	struct super *s = slot->super;
	char text[96];
	int n;

	if (WIFSIGNALED(how))
		n = snprintf(text, sizeof text, "%s (pid %d) was killed by signal %d%s",
			     slot->name, (int)pid, WTERMSIG(how),
			     WTERMSIG(how) == SIGSYS ? " (jail)" : "");
	else
		n = snprintf(text, sizeof text, "%s (pid %d) ended with %d", slot->name,
			     (int)pid, WEXITSTATUS(how));
	if (n <= 0)
		return;
	log_error(&s->log, "%s", text);
	super_row(s, ROW_ROLE_DEATH, ST_INTERNAL, str_from(text));
}

static void
slot_died(struct slot *slot, int how)
{
	struct super *s = slot->super;
	pid_t pid = slot->pid;

	slot->pid = 0;
	slot->state = SLOT_DOWN;
	if (slot->line != NULL) {
		reload_asker_gone(s, slot->line);
		ask_line_free(slot->line);
		slot->line = NULL;
	}
	reload_role_gone(slot);
	if (!slot->is_stopping)
		tell_death(slot, pid, how);
	if (!slot->is_stopping && slot->role == ROLE_LEDGER)
		slots_ledger_died(s);
	if (!s->is_ready && s->drain == NULL)
		super_fail(s, slot->name, ST_INTERNAL);
	else if (!slot->is_stopping)
		restart_later(slot);
	if (s->drain != NULL)
		drain_check(s);
}

void
spawn_reap(struct super *s)
{
	struct slot *slot;
	int how = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &how, WNOHANG)) > 0) {
		if (compile_reap(s, pid))
			continue;
		slot = slot_by_pid(s, pid);
		if (slot != NULL)
			slot_died(slot, how);
	}
}
