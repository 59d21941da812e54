#include "proxy/cli/inherited.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int
option(int fd, int which)
{
	int value = -1;
	socklen_t n = sizeof value;

	return getsockopt(fd, SOL_SOCKET, which, &value, &n) == 0 ? value : -1;
}

/* One peer for good: sendto() has no say in it, and connect() is the usher's. */
static bool
is_settled(int fd)
{
	struct sockaddr_storage peer;
	socklen_t n = sizeof peer;
	int family = option(fd, SO_DOMAIN), type = option(fd, SO_TYPE);
	bool is_known =
		(family == AF_UNIX &&
		 (type == SOCK_STREAM || type == SOCK_SEQPACKET)) ||
		((family == AF_INET || family == AF_INET6) && type == SOCK_STREAM);

	return is_known && getpeername(fd, (struct sockaddr *)&peer, &n) == 0;
}

static bool
may_have(int fd)
{
	struct stat at;

	if (fstat(fd, &at) < 0)
		return errno == EBADF; /* closed */
	if (S_ISSOCK(at.st_mode))
		return is_settled(fd);
	return S_ISREG(at.st_mode) || S_ISCHR(at.st_mode) || S_ISBLK(at.st_mode) ||
	       S_ISFIFO(at.st_mode);
}

enum status
inherited_check(struct buf *why)
{
	static const char *const names[] = { "input", "output", "error" };

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (may_have(fd))
			continue;
		buf_putf(why,
			 "standard %s is a directory or an unconnected socket, which "
			 "would lead around the gateway; give a file, pipe, terminal "
			 "or connected stream",
			 names[fd]);
		return ST_CONFLICT;
	}
	return ST_OK;
}
