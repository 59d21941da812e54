#include "proxy/cli/box.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/cli/mask.h"

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
	CLEANUP(buf_done) struct buf u;
	CLEANUP(buf_done) struct buf g;

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
refuse_families(scmp_filter_ctx f)
{
	const uint32_t no = SCMP_ACT_ERRNO(EAFNOSUPPORT);
	const struct scmp_arg_cmp route_only[] = {
		{ 0, SCMP_CMP_EQ, AF_NETLINK, 0 },
		{ 2, SCMP_CMP_NE, 0, 0 }, /* getifaddrs() needs NETLINK_ROUTE */
	};
	const struct scmp_arg_cmp above = { 0, SCMP_CMP_GE, 64, 0 };
	bool ok = seccomp_rule_add_array(f, no, SCMP_SYS(socket), 2, route_only) == 0 &&
		  seccomp_rule_add_array(f, no, SCMP_SYS(socket), 1, &above) == 0;

	for (unsigned family = 0; ok && family < 64; family++) {
		const struct scmp_arg_cmp one = { 0, SCMP_CMP_EQ, family, 0 };
		if (family != AF_UNIX && family != AF_INET && family != AF_INET6 &&
		    family != AF_NETLINK)
			ok = seccomp_rule_add_array(f, no, SCMP_SYS(socket), 1, &one) ==
			     0;
	}
	return ok;
}

/* Families that lead anywhere but to lo or to a masked file, and the ring that makes
 * sockets without asking seccomp. */
static bool
filter_families(void)
{
	static const int rest[] = { SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter),
				    SCMP_SYS(io_uring_register) };
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	bool ok = f != NULL && refuse_families(f);

	for (size_t i = 0; ok && i < COUNT_OF(rest); i++)
		ok = seccomp_rule_add_array(f, SCMP_ACT_ERRNO(ENOSYS), rest[i], 0,
					    NULL) == 0;
	ok = ok && seccomp_load(f) == 0;
	seccomp_release(f);
	return ok;
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
run_command(const struct box_wish *w, uid_t uid, gid_t gid)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		refuse("the inner user namespace was refused");
	if (!map_user(w->root ? 0 : uid, 0, w->root ? 0 : gid, 0))
		refuse("the user could not be mapped");
	if (!w->root && !drop_capabilities())
		refuse("capabilities could not be dropped");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !filter_families())
		refuse("the socket filter could not be set");
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

/* pid 1 of the box: reaps whatever is left to it, ends with the command. */
NORETURN static void
be_init(const struct box_wish *w, FILE *unix_list, uid_t uid, gid_t gid)
{
	CLEANUP(buf_done) struct buf why;
	int status = 0;
	pid_t done;

	buf_init(&why, 4096);
	if (mask_all(unix_list, w->state_dir, &why) != ST_OK) {
		(void)fprintf(stderr, "sandgate exec: %s\n", buf_cstr(&why));
		_exit(EXIT_REFUSED);
	}
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		refuse("/proc could not be mounted (masked paths of an outer "
		       "container?)");
	pid_t pid = fork();
	if (pid < 0)
		refuse("fork");
	if (pid == 0)
		run_command(w, uid, gid);
	while ((done = wait(&status)) != pid)
		if (done < 0 && errno != EINTR)
			refuse("wait");
	_exit(exit_code(status));
}

static void
say_why(int line, struct buf *why)
{
	const char *text = buf_cstr(why);

	if (text != NULL)
		(void)send(line, text, strlen(text), MSG_NOSIGNAL);
}

/* Signals that a terminal or a supervisor sends us are meant for the command. */
static void
pass_on(pid_t to, int *ret_status)
{
	sigset_t set;
	siginfo_t info;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGQUIT);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
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
	CLEANUP(buf_done) struct buf why;
	struct ns_sockets s = { .n = 0 };
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char go = 0;
	int status = 0;

	buf_init(&why, 4096);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
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
