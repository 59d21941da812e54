#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/control/control.h"
#include "proxy/http/h1_write.h"

enum {
	READ_MAX = 16384,
	HEAD_MAX = 16384,
	ARENA_MAX = 131072,
	OUT_MAX = 4 * 1024 * 1024
};
/* A request must be here within this, and its answer be taken. */
enum { REQUEST_MS = 10000, ANSWER_MS = 10000 };

static const struct h1_limits limits = { .fields = 64, .line = 8192, .head = HEAD_MAX };

/* The end. */

static void
conn_release(void *ctx)
{
	struct admin_conn *a = ctx;

	h1_read_done(&a->reader);
	if (a->has_head)
		h1_body_done(&a->body_reader);
	arena_done(&a->arena);
	buf_done(&a->body);
	buf_done(&a->out);
	json_decref(a->request);
	for (size_t i = 0; i < a->fds_n; i++)
		(void)close(a->fds[i]);
	free(a);
}

/* While super is asked the answer's callback holds the connection: it ends it. */
static void
conn_close(struct admin_conn *a)
{
	if (a->io.fd >= 0) {
		loop_io_clear(&a->io);
		loop_timer_clear(&a->timer);
		(void)close(a->io.fd);
		a->io.fd = -1;
		list_remove(&a->link);
		a->control->conns_n--;
	}
	if (!a->is_asked)
		loop_defer(a->control->loop, conn_release, a);
}

static void
on_late(void *ctx)
{
	conn_close(ctx);
}

/* The answer. */

static void
flush(struct admin_conn *a)
{
	while (a->sent < a->out.len) {
		ssize_t n = send(a->io.fd, a->out.p + a->sent, a->out.len - a->sent,
				 MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			loop_io_want(&a->io, LOOP_WRITE);
			return;
		}
		if (n < 0)
			break;
		a->sent += (size_t)n;
	}
	conn_close(a);
}

void
admin_answer(struct admin_conn *a, uint16_t http, json_t *body)
{
	char *text = body == NULL ? NULL
				  : json_dumps(body, JSON_COMPACT | JSON_ENSURE_ASCII);
	struct str s = str_from(text == NULL ? "{}" : text);

	a->is_asked = false;
	json_decref(body);
	if (a->io.fd >= 0 && !a->is_answered) {
		a->is_answered = true;
		buf_putf(&a->out,
			 "HTTP/1.1 %u %s\r\nContent-Type: application/json\r\n"
			 "Content-Length: %zu\r\nCache-Control: no-store\r\n"
			 "Connection: close\r\n\r\n",
			 http, h1_reason(http), s.n + 1);
		buf_put(&a->out, s);
		buf_putc(&a->out, '\n');
		loop_timer_set(&a->timer, ANSWER_MS);
		flush(a);
	} else {
		conn_close(a);
	}
	free(text);
}

void
admin_refuse(struct admin_conn *a, enum status st, struct str text)
{
	const struct status_words *w = status_words(st);
	json_t *error = json_pack("{s:s,s:s,s:s}", "code", w->code, "message",
				  w->sentence, "hint", w->hint);
	json_t *detail = text.n == 0 ? NULL : json_stringn(text.p, text.n);

	if (detail != NULL)
		(void)json_object_set_new(error, "detail", detail);
	/* 407 is a proxy's word; here the same thing is called 401. */
	admin_answer(a, w->http == 407 ? 401 : w->http,
		     json_pack("{s:o}", "error", error));
}

/* The request. */

static enum status
feed_body(struct admin_conn *a, struct str in)
{
	enum status st = ST_OK;

	while (st == ST_OK) {
		struct str payload = { NULL, 0 };
		size_t used = 0;
		st = h1_body_feed(&a->body_reader, in, &used, &payload);
		in = str_skip(in, used);
		if (st == ST_OK)
			buf_put(&a->body, payload);
		if (a->body.st != ST_OK)
			return a->body.st;
	}
	return st;
}

