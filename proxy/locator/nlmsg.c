#include "proxy/locator/nlmsg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum status
nlmsg_open(int family, int *ret_fd)
{
	struct timeval wait = { .tv_sec = NLMSG_WAIT_MS / 1000 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);

	if (fd < 0)
		return ST_SYSTEM;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0) {
		(void)close(fd);
		return ST_SYSTEM;
	}
	*ret_fd = fd;
	return ST_OK;
}

/* Writing. */

void
nlmsg_raw(struct buf *b, const void *p, size_t n)
{
	static const char zero[4];

	buf_put(b, str_of(p, n));
	buf_put(b, str_of(zero, (4 - n % 4) % 4));
}

size_t
nlmsg_begin(struct buf *b, uint16_t type, uint16_t flags)
{
	struct nlmsghdr h = { .nlmsg_type = type,
			      .nlmsg_flags = (uint16_t)(flags | NLM_F_REQUEST) };
	size_t at = b->len;

	nlmsg_raw(b, &h, sizeof h);
	return at;
}

void
nlmsg_end(struct buf *b, size_t at)
{
	uint32_t n = (uint32_t)(b->len - at);

	if (b->st == ST_OK)
		memcpy(b->p + at, &n, sizeof n);
}

void
nlmsg_attr(struct buf *b, uint16_t type, const void *p, size_t n)
{
	struct nlattr a = { .nla_len = (uint16_t)(sizeof a + n), .nla_type = type };

	nlmsg_raw(b, &a, sizeof a);
	nlmsg_raw(b, p, n);
}

size_t
nlmsg_nest(struct buf *b, uint16_t type)
{
	size_t at = b->len;

	nlmsg_attr(b, (uint16_t)(type | NLA_F_NESTED), NULL, 0);
	return at;
}

void
nlmsg_nest_end(struct buf *b, size_t at)
{
	uint16_t n = (uint16_t)(b->len - at);

	if (b->st == ST_OK)
		memcpy(b->p + at, &n, sizeof n);
}

/* Reading. */

bool
nlmsg_next(struct str *rest, struct nlmsg_part *ret_part)
{
	struct nlattr a;

	if (rest->n < sizeof a)
		return false;
	memcpy(&a, rest->p, sizeof a);
	if (a.nla_len < sizeof a || a.nla_len > rest->n)
		return false;
	/* Without its two flags. */
	ret_part->type = a.nla_type & 0x3fff;
	ret_part->value = str_of(rest->p + sizeof a, a.nla_len - sizeof a);
	*rest = str_skip(*rest, ((size_t)a.nla_len + 3) & ~(size_t)3);
	return true;
}

uint32_t
nlmsg_u32(struct str value)
{
	uint32_t v = 0;

	if (value.n == sizeof v)
		memcpy(&v, value.p, sizeof v);
	return v;
}

static enum status
of_error(struct str body)
{
	int32_t error = 0;

	if (body.n < sizeof error)
		return ST_BAD_MESSAGE;
	memcpy(&error, body.p, sizeof error);
	if (error == 0)
		return ST_OK;
	if (error == -ENOENT || error == -ESRCH || error == -ENODEV)
		return ST_NOT_FOUND;
	return error == -EPERM || error == -EACCES ? ST_DENIED : ST_SYSTEM;
}

static bool
next_message(struct str *rest, struct nlmsghdr *ret_h, struct str *ret_body)
{
	if (rest->n < sizeof *ret_h)
		return false;
	memcpy(ret_h, rest->p, sizeof *ret_h);
	if (ret_h->nlmsg_len < sizeof *ret_h || ret_h->nlmsg_len > rest->n)
		return false;
	*ret_body = str_of(rest->p + sizeof *ret_h, ret_h->nlmsg_len - sizeof *ret_h);
	*rest = str_skip(*rest, ((size_t)ret_h->nlmsg_len + 3) & ~(size_t)3);
	return true;
}

/* Anybody of our user may send to our port: only the kernel's, which has no number of its
 * own, is an answer. */
static enum status
receive(int fd, struct buf *b, struct str *ret_all)
{
	struct sockaddr_nl from = { 0 };
	struct iovec iov;
	struct msghdr m = { .msg_name = &from,
			    .msg_namelen = sizeof from,
			    .msg_iov = &iov,
			    .msg_iovlen = 1 };
	ssize_t n;

	buf_clear(b);
	iov.iov_base = buf_space(b, NLMSG_MAX);
	iov.iov_len = NLMSG_MAX;
	if (iov.iov_base == NULL)
		return ST_NOMEM;
	do {
		n = recvmsg(fd, &m, 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? ST_TIMEOUT : ST_SYSTEM;
	if (from.nl_pid != 0 || (m.msg_flags & MSG_TRUNC) != 0)
		return ST_BAD_MESSAGE;
	*ret_all = str_of(iov.iov_base, (size_t)n);
	return ST_OK;
}

/* What an ask before left there when it gave up. */
static void
drop_old(int fd)
{
	char one;

	while (recv(fd, &one, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0)
		;
}

static enum status
transmit(int fd, const struct buf *b)
{
	struct str all;
	enum status st = buf_finish(b, &all);

	if (st != ST_OK)
		return st;
	drop_old(fd);
	return send(fd, all.p, all.n, MSG_NOSIGNAL) == (ssize_t)all.n ? ST_OK
								      : ST_SYSTEM;
}

enum status
nlmsg_ask(int fd, const struct buf *b, size_t acks)
{
	CLEANUP(buf_done) struct buf space = { 0 };
	enum status st = transmit(fd, b), said = ST_OK;
	struct nlmsghdr h;
	struct str all, body;

	buf_init(&space, NLMSG_MAX);
	while (st == ST_OK && acks > 0) {
		st = receive(fd, &space, &all);
		while (st == ST_OK && next_message(&all, &h, &body)) {
			if (h.nlmsg_type != NLMSG_ERROR)
				continue;
			if (said == ST_OK)
				said = of_error(body);
			acks -= acks > 0;
		}
		/* A batch that is refused is not acknowledged any further. */
		if (said != ST_OK)
			return said;
	}
	return st;
}

enum status
nlmsg_query(int fd, const struct buf *b, nlmsg_fn fn, void *ctx)
{
	CLEANUP(buf_done) struct buf space = { 0 };
	enum status st = transmit(fd, b);
	struct nlmsghdr h;
	struct str all, body;

	buf_init(&space, NLMSG_MAX);
	while (st == ST_OK) {
		st = receive(fd, &space, &all);
		while (st == ST_OK && next_message(&all, &h, &body)) {
			if (h.nlmsg_type == NLMSG_DONE)
				return ST_OK;
			if (h.nlmsg_type == NLMSG_ERROR)
				return of_error(body);
			fn(ctx, h.nlmsg_type, body);
			if ((h.nlmsg_flags & NLM_F_MULTI) == 0)
				return ST_OK;
		}
	}
	return st;
}
