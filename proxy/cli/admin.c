#include "proxy/cli/admin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "conf/image.h"
#include "proxy/base/addr.h"
#include "proxy/base/num.h"
#include "proxy/cli/where.h"
#include "proxy/http/h1_body.h"
#include "proxy/http/h1_read.h"
#include "proxy/io/state_dir.h"

enum { REPLY_MAX = 8 * 1024 * 1024, WAIT_S = 120, FDS_MAX = 16 };

/* The address. */

static enum status
put_address(const struct admin_where *where, struct buf *state, struct buf *address)
{
	CLEANUP(buf_done) struct buf config = { 0 };
	struct image *im;
	enum status st;

	buf_init(&config, 4096);
	if (where->state != NULL) {
		buf_put(state, str_from(where->state));
		buf_put(address, STR("unix:admin.sock"));
		return ST_OK;
	}
	if (where_config(where->config, &config) != ST_OK) {
		buf_put(address, STR("unix:admin.sock"));
		return state_dir_put(state, STR(""));
	}
	st = where_image(buf_cstr(&config), &im);
	if (st != ST_OK) {
		(void)fputs("sandgate: --state DIR reaches a gateway that runs without "
			    "this file\n",
			    stderr);
		return st;
	}
	buf_put(address, image_text(im, OPT_ADMIN_ADDRESS));
	st = state_dir_put(state, image_text(im, OPT_STATE_DIR));
	image_close(im);
	return st;
}

static int
connect_to(const struct sockaddr *sa, socklen_t n)
{
	struct timeval wait = { WAIT_S, 0 };
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 &&
	    (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0 ||
	     connect(fd, sa, n) < 0)) {
		int why = errno;
		(void)close(fd);
		errno = why;
		return -1;
	}
	return fd;
}

static int
connect_unix(struct buf *state, struct str name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	buf_putf(state, "/%.*s", STR_ARG(name));
	errno = ENAMETOOLONG;
	if (buf_cstr(state) == NULL || state->len >= sizeof sa.sun_path)
		return -1;
	memcpy(sa.sun_path, state->p, state->len);
	return connect_to((const struct sockaddr *)&sa, sizeof sa);
}

static int
connect_tcp(struct str text)
{
	struct sockaddr_storage sa;
	struct str host = text;
	struct addr a;
	uint64_t port;

	while (host.n > 0 && host.p[host.n - 1] != ':')
		host.n--;
	struct str digits = str_skip(text, host.n);
	host.n -= host.n > 0;
	if (host.n > 2 && host.p[0] == '[')
		host = str_head(str_skip(host, 1), host.n - 2);
	errno = EINVAL;
	if (!addr_parse(host, &a) || !num_parse_strict(digits, 65535, &port))
		return -1;
	uint32_t n = addr_to_sockaddr(&a, (uint16_t)port, &sa);
	return connect_to((const struct sockaddr *)&sa, n);
}

static enum status
open_admin(const struct admin_where *where, struct buf *address, int *ret_fd)
{
	CLEANUP(buf_done) struct buf state = { 0 };
	struct str text = STR("");
	enum status st;
	int fd;

	buf_init(&state, 4096);
	st = put_address(where, &state, address);
	if (st == ST_OK)
		st = buf_finish(address, &text);
	if (st != ST_OK)
		return st;
	bool is_unix = str_starts(text, STR("unix:"));
	fd = is_unix ? connect_unix(&state, str_skip(text, 5)) : connect_tcp(text);
	if (fd < 0) {
		int errno_was = errno;
		if (is_unix)
			text = str_of(state.p, state.len);
		if (where->may_be_none && (errno == ECONNREFUSED || errno == ENOENT))
			return ST_NOT_FOUND;
		(void)fprintf(stderr, "sandgate: no gateway answers at %.*s: %s\n",
			      STR_ARG(text), strerror(errno_was));
		if (errno_was == ECONNREFUSED || errno_was == ENOENT)
			(void)fputs("sandgate: `sandgate run -c FILE` starts one; of "
				    "another configuration give -c FILE here too\n",
				    stderr);
		return ST_NOT_FOUND;
	}
	*ret_fd = fd;
	return ST_OK;
}

/* The request. */

static void
put_request(struct buf *b, const struct admin_wish *w, struct str address)
{
	const char *token = getenv("SANDGATE_ADMIN_TOKEN");
	char *body = w->body == NULL ? NULL : json_dumps(w->body, JSON_COMPACT);
	bool is_unix = str_starts(address, STR("unix:"));

	buf_putf(b, "%s %s HTTP/1.1\r\nHost: ", w->method, w->path);
	buf_put(b, is_unix ? STR("localhost") : address);
	if (token != NULL)
		buf_putf(b, "\r\nAuthorization: Bearer %s", token);
	buf_putf(b, "\r\nContent-Length: %zu\r\n\r\n", body == NULL ? 0 : strlen(body));
	buf_put(b, str_from(body));
	free(body);
}

