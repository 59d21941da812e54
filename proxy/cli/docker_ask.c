#include "proxy/cli/docker_ask.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy/base/buf.h"
#include "proxy/base/clock.h"
#include "proxy/base/num.h"

enum { WAIT_S = 5, REQUEST_MAX = 512, LINE_MAX_N = 64, CODE_OK = 200, CODE_NONE = 404 };

static int
connect_to(struct str path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct timeval wait = { WAIT_S, 0 };
	int fd;

	if (path.n == 0 || path.n >= sizeof sa.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(sa.sun_path, path.p, path.n);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 &&
	    (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) < 0 ||
	     connect(fd, (const struct sockaddr *)&sa, sizeof sa) < 0)) {
		int why = errno;
		(void)close(fd);
		errno = why;
		return -1;
	}
	return fd;
}

/* The whole answer has its time, not each part of it: one that trickles is silent, too. */
static enum status
wait_for(int fd, uint64_t until_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t now;

	while ((now = clock_mono_ms()) < until_ms) {
		int n = poll(&p, 1, (int)(until_ms - now));
		if (n > 0)
			return ST_OK;
		if (n < 0 && errno != EINTR)
			return ST_SYSTEM;
	}
	return ST_UPSTREAM_TIMEOUT;
}

/* The first line, or what came of it. */
static enum status
exchange(int fd, struct str request, char *line, size_t max, size_t *ret_n)
{
	uint64_t until_ms = clock_mono_ms() + WAIT_S * 1000ULL;
	size_t n = 0;

	if (send(fd, request.p, request.n, MSG_NOSIGNAL) != (ssize_t)request.n)
		return ST_SYSTEM;
	while (n < max && !str_has(str_of(line, n), '\n')) {
		enum status st = wait_for(fd, until_ms);
		if (st != ST_OK)
			return st;
		ssize_t got = recv(fd, line + n, max - n, MSG_DONTWAIT);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0)
			return ST_SYSTEM;
		if (got == 0)
			break;
		n += (size_t)got;
	}
	*ret_n = n;
	return ST_OK;
}

/* "HTTP/1.1 200 OK" */
static enum status
judge(struct str line)
{
	struct str version = str_cut(&line, ' ');
	uint64_t code = 0;

	if (!str_starts(version, STR("HTTP/1.")) ||
	    !num_parse_strict(str_head(line, 3), 999, &code))
		return ST_UPSTREAM_BAD;
	if (code == CODE_NONE)
		return ST_NOT_FOUND;
	return code == CODE_OK ? ST_OK : ST_UPSTREAM_BAD;
}

enum status
docker_ask_network(struct str socket, struct str network)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	char line[LINE_MAX_N];
	size_t n = 0;
	struct str request = STR("");
	int fd = connect_to(socket);

	/* A queue of connections that nobody takes. */
	if (fd < 0)
		return errno == EAGAIN ? ST_UPSTREAM_TIMEOUT : ST_SYSTEM;
	buf_init(&b, REQUEST_MAX);
	buf_put(&b, STR("GET /networks/"));
	buf_put(&b, network);
	buf_put(&b, STR(" HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n"));
	enum status st = buf_finish(&b, &request);
	if (st == ST_OK)
		st = exchange(fd, request, line, sizeof line, &n);
	int why = errno;
	(void)close(fd);
	errno = why;
	return st == ST_OK ? judge(str_of(line, n)) : st;
}
