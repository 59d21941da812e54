#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/super/super.h"

#define ROLE(name, exe, max, what) exe,
static const char *const exe_names[] = {
#include "proxy/io/roles.def"
};
#undef ROLE

enum { LINE_FD = 3, EXEC_FAILED = 127, ARGS_MAX = 8 };
/* A role that lived this long has started well: the next restart is at once. */
enum { LIVED_MS = 10000, BACKOFF_FIRST = 100, BACKOFF_LAST = 2000 };

/* The executables are opened once, so that a restarted role is the same program even
 * while a package manager replaces the files, and its user need not reach the folder.
 */
enum status
spawn_open_exes(struct super *s)
{
	for (enum role r = ROLE_SUPER; r < ROLE_COUNT; r++) {
		s->exes[r] = -1;
		if (r == ROLE_SUPER)
			continue;
		s->exes[r] = openat(s->role_dir, exe_names[r], O_PATH | O_CLOEXEC);
		if (s->exes[r] < 0) {
			log_error(&s->log, "%s: %s", exe_names[r], strerror(errno));
			return ST_SYSTEM;
		}
	}
	return ST_OK;
}

/* In the child, between fork and exec. */

NORETURN static void
child_failed(const struct super *s, const char *what)
{
	log_error(&s->log, "starting a role: %s: %s", what, strerror(errno));
	_exit(EXEC_FAILED);
}

/* 0 and 1 are nothing, 2 the log, 3 the line; all else closes with exec. */
static void
child_descriptors(const struct super *s, int line)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		child_failed(s, "/dev/null");
	if (line == LINE_FD ? fcntl(line, F_SETFD, 0) < 0 : dup2(line, LINE_FD) < 0)
		child_failed(s, "line");
	if (syscall(SYS_close_range, LINE_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		child_failed(s, "close_range");
}

/* One at most: the locator's for nft sets and neighbours, the dialer's for SO_MARK where the
 * configuration names a mark. */
static uint64_t
child_capability(const struct super *s, enum role r)
{
	bool marks = r == ROLE_DIALER && s->policy.image != NULL &&
		     image_number(s->policy.image, OPT_EGRESS_MARK) != 0;

	return r == ROLE_LOCATOR || marks ? 1ULL << CAP_NET_ADMIN : 0;
}

/* Through the change of user, and then (ambient) through exec.  jail_early() leaves it no
 * way to go further. */
static void
child_keep(const struct super *s, uint64_t keep)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	uint32_t bits = (uint32_t)keep;
	struct __user_cap_data_struct data[2] = { { bits, bits, bits }, { 0, 0, 0 } };

	if (syscall(SYS_capset, &head, data) < 0 ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_ADMIN, 0, 0) < 0)
		child_failed(s, "capability");
}

/* Inside a user namespace without that id (EINVAL) the role keeps ours; it drops every
 * capability all the same. */
static void
child_user(const struct super *s, enum role r)
{
	uint64_t keep = child_capability(s, r);

	if (geteuid() != 0 || s->uid == 0)
		return;
	/* While we may: the first capability that this kernel lacks ends the row. */
	for (unsigned long cap = 0; cap < 64; cap++)
		if ((keep >> cap & 1) == 0 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			break;
	if (keep != 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		child_failed(s, "capability");
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		child_failed(s, "setgroups");
	if (setresgid(s->gid, s->gid, s->gid) < 0 && errno != EINVAL)
		child_failed(s, "setresgid");
	if (setresuid(s->uid, s->uid, s->uid) < 0 && errno != EINVAL)
		child_failed(s, "setresuid");
	if (keep != 0)
		child_keep(s, keep);
}

/* Who acts ends with super.  The ledger first stores what the others said before they
 * ended, and the keeper signs it. */
static bool
child_outlives_super(enum role r)
{
	return r == ROLE_LEDGER || r == ROLE_KEEPER;
}

static void
child_signals(const struct super *s, enum role r, pid_t parent)
{
	sigset_t none;

	sigemptyset(&none);
	/* After the user has changed, which clears it. */
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0 ||
	    (!child_outlives_super(r) && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0))
		child_failed(s, "signals");
	if (getppid() != parent)
		_exit(EXEC_FAILED);
}

NORETURN static void
child_exec(const struct super *s, enum role r, const char *const *args)
{
	const char *argv[ARGS_MAX + 2] = { exe_names[r] };
	/* Blocks of arenas (4 KiB) are freed and wanted again with each request: above the
	 * C library's usual 1 KiB that is its slow way. */
	const char *envp[5] = { "LC_ALL=C", "TZ=UTC",
				("GLIBC_TUNABLES=glibc.malloc.tcache_max=4200:"
				 "glibc.malloc.tcache_count=32") };
	const char *asan = getenv("ASAN_OPTIONS");
	char option[512];
	size_t n = 0;

	for (; args[n] != NULL; n++) {
		need(n < ARGS_MAX);
		argv[n + 1] = args[n];
	}
	/* Only sanitized builds look at it. */
	if (asan != NULL &&
	    snprintf(option, sizeof option, "ASAN_OPTIONS=%s", asan) > 0)
		envp[3] = option;
	(void)syscall(SYS_execveat, s->exes[r], "", argv, envp, AT_EMPTY_PATH);
	child_failed(s, exe_names[r]);
}

enum status
spawn_process(struct super *s, enum role r, int line, const char *const *args,
	      pid_t *ret_pid)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		return ST_SYSTEM;
	if (pid > 0) {
		*ret_pid = pid;
		return ST_OK;
	}
	child_descriptors(s, line);
	/* The compiler reads the operator's files, as the operator. */
	if (r != ROLE_COMPILE)
		child_user(s, r);
	child_signals(s, r, parent);
	child_exec(s, r, args);
}

/* A slot's process. */

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