static enum status
send_request(int fd, const struct admin_wish *w, struct str text)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * FDS_MAX)];
	} control = { .bytes = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)text.p, text.n };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (w->fds_n > FDS_MAX)
		return ST_TOO_BIG;
	if (w->fds_n > 0) {
		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * w->fds_n);
		struct cmsghdr *h = CMSG_FIRSTHDR(&mh);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int) * w->fds_n);
		memcpy(CMSG_DATA(h), w->fds, sizeof(int) * w->fds_n);
	}
	/* A blocking stream socket takes all of it or fails. */
	return sendmsg(fd, &mh, MSG_NOSIGNAL) == (ssize_t)text.n ? ST_OK : ST_SYSTEM;
}

/* The reply. */

static enum status
receive(int fd, struct buf *b)
{
	char space[16384];
	ssize_t n;

	while ((n = recv(fd, space, sizeof space, 0)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? ST_TIMEOUT : ST_SYSTEM;
		buf_put(b, str_of(space, (size_t)n));
	}
	return b->st;
}

static enum status
parse_body(struct h1_body *body, struct str in, struct buf *text)
{
	enum status st = ST_OK;

	while (st == ST_OK) {
		struct str payload = { NULL, 0 };
		size_t used = 0;
		st = h1_body_feed(body, in, &used, &payload);
		in = str_skip(in, used);
		if (st == ST_OK)
			buf_put(text, payload);
	}
	return st == ST_END ? text->st : ST_BAD_MESSAGE;
}

static enum status
parse_reply(struct str in, struct admin_reply *ret_reply)
{
	static const struct h1_limits limits = { .fields = 64,
						 .line = 8192,
						 .head = 16384 };
	CLEANUP(arena_done) struct arena arena = { 0 };
	CLEANUP(buf_done) struct buf text = { 0 };
	struct h1_read reader;
	struct h1_body body;
	struct head head;
	size_t used = 0;
	enum status st;

	arena_init(&arena, 131072);
	buf_init(&text, REPLY_MAX);
	h1_read_response(&reader, &arena, &limits, METHOD_GET, false);
	st = h1_read_feed(&reader, in, &used, &head);
	h1_read_done(&reader);
	if (st != ST_OK)
		return ST_BAD_MESSAGE;
	h1_body_init(&body, &head, &limits);
	st = parse_body(&body, str_skip(in, used), &text);
	h1_body_done(&body);
	json_t *j = st == ST_OK ? json_loadb(text.p, text.len, 0, NULL) : NULL;
	if (!json_is_object(j)) {
		json_decref(j);
		return ST_BAD_MESSAGE;
	}
	*ret_reply = (struct admin_reply){ head.status, j };
	return ST_OK;
}

static enum status
exchange(int fd, const struct admin_wish *wish, struct str address,
	 struct admin_reply *ret_reply)
{
	CLEANUP(buf_done) struct buf out = { 0 };
	CLEANUP(buf_done) struct buf in = { 0 };
	struct str text = STR("");
	enum status st;

	buf_init(&out, 131072);
	buf_init(&in, REPLY_MAX);
	put_request(&out, wish, address);
	st = buf_finish(&out, &text);
	if (st == ST_OK)
		st = send_request(fd, wish, text);
	if (st == ST_OK)
		st = receive(fd, &in);
	return st == ST_OK ? parse_reply(str_of(in.p, in.len), ret_reply) : st;
}

enum status
admin_call(const struct admin_where *where, const struct admin_wish *wish,
	   struct admin_reply *ret_reply)
{
	CLEANUP(buf_done) struct buf address = { 0 };
	enum status st;
	int fd = -1;

	buf_init(&address, 512);
	st = open_admin(where, &address, &fd);
	if (st != ST_OK)
		return st;
	st = exchange(fd, wish, str_of(address.p, address.len), ret_reply);
	(void)close(fd);
	if (st != ST_OK)
		(void)fprintf(stderr, "sandgate: the gateway's answer: %s\n",
			      status_words(st)->sentence);
	return st;
}

static const char *
member_of_error(const struct admin_reply *r, const char *key)
{
	return json_string_value(
		json_object_get(json_object_get(r->body, "error"), key));
}

void
admin_print_refusal(const struct admin_reply *r)
{
	const char *code = member_of_error(r, "code");
	const char *message = member_of_error(r, "message");
	/* Most messages are written for sandboxes: beside it they would mislead. */
	const char *detail = member_of_error(r, "detail");

	if (detail == NULL)
		detail = message == NULL ? "" : message;
	(void)fprintf(stderr, "sandgate: %s: %s\n", code == NULL ? "refused" : code,
		      detail);
}

bool
admin_is_refusal(const struct admin_reply *r, enum status st)
{
	const char *code = member_of_error(r, "code");

	return code != NULL && strcmp(code, status_code(st)) == 0;
}
