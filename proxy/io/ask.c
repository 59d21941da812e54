#include "proxy/io/ask.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/io/sock.h"

enum {
	HEAD = 8,
	MAGIC = 0x5347,
	FLAG_ANSWER = 1,
	/* As many as the kernel passes at once (SCM_MAX_FD): with room for all of them,
	 * a cut control message means that this process ran out of descriptors. */
	PASSED_MAX = 253,
};

#define ROLE(name, exe, max, what) [ROLE_##name] = #name,
static const char *const role_names[ROLE_COUNT] = {
#include "proxy/io/roles.def"
};
#undef ROLE

#define ASK(name, from, to, size, fds, back_fds, deadline, rate)                       \
	[ASK_##name] = { #name, ROLE_##from, ROLE_##to, size,                          \
			 fds,   back_fds,    deadline,  rate },
static const struct ask_rule rules[ASK_COUNT] = {
#include "proxy/io/asks.def"
};
#undef ASK

const char *
role_name(enum role r)
{
	need((size_t)r < ROLE_COUNT);
	return role_names[r];
}

const struct ask_rule *
ask_rule(enum ask a)
{
	need((size_t)a < ASK_COUNT);
	return &rules[a];
}

const char *
ask_name(enum ask a)
{
	return ask_rule(a)->name;
}

bool
ask_is_legal(enum ask a, enum role from, enum role to)
{
	const struct ask_rule *rule = ask_rule(a);

	return rule->from == from && (rule->to == to || rule->to == ROLE_ANY);
}

bool
ask_rate_take(struct ask_rate *r, enum ask a, uint32_t slack, uint64_t now_ms)
{
	uint64_t rate = (uint64_t)ask_rule(a)->per_second * slack, full = rate * 1000;

	if (rate == 0)
		return true;
	uint64_t passed = now_ms - r->at_ms;
	r->milli = passed >= 1000 || r->at_ms == 0 ? full : r->milli + passed * rate;
	r->milli = r->milli > full ? full : r->milli;
	r->at_ms = now_ms;
	if (r->milli < 1000)
		return false;
	r->milli -= 1000;
	return true;
}

/* An answer goes the other way than its ask, and only where one is expected. */
static bool
is_in_turn(enum ask a, bool is_answer, enum role from, enum role to)
{
	if (is_answer)
		return ask_rule(a)->deadline_ms > 0 && ask_is_legal(a, to, from);
	return ask_is_legal(a, from, to);
}

static enum status
send_status(int err)
{
	switch (err) {
	case EAGAIN:
		return ST_AGAIN;
	case EPIPE:
	case ECONNRESET:
	case ENOTCONN:
		return ST_END;
	case EMSGSIZE:
		return ST_TOO_BIG;
	case ETOOMANYREFS:
		return ST_NO_FILES;
	case ENOBUFS:
	case ENOMEM:
		return ST_NOMEM;
	default:
		return ST_SYSTEM;
	}
}

static enum status
send_packet(int fd, const struct msghdr *mh)
{
	ssize_t n;

	do
		n = sendmsg(fd, mh, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? send_status(errno) : ST_OK;
}

static void
attach_fds(struct msghdr *mh, void *control, const int *fds, size_t fds_n)
{
	if (fds_n == 0)
		return;
	mh->msg_control = control;
	mh->msg_controllen = CMSG_SPACE(sizeof(int) * fds_n);
	struct cmsghdr *c = CMSG_FIRSTHDR(mh);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * fds_n);
	memcpy(CMSG_DATA(c), fds, sizeof(int) * fds_n);
}

