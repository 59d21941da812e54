#include "proxy/cli/tool_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/base/clock.h"

enum { LIMIT_MS = 30000, NOT_THERE = 127 };

static void
child(const char *const *argv, int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	union {
		const char *const *in;
		char *const *out;
	} args = { .in = argv };

	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(NOT_THERE - 1);
	(void)execvp(args.out[0], args.out);
	_exit(errno == ENOENT ? NOT_THERE : NOT_THERE - 1);
}

static enum status
read_all(int fd, struct buf *out)
{
	uint64_t end = clock_mono_ms() + LIMIT_MS;
	char chunk[4096];

	for (;;) {
		uint64_t now = clock_mono_ms();
		struct pollfd p = { .fd = fd, .events = POLLIN };
		if (now >= end)
			return ST_TIMEOUT;
		int ready = poll(&p, 1, (int)(end - now));
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return ready == 0 ? ST_TIMEOUT : ST_SYSTEM;
		ssize_t n = read(fd, chunk, sizeof chunk);
		if (n <= 0)
			return n == 0 ? ST_OK : ST_SYSTEM;
		buf_put(out, str_of(chunk, (size_t)n));
	}
}

static enum status
reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return ST_SYSTEM;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_THERE)
		return ST_NOT_FOUND;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ST_OK : ST_SYSTEM;
}

enum status
tool_run(const char *const *argv, struct buf *out)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return ST_SYSTEM;
	pid_t pid = fork();
	if (pid == 0)
		child(argv, ends[1]);
	(void)close(ends[1]);
	if (pid < 0) {
		(void)close(ends[0]);
		return ST_SYSTEM;
	}
	enum status st = read_all(ends[0], out);
	(void)close(ends[0]);
	if (st != ST_OK)
		(void)kill(pid, SIGKILL); /* ours: just started */
	enum status end = reap(pid);
	return st != ST_OK ? st : end;
}
