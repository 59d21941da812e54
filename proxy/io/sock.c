#include "proxy/io/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* <linux/netfilter_ipv4.h> and its IPv6 twin clash with <netinet/in.h>; their two
 * numbers are part of the kernel's interface. */
enum { ORIGINAL_DST = 80 };

enum status
sock_set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 ||
	    (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0))
		return ST_SYSTEM;
	return ST_OK;
}

void
sock_close_passed(int fd)
{
	const struct linger none = { 0, 0 };
	struct linger was = none;
	socklen_t n = sizeof was;

	if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &was, &n) == 0 && was.l_onoff != 0 &&
	    was.l_linger != 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	(void)close(fd);
}

/* accept(2): errors of the network that waited on the new socket are reported here. */
static enum status
accept_status(int err)
{
	switch (err) {
	case EAGAIN:
		return ST_AGAIN;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		return ST_NO_FILES;
	case EBADF:
	case EFAULT:
	case EINVAL:
	case ENOTSOCK:
		return ST_SYSTEM;
	default:
		return ST_CLIENT_GONE;
	}
}

enum status
sock_accept(int listener, struct sockaddr_storage *ret_peer, int *ret_fd)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t n = sizeof peer;
	int fd;

	do
		fd = accept4(listener, (struct sockaddr *)&peer, &n,
			     SOCK_NONBLOCK | SOCK_CLOEXEC);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return accept_status(errno);
	*ret_peer = peer;
	*ret_fd = fd;
	return ST_OK;
}

static enum status
get_cookie(int fd, int option, uint64_t *ret_cookie)
{
	uint64_t cookie = 0;
	socklen_t n = sizeof cookie;

	if (getsockopt(fd, SOL_SOCKET, option, &cookie, &n) != 0 || n != sizeof cookie)
		return ST_SYSTEM;
	*ret_cookie = cookie;
	return ST_OK;
}

enum status
sock_cookie(int fd, uint64_t *ret_cookie)
{
	return get_cookie(fd, SO_COOKIE, ret_cookie);
}

enum status
sock_netns_cookie(int fd, uint64_t *ret_cookie)
{
	return get_cookie(fd, SO_NETNS_COOKIE, ret_cookie);
}

static bool
is_mapped(const struct sockaddr_storage *sa)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)sa;

	return sa->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
}

enum status
sock_original(int fd, struct addr *ret_a, uint16_t *ret_port)
{
	struct sockaddr_storage own = { 0 }, first = { 0 };
	socklen_t n = sizeof first;

	/* The usual case in one call: IPv4, redirected. */
	if (getsockopt(fd, SOL_IP, ORIGINAL_DST, &first, &n) == 0 &&
	    first.ss_family == AF_INET)
		return addr_from_sockaddr((const struct sockaddr *)&first, ret_a,
					  ret_port)
			       ? ST_OK
			       : ST_SYSTEM;
	n = sizeof own;
	if (getsockname(fd, (struct sockaddr *)&own, &n) != 0)
		return ST_SYSTEM;
	int level = own.ss_family == AF_INET || is_mapped(&own) ? SOL_IP : SOL_IPV6;
	n = sizeof first;
	bool is_redirected = getsockopt(fd, level, ORIGINAL_DST, &first, &n) == 0;
	const struct sockaddr_storage *sa = is_redirected ? &first : &own;
	if (!addr_from_sockaddr((const struct sockaddr *)sa, ret_a, ret_port))
		return ST_SYSTEM;
	return ST_OK;
}
