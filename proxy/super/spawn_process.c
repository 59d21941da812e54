/* A role's process, from fork to exec: its descriptors, its user, what is left of its
 * capabilities, and how it ends with us. */
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
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/super/super.h"

#define ROLE(name, exe, max, what) exe,
static const char *const exe_names[] = {
#include "proxy/io/roles.def"
};
#undef ROLE

enum { LINE_FD = 3, EXEC_FAILED = 127, ARGS_MAX = 8 };

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
