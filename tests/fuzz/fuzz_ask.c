/*
 * Whatever packet arrives on a line: either it is refused and leaves no descriptor
 * behind, or it says what the table allows and, sent again, makes the same packet.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/io/ask.h"

enum { PACKET_MAX = 70000, FDS_MAX = 20 };

static void
send_raw(int fd, struct str packet, size_t fds_n)
{
	_Alignas(
		struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * FDS_MAX)] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)packet.p, packet.n };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	int here = STDERR_FILENO;

	if (fds_n > 0) {
		mh.msg_control = control;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * fds_n);
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * fds_n);
		for (size_t i = 0; i < fds_n; i++)
			memcpy(CMSG_DATA(c) + i * sizeof here, &here, sizeof here);
	}
	need(sendmsg(fd, &mh, 0) == (ssize_t)packet.n);
}

static int
lowest_free_fd(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD, 0);

	need(fd >= 0);
	(void)close(fd);
	return fd;
}

static void
check_good(const struct ask_end *to, const struct ask_end *from, struct ask_msg *m,
	   struct str packet)
{
	const struct ask_rule *rule = ask_rule(m->ask);
	char again[PACKET_MAX];

	need(m->is_answer ? ask_is_legal(m->ask, to->self, to->peer)
			  : ask_is_legal(m->ask, to->peer, to->self));
	need(m->body.n <= rule->size);
	need(m->fds_n <= (m->is_answer ? rule->back_fds : rule->fds));
	for (size_t i = 0; i < m->fds_n; i++)
		need(fcntl(m->fds[i], F_GETFD) == FD_CLOEXEC);
	need(ask_send(from, m->ask, m->is_answer, m->seq,
		      ASK_LOAD(m->body, m->fds, m->fds_n)) == ST_OK);
	need(recv(to->fd, again, sizeof again, MSG_DONTWAIT) == (ssize_t)packet.n);
	need(memcmp(again, packet.p, packet.n) == 0);
	ask_msg_done(m);
}

/* No more pass than a second's worth and what the time since has brought. */
static void
rate_is_kept(struct str times)
{
	struct ask_rate r = { 0 };
	uint64_t now = 1000, taken = 0;
	enum ask a = (enum ask)(times.n % ASK_COUNT);
	uint64_t rate = 2 * (uint64_t)ask_rule(a)->per_second;

	for (size_t i = 0; i < times.n && i < 400; i++) {
		now += (uint8_t)times.p[i] % 16;
		taken += ask_rate_take(&r, a, 2, now);
		need(rate > 0 ? taken <= rate + rate * (now - 1000) / 1000
			      : taken == i + 1);
	}
	need(ask_name(a)[0] != '\0' && role_name(ask_rule(a)->from)[0] != '\0');
}

/* What the table has no room for isn't sent; a full line and a peer that left are told
 * apart from trouble. */
static void
ends_are_told(char *space)
{
	static const char body[2000];
	struct ask_msg m;
	int fds[2];

	need(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			fds) == 0);
	struct ask_end from = { fds[0], ROLE_SUPER, ROLE_WORKER };
	struct ask_end to = { fds[1], ROLE_WORKER, ROLE_SUPER };
	enum status st = ST_OK;
	need(ask_recv(&to, space, &m) == ST_AGAIN);
	need(ask_send(&from, ASK_GIVE, false, 1,
		      ASK_LOAD(str_of(body, sizeof body), NULL, 0)) == ST_TOO_BIG);
	for (int i = 0; st == ST_OK && i < 10000; i++)
		st = ask_send(&from, ASK_GIVE, false, 1,
			      ASK_LOAD(str_of(body, 1000), &fds[0], 1));
	need(st == ST_AGAIN);
	need(ask_recv(&to, space, &m) == ST_OK && m.fds_n == 1);
	int fd = ask_msg_take(&m, 0);
	need(fd >= 0 && ask_msg_take(&m, 1) == -1 && close(fd) == 0);
	ask_msg_done(&m);
	(void)close(fds[1]);
	need(ask_send(&from, ASK_GIVE, false, 1, ASK_LOAD(STR(""), NULL, 0)) == ST_END);
	(void)close(fds[0]);
	need(ask_recv(&from, space, &m) == ST_SYSTEM);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ask_msg m;
	int fds[2], before = lowest_free_fd();

	if (size < 4 || size > PACKET_MAX)
		return 0;
	char *space = malloc(ASK_BODY_MAX + 8);
	need(space != NULL &&
	     socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
	struct ask_end from = { fds[0], (enum role)(data[0] % ROLE_COUNT),
				(enum role)(data[1] % ROLE_COUNT) };
	struct ask_end to = { fds[1], from.peer, from.self };
	struct str packet = str_of(data + 3, size - 3);
	send_raw(from.fd, packet, data[2] % FDS_MAX);
	enum status st = ask_recv(&to, space, &m);
	need(st == ST_OK || st == ST_BAD_MESSAGE);
	if (st == ST_OK)
		check_good(&to, &from, &m, packet);
	(void)close(fds[0]);
	(void)close(fds[1]);
	rate_is_kept(packet);
	if (size % 256 == 255)
		ends_are_told(space);
	free(space);
	need(lowest_free_fd() == before);
	return 0;
}
