#include "proxy/cli/usher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/cli/unix_inside.h"

/* A newer kernel may write more than its header of today says. */
enum { NOTICE_MAX = 1024, PATH_ROOM = 64 };

struct wish { /* one held connect() */
	uint64_t id;
	pid_t thread;
	int fd; /* ours, of the caller's socket */
	socklen_t size;
	union {
		struct sockaddr any;
		struct sockaddr_un un;
		struct sockaddr_storage room;
	} to;
};

/* What the caller holds. */

/* pidfd_open() wants the leader of a thread's group. */
static pid_t
leader_of(pid_t thread)
{
	char path[PATH_ROOM], line[256];
	uint64_t id = 0;

	(void)snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
	FILE *f = fopen(path, "re");
	while (f != NULL && id == 0 && fgets(line, sizeof line, f) != NULL) {
		struct str s = str_of(line, strcspn(line, "\n"));
		if (str_starts(s, STR("Tgid:")) &&
		    !num_parse_strict(str_trim(str_skip(s, 5)), INT32_MAX, &id))
			break;
	}
	if (f != NULL)
		(void)fclose(f);
	return (pid_t)id;
}

static int
take_socket(pid_t thread, int number)
{
	pid_t leader = leader_of(thread);
	int process = leader > 0 ? pidfd_open(leader, 0) : -1;
	int fd = process >= 0 ? pidfd_getfd(process, number, 0) : -1;

	if (process >= 0)
		(void)close(process);
	return fd;
}

static int
take(const struct seccomp_notif *n, struct wish *ret_w)
{
	struct wish w = { .id = n->id, .thread = (pid_t)n->pid };
	struct iovec ours = { &w.to, 0 }, theirs = { 0 };

	if ((uint32_t)n->data.args[2] > sizeof w.to)
		return EINVAL;
	w.size = (socklen_t)n->data.args[2];
	theirs.iov_base = (void *)(uintptr_t)n->data.args[1];
	theirs.iov_len = ours.iov_len = w.size;
	if (process_vm_readv(w.thread, &ours, 1, &theirs, 1, 0) != (ssize_t)w.size)
		return EFAULT;
	w.fd = take_socket(w.thread, (int)n->data.args[0]);
	if (w.fd < 0)
		return EBADF;
	*ret_w = w;
	return 0;
}

/* Unix sockets. */

/* The path as the caller sees it, below its own root. */
static int
open_path(const struct wish *w, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC };
	char at[PATH_ROOM];

	if (path[0] == '/')
		how.resolve = RESOLVE_IN_ROOT;
	(void)snprintf(at, sizeof at, "/proc/%d/%s", (int)w->thread,
		       path[0] == '/' ? "root" : "cwd");
	int dir = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
	(void)close(dir);
	return fd;
}

static int
plain_connect(const struct wish *w)
{
	return connect(w->fd, &w->to.any, w->size) < 0 ? errno : 0;
}

/* Should the inode's number have deceived us (32 bits of it are compared): whoever is
 * at the other end has a process number only if it lives inside. */
static int
check_peer(int fd)
{
	struct ucred peer;
	socklen_t n = sizeof peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid > 0)
		return 0;
	(void)shutdown(fd, SHUT_RDWR);
	return EACCES;
}

static int
connect_inode(const struct wish *w, int inode)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct stat st;

	if (fstat(inode, &st) < 0 || !S_ISSOCK(st.st_mode))
		return ECONNREFUSED;
	if (!unix_inside(inode, w->thread))
		return EACCES;
	(void)snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d", inode);
	if (connect(w->fd, (const struct sockaddr *)&to, sizeof to) < 0)
		return errno;
	return check_peer(w->fd);
}

static int
connect_unix(const struct wish *w)
{
	char path[sizeof w->to.un.sun_path + 1] = "";
	size_t at = offsetof(struct sockaddr_un, sun_path);

	if (w->size > sizeof w->to.un)
		return EINVAL;
	/* Abstract names, and none at all, are the network namespace's own. */
	if (w->size <= at || w->to.any.sa_family != AF_UNIX ||
	    w->to.un.sun_path[0] == '\0')
		return plain_connect(w);
	memcpy(path, w->to.un.sun_path, w->size - at);
	int inode = open_path(w, path);
	if (inode < 0)
		return errno;
	int error = connect_inode(w, inode);
	(void)close(inode);
	return error;
}

/* Answers. */

