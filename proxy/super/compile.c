#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/compile.h"
#include "proxy/super/super.h"

/*
 * The child that reads the configuration: it alone parses text.  It sends one packet
 * and ends; what it sends is checked here like anything from a peer.
 */
struct compile {
	struct super *super;
	pid_t pid; /* 0: reaped */
	struct loop_io io;
	struct loop_timer late;
	compile_fn fn;
};

enum { COMPILE_MS = 30000 };

size_t
policy_fds_n(const struct policy *p)
{
	size_t n = 0;

	while (n < SUPER_POLICY_FDS && p->fds[n] >= 0)
		n++;
	return n;
}

void
policy_close(struct policy *p)
{
	image_close(p->image);
	p->image = NULL;
	for (size_t i = 0; i < SUPER_POLICY_FDS; i++) {
		if (p->fds[i] >= 0)
			(void)close(p->fds[i]);
		p->fds[i] = -1;
	}
}

static void
compile_free(void *ctx)
{
	free(ctx);
}

static void
finish(struct compile *c, enum status st, struct policy *p, struct str text)
{
	struct super *s = c->super;

	(void)close(c->io.fd);
	loop_io_clear(&c->io);
	loop_timer_clear(&c->late);
	if (c->pid > 0)
		(void)kill(c->pid, SIGKILL); /* it has said what it had to say */
	s->compile = NULL;
	c->fn(s, st, p, text);
	loop_defer(s->loop, compile_free, c);
}

/* The image and its databases, if the child says that all is well. */
static enum status
take_policy(const int *fds, size_t fds_n, struct policy *ret_p)
{
	struct policy p = { 0, NULL, { -1, -1, -1, -1 } };
	enum status st;

	if (fds_n == 0)
		return ST_BAD_MESSAGE;
	for (size_t i = 0; i < fds_n; i++)
		p.fds[i] = fds[i];
	st = image_open(p.fds[0], &p.image);
	if (st == ST_OK)
		*ret_p = p;
	return st;
}

static void
parse_packet(struct compile *c, struct str packet, const int *fds, size_t fds_n)
{
	struct policy p = { 0, NULL, { -1, -1, -1, -1 } };
	struct wire w = wire_from(packet);
	uint16_t told = wire_u16(&w);
	enum status st =
		w.is_bad || told >= ST_COUNT ? ST_BAD_MESSAGE : (enum status)told;

	if (st == ST_OK)
		st = take_policy(fds, fds_n, &p);
	for (size_t i = 0; i < fds_n && st != ST_OK; i++)
		(void)close(fds[i]);
	finish(c, st, &p, w.rest);
}

static void
on_packet(void *ctx, unsigned events)
{
	struct compile *c = ctx;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * SUPER_POLICY_FDS)];
	} control;
	char body[COMPILE_PACKET_MAX + 2];
	struct iovec iov = { body, sizeof body };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof control };
	int fds[SUPER_POLICY_FDS];
	size_t fds_n = 0;
	ssize_t n = recvmsg(c->io.fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		finish(c, ST_BAD_MESSAGE, NULL, STR("the compiler died\n"));
		return;
	}
	struct cmsghdr *h = CMSG_FIRSTHDR(&mh);
	if (h != NULL && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
		fds_n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(h), fds_n * sizeof(int));
	}
	parse_packet(c, str_of(body, (size_t)n), fds, fds_n);
}

static void
on_late(void *ctx)
{
	finish(ctx, ST_TIMEOUT, NULL, STR("the compiler does not end\n"));
}

enum status
compile_start(struct super *s, compile_fn fn)
{
	const char *args[] = { s->config, NULL };
	struct compile *c;
	enum status st;
	int pair[2];

	need(s->compile == NULL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ST_SYSTEM;
	c = calloc(1, sizeof *c);
	st = c == NULL ? ST_NOMEM
		       : spawn_process(s, ROLE_COMPILE, pair[1], args, &c->pid);
	(void)close(pair[1]);
	if (st != ST_OK) {
		(void)close(pair[0]);
		free(c);
		return st;
	}
	c->super = s;
	c->fn = fn;
	loop_io_init(&c->io, s->loop, pair[0], on_packet, c);
	loop_io_want(&c->io, LOOP_READ);
	loop_timer_init(&c->late, s->loop, on_late, c);
	loop_timer_set(&c->late, COMPILE_MS);
	s->compile = c;
	return ST_OK;
}

/* Its packet may still wait to be read: its end is only noted. */
bool
compile_reap(struct super *s, pid_t pid)
{
	if (s->compile == NULL || s->compile->pid != pid)
		return false;
	s->compile->pid = 0;
	return true;
}
