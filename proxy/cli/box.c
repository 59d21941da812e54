#include "proxy/cli/box.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/cli/calls.h"
#include "proxy/cli/inherited.h"
#include "proxy/cli/mask.h"
#include "proxy/cli/trust_mount.h"
#include "proxy/cli/usher.h"

enum { EXIT_REFUSED = 125, EXIT_NO_EXEC = 126, EXIT_NOT_FOUND = 127 };

static bool
put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* One user inside, who is `outer` in the namespace above. */
static bool
map_user(uid_t inner_uid, uid_t outer_uid, gid_t inner_gid, gid_t outer_gid)
{
	CLEANUP(buf_done) struct buf u = { 0 };
	CLEANUP(buf_done) struct buf g = { 0 };

	buf_init(&u, 64);
	buf_init(&g, 64);
	buf_putf(&u, "%u %u 1", inner_uid, outer_uid);
	buf_putf(&g, "%u %u 1", inner_gid, outer_gid);
	const char *ut = buf_cstr(&u), *gt = buf_cstr(&g);
	return ut != NULL && gt != NULL && put_text("/proc/self/setgroups", "deny") &&
	       put_text("/proc/self/uid_map", ut) && put_text("/proc/self/gid_map", gt);
}

/* Which setting refused a user namespace?  Named exactly, so that it can be changed. */
static void
explain_refusal(struct buf *why, int error)
{
	static const struct {
		const char *path, *bad, *advice;
	} knobs[] = {
		{ "/proc/sys/kernel/unprivileged_userns_clone", "0",
		  "sysctl kernel.unprivileged_userns_clone is 0; set it to 1" },
		{ "/proc/sys/user/max_user_namespaces", "0",
		  "sysctl user.max_user_namespaces is 0; raise it" },
		{ "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		  "sysctl kernel.apparmor_restrict_unprivileged_userns is 1; give "
		  "sandgate an "
		  "AppArmor profile with userns, or set it to 0" },
	};

	buf_putf(why, "this system refuses user namespaces (%s)", strerror(error));
	for (size_t i = 0; i < COUNT_OF(knobs); i++) {
		char text[16] = "";
		FILE *f = fopen(knobs[i].path, "re");
		if (f != NULL && fgets(text, sizeof text, f) != NULL &&
		    str_eq(str_of(text, strcspn(text, "\n")), str_from(knobs[i].bad)))
			buf_putf(why, ": %s", knobs[i].advice);
		if (f != NULL)
			(void)fclose(f);
	}
}

static bool
drop_capabilities(void)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
			return false;
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return syscall(SYS_capset, &head, none) == 0;
}

NORETURN static void
refuse(const char *what)
{
	(void)fprintf(stderr, "sandgate exec: %s: %s\n", what, strerror(errno));
	_exit(EXIT_REFUSED);
}

/* The command's own process: no way back from here. */
NORETURN static void
run_command(const struct box_wish *w, uid_t uid, gid_t gid, int line)
{
	usher_forget();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		refuse("the inner user namespace was refused");
	if (!map_user(w->root ? 0 : uid, 0, w->root ? 0 : gid, 0))
		refuse("the user could not be mapped");
	if (!w->root && !drop_capabilities())
		refuse("capabilities could not be dropped");
	/* The session's keys (Kerberos tickets, say) are not the command's. */
	(void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !calls_limit(line))
		refuse("the filter of system calls could not be set");
	(void)close_range(3, ~0u, 0);
	(void)execvpe(w->argv[0], w->argv, w->env);
	int code = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NO_EXEC;
	(void)fprintf(stderr, "sandgate exec: %s: %s\n", w->argv[0], strerror(errno));
	_exit(code);
}

static int
exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Behind masks a directory that was entered before would still be the old one. */
static void
enter_again(void)
{
	char cwd[PATH_MAX];

	if (getcwd(cwd, sizeof cwd) == NULL || chdir(cwd) < 0)
		(void)!chdir("/");
}