/* ST_AGAIN: more is to come; ST_END: complete. */
static enum status
feed(struct admin_conn *a, struct str in)
{
	size_t used = 0;
	enum status st;

	if (!a->has_head) {
		st = h1_read_feed(&a->reader, in, &used, &a->head);
		if (st != ST_OK)
			return st;
		in = str_skip(in, used);
		a->has_head = true;
		h1_body_init(&a->body_reader, &a->head, &limits);
		/* Nothing of the body is looked at for someone who may not ask. */
		st = auth_check(a);
		if (st != ST_OK)
			return st;
	}
	return feed_body(a, in);
}

static enum status
parse_body(struct admin_conn *a)
{
	json_error_t error;

	if (a->body.len == 0)
		return ST_OK;
	a->request = json_loadb(a->body.p, a->body.len, JSON_REJECT_DUPLICATES, &error);
	return json_is_object(a->request) ? ST_OK : ST_BAD_REQUEST;
}

static void
fed(struct admin_conn *a, enum status st)
{
	if (st == ST_AGAIN)
		return;
	loop_io_want(&a->io, 0);
	loop_timer_clear(&a->timer);
	if (st == ST_END)
		st = parse_body(a);
	if (st == ST_OK)
		api_request(a);
	else
		admin_refuse(a, st, STR(""));
}

static bool
keep_fds(struct admin_conn *a, struct msghdr *mh)
{
	bool fits = true;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(mh); h != NULL; h = CMSG_NXTHDR(mh, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
			if (a->fds_n < ASK_FDS_MAX)
				a->fds[a->fds_n++] = fd;
			else
				fits = close(fd) < 0; /* false: too many */
		}
	}
	return fits;
}

static void
on_io(void *ctx, unsigned events)
{
	struct admin_conn *a = ctx;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 64)];
	} control;
	char space[READ_MAX];
	struct iovec iov = { space, sizeof space };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof control };

	if (events & LOOP_WRITE) {
		flush(a);
		return;
	}
	ssize_t n = recvmsg(a->io.fd, &mh, MSG_CMSG_CLOEXEC);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		conn_close(a);
	else if (!keep_fds(a, &mh) || (mh.msg_flags & MSG_CTRUNC))
		fed(a, ST_TOO_BIG);
	else
		fed(a, feed(a, str_of(space, (size_t)n)));
}

/* Arrivals. */

static uid_t
peer_uid(int fd)
{
	struct ucred who;
	socklen_t n = sizeof who;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 ? who.uid
								      : (uid_t)-1;
}

static void
accepted(void *ctx, int fd, const struct sockaddr_storage *peer)
{
	struct control *c = ctx;
	uid_t uid = c->admin_is_unix ? peer_uid(fd) : (uid_t)-1;
	bool is_known = !c->admin_is_unix || auth_knows_uid(c, uid);
	struct admin_conn *a =
		is_known && c->conns_n < CONTROL_CONNS ? calloc(1, sizeof *a) : NULL;

	(void)peer;
	if (a == NULL) {
		(void)close(fd);
		return;
	}
	a->control = c;
	a->uid = uid;
	arena_init(&a->arena, ARENA_MAX);
	buf_init(&a->body, CONTROL_BODY_MAX);
	buf_init(&a->out, OUT_MAX);
	h1_read_request(&a->reader, &a->arena, &limits);
	list_append(&c->conns, &a->link);
	c->conns_n++;
	loop_io_init(&a->io, c->loop, fd, on_io, a);
	loop_io_want(&a->io, LOOP_READ);
	loop_timer_init(&a->timer, c->loop, on_late, a);
	loop_timer_set(&a->timer, REQUEST_MS);
}

enum status
admin_open(struct control *c, int fd)
{
	return listen_new(c->loop, fd, NULL, accepted, c, &c->admin);
}