enum status
ask_send(const struct ask_end *e, enum ask a, bool is_answer, uint32_t seq,
	 struct ask_load load)
{
	const struct ask_rule *rule = ask_rule(a);
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * ASK_FDS_MAX)] = {
		0
	};
	unsigned char head[HEAD] = { MAGIC >> 8, MAGIC & 0xff, (unsigned char)a,
				     is_answer };

	need(is_in_turn(a, is_answer, e->self, e->peer));
	need(load.fds_n <= (is_answer ? rule->back_fds : rule->fds));
	if (load.body.n > rule->size)
		return ST_TOO_BIG;
	for (unsigned i = 0; i < 4; i++)
		head[4 + i] = (unsigned char)(seq >> (24 - 8 * i) & 0xff);
	/* sendmsg() only reads, but its iovec isn't const. */
	struct iovec iov[2] = { { head, HEAD },
				{ (void *)(uintptr_t)load.body.p, load.body.n } };
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = load.body.n > 0 ? 2 : 1 };
	attach_fds(&mh, control, load.fds, load.fds_n);
	return send_packet(e->fd, &mh);
}

/* Keeps one descriptor of a message, or closes it when no ask may carry so many. */
static bool
keep_fd(struct ask_msg *m, const unsigned char *at)
{
	int fd;

	memcpy(&fd, at, sizeof fd);
	if (m->fds_n == ASK_FDS_MAX) {
		sock_close_passed(fd);
		return false;
	}
	m->fds[m->fds_n++] = fd;
	return true;
}

/* False when there are too many. */
static bool
collect_fds(struct msghdr *mh, struct ask_msg *m)
{
	bool fits = true;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++)
			fits = keep_fd(m, CMSG_DATA(c) + i * sizeof(int)) && fits;
	}
	return fits;
}

/* Everything that the table says about a packet that has arrived. */
static bool
parse(const struct ask_end *e, struct str packet, struct ask_msg *m)
{
	struct str head = str_head(packet, HEAD);

	m->body = str_skip(packet, HEAD);
	if (head.n < HEAD || num_be16(head.p) != MAGIC)
		return false;
	unsigned ask = (unsigned char)head.p[2], flags = (unsigned char)head.p[3];
	if (ask >= ASK_COUNT || flags > FLAG_ANSWER)
		return false;
	m->ask = (enum ask)ask;
	m->is_answer = flags & FLAG_ANSWER;
	m->seq = num_be32(head.p + 4);
	const struct ask_rule *rule = ask_rule(m->ask);
	return is_in_turn(m->ask, m->is_answer, e->peer, e->self) &&
	       m->body.n <= rule->size &&
	       m->fds_n <= (m->is_answer ? rule->back_fds : rule->fds);
}

static enum status
recv_packet(int fd, struct msghdr *mh, size_t *ret_n)
{
	ssize_t n;

	do
		n = recvmsg(fd, mh, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN       ? ST_AGAIN
		       : errno == ECONNRESET ? ST_END
					     : ST_SYSTEM;
	*ret_n = (size_t)n;
	return ST_OK;
}

enum status
ask_recv(const struct ask_end *e, char *space, struct ask_msg *ret_msg)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * PASSED_MAX)];
	struct iovec iov = { space, ASK_BODY_MAX + HEAD };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof control };
	struct ask_msg m = { 0 };
	size_t n = 0;

	enum status st = recv_packet(e->fd, &mh, &n);
	if (st != ST_OK)
		return st;
	bool is_good = collect_fds(&mh, &m);
	if (n == 0 && m.fds_n == 0)
		return ST_END;
	if (mh.msg_flags & MSG_CTRUNC) {
		ask_msg_done(&m); /* some without the others are of no use */
		m.lost_fds = true;
	}
	is_good = is_good && !(mh.msg_flags & MSG_TRUNC) &&
		  parse(e, str_of(space, n), &m);
	if (!is_good) {
		ask_msg_done(&m);
		return ST_BAD_MESSAGE;
	}
	*ret_msg = m;
	return ST_OK;
}

int
ask_msg_take(struct ask_msg *m, size_t i)
{
	if (i >= m->fds_n)
		return -1;
	int fd = m->fds[i];
	m->fds[i] = -1;
	return fd;
}

void
ask_msg_done(struct ask_msg *m)
{
	for (size_t i = 0; i < m->fds_n; i++)
		if (m->fds[i] >= 0)
			sock_close_passed(m->fds[i]);
	m->fds_n = 0;
}