static void
cover(const struct box_wish *w, FILE *unix_list)
{
	CLEANUP(buf_done) struct buf why = { 0 };

	buf_init(&why, 4096);
	enum status st = mask_all(unix_list, w->state_dir, &why);
	if (st == ST_OK)
		st = trust_mount(&w->trust, &why);
	if (st == ST_OK &&
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		refuse("/proc could not be mounted (masked paths of an outer "
		       "container?)");
	if (st == ST_OK)
		st = mask_kernel(&why);
	if (st != ST_OK) {
		(void)fprintf(stderr, "sandgate exec: %s\n", buf_cstr(&why));
		_exit(EXIT_REFUSED);
	}
	enter_again();
}

/* pid 1 of the box; ends with the command. */
NORETURN static void
be_init(const struct box_wish *w, FILE *unix_list, uid_t uid, gid_t gid)
{
	int ends[2];

	cover(w, unix_list);
	(void)fclose(unix_list);
	usher_prepare();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		refuse("socketpair");
	pid_t pid = fork();
	if (pid < 0)
		refuse("fork");
	if (pid == 0) {
		(void)close(ends[0]);
		run_command(w, uid, gid, ends[1]);
	}
	(void)close(ends[1]);
	int calls = calls_receive(ends[0]);
	(void)close(ends[0]);
	_exit(exit_code(usher_serve(calls, pid)));
}

static void
say_why(int line, struct buf *why)
{
	const char *text = buf_cstr(why);

	if (text != NULL)
		(void)send(line, text, strlen(text), MSG_NOSIGNAL);
}

/* Signals that a terminal or a supervisor sends us are meant for the command: held from
 * before it starts, or one that comes early would end us instead. */
static sigset_t
hold_signals(void)
{
	static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD };
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < COUNT_OF(all); i++)
		(void)sigaddset(&set, all[i]);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	return set;
}

static void
pass_on(pid_t to, int *ret_status)
{
	sigset_t set = hold_signals();
	siginfo_t info;

	while (waitpid(to, ret_status, WNOHANG) == 0) {
		int sig = sigwaitinfo(&set, &info);
		/* A terminal's signal reaches the command's process group by itself. */
		if (sig > 0 && sig != SIGCHLD && info.si_code <= 0)
			(void)kill(to, sig);
	}
}

NORETURN static void
be_maker(const struct box_wish *w, int line, FILE *unix_list)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	struct ns_sockets s = { .n = 0 };
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char go = 0;
	int status = 0;

	buf_init(&why, 4096);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)hold_signals();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC |
		    CLONE_NEWUTS) < 0 ||
	    !map_user(0, uid, 0, gid)) {
		explain_refusal(&why, errno);
		say_why(line, &why);
		_exit(EXIT_REFUSED);
	}
	if (ns_make(&w->ns, &why, &s) != ST_OK || ns_send(line, &s) != ST_OK) {
		say_why(line, &why);
		_exit(EXIT_REFUSED);
	}
	ns_close(&s); /* the gateway holds them now; the sandbox must not */
	if (recv(line, &go, 1, 0) != 1)
		_exit(EXIT_REFUSED);
	/* Only now: the first child in a pid namespace is its init, and the tools that
	 * ns_make() ran would have been that. */
	pid_t init = unshare(CLONE_NEWPID) < 0 ? -1 : fork();
	if (init < 0)
		refuse("the pid namespace was refused");
	if (init == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		be_init(w, unix_list, uid, gid);
	}
	pass_on(init, &status);
	_exit(exit_code(status));
}

enum status
box_start(const struct box_wish *w, struct buf *why, struct box *ret_b)
{
	struct box b = { .maker = -1, .line = -1 };
	int ends[2];

	if (inherited_check(why) != ST_OK)
		return ST_CONFLICT;
	FILE *unix_list = fopen("/proc/self/net/unix", "re");
	if (unix_list == NULL ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		buf_putf(why, "could not start: %s", strerror(errno));
		if (unix_list != NULL)
			(void)fclose(unix_list);
		return ST_SYSTEM;
	}
	b.maker = fork();
	if (b.maker == 0) {
		(void)close(ends[0]);
		be_maker(w, ends[1], unix_list);
	}
	(void)close(ends[1]);
	(void)fclose(unix_list);
	b.line = ends[0];
	enum status st = b.maker < 0 ? ST_SYSTEM : ns_receive(b.line, why, &b.sockets);
	if (st != ST_OK) {
		box_kill(&b);
		return st;
	}
	*ret_b = b;
	return ST_OK;
}

enum status
box_go(struct box *b)
{
	(void)hold_signals();
	return send(b->line, "g", 1, MSG_NOSIGNAL) == 1 ? ST_OK : ST_END;
}

int
box_wait(struct box *b)
{
	int status = 0;

	pass_on(b->maker, &status);
	(void)close(b->line);
	return exit_code(status);
}

void
box_kill(struct box *b)
{
	ns_close(&b->sockets);
	if (b->line >= 0)
		(void)close(b->line); /* the maker waits for a byte and gets none */
	if (b->maker > 0)
		(void)waitpid(b->maker, NULL, 0);
}