static void
answer(int calls, uint64_t id, int error)
{
	struct seccomp_notif_resp r = { .id = id, .error = -error };

	/* It fails only for a caller that is gone. */
	(void)ioctl(calls, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

/* A socket stays in the network namespace that made it.  Only of the box's own, or one
 * made inside it, will the kernel hand us the namespace. */
static bool
is_made_inside(int fd)
{
	int network = ioctl(fd, SIOCGSKNS);

	if (network >= 0)
		(void)close(network);
	return network >= 0;
}

static int
do_connect(const struct wish *w)
{
	int family = 0;
	socklen_t n = sizeof family;

	if (!is_made_inside(w->fd))
		return EACCES;
	if (getsockopt(w->fd, SOL_SOCKET, SO_DOMAIN, &family, &n) < 0)
		return errno;
	return family == AF_UNIX ? connect_unix(w) : plain_connect(w);
}

/* Nearly every connection to lo is there at once, and a fork costs ten times as much.
 */
static int
connect_at_once(const struct wish *w)
{
	struct timeval one_tick = { 0, 1 }, theirs;
	socklen_t n = sizeof theirs;

	if (getsockopt(w->fd, SOL_SOCKET, SO_SNDTIMEO, &theirs, &n) < 0 ||
	    setsockopt(w->fd, SOL_SOCKET, SO_SNDTIMEO, &one_tick, sizeof one_tick) < 0)
		return errno;
	int error = do_connect(w);
	(void)setsockopt(w->fd, SOL_SOCKET, SO_SNDTIMEO, &theirs, sizeof theirs);
	return error;
}

/* A caller that has to wait gets a process that waits. */
static void
serve(int calls, const struct wish *w)
{
	int flags = fcntl(w->fd, F_GETFL);
	bool may_wait = flags >= 0 && (flags & O_NONBLOCK) == 0;
	int error = may_wait ? connect_at_once(w) : do_connect(w);

	if (may_wait && (error == EINPROGRESS || error == EAGAIN)) {
		pid_t pid = fork();
		if (pid > 0)
			return;
		if (pid == 0) {
			answer(calls, w->id, do_connect(w));
			_exit(0);
		}
	}
	answer(calls, w->id, error);
}

static void
hear_call(int calls)
{
	union {
		struct seccomp_notif n;
		char room[NOTICE_MAX];
	} notice = { .room = { 0 } };
	struct wish w;

	if (ioctl(calls, SECCOMP_IOCTL_NOTIF_RECV, &notice.n) < 0)
		return;
	int error = take(&notice.n, &w);
	/* Gone: its number may be another's now, and what was taken another's too. */
	bool is_there = ioctl(calls, SECCOMP_IOCTL_NOTIF_ID_VALID, &notice.n.id) == 0;
	if (error != 0) {
		answer(calls, notice.n.id, error);
		return;
	}
	if (is_there)
		serve(calls, &w);
	(void)close(w.fd);
}

/* Signals. */

static sigset_t
awaited(void)
{
	static const int all[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP,
				   SIGQUIT, SIGUSR1, SIGUSR2 };
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < COUNT_OF(all); i++)
		(void)sigaddset(&set, all[i]);
	return set;
}

void
usher_prepare(void)
{
	sigset_t set = awaited();

	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

void
usher_forget(void)
{
	sigset_t set = awaited();

	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* True when the command is among those that ended. */
static bool
reap(pid_t command, int *ret_status)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == command) {
			*ret_status = status;
			return true;
		}
	}
	return false;
}

/* A terminal's signal reaches the command's process group by itself. */
static void
hear_signal(int signals, pid_t command)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof info) != (ssize_t)sizeof info)
		return;
	if (info.ssi_signo != SIGCHLD && info.ssi_code <= 0)
		(void)kill(command, (int)info.ssi_signo);
}

int
usher_serve(int calls, pid_t command)
{
	sigset_t set = awaited();
	struct pollfd p[2] = {
		{ .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
		  .events = POLLIN },
		{ .fd = calls, .events = POLLIN },
	};
	int status = 0;

	while (!reap(command, &status)) {
		if (poll(p, COUNT_OF(p), -1) < 0 && errno != EINTR)
			break;
		if (p[0].revents != 0)
			hear_signal(p[0].fd, command);
		if ((p[1].revents & POLLIN) != 0)
			hear_call(p[1].fd);
		else if (p[1].revents != 0) /* nobody left who could call */
			p[1].fd = -1;
	}
	return status;
}
