#include "tests/perf/web_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netinet/tcp.h>

#include "proxy/base/num.h"

enum { SPACE = 256 * 1024, WINDOW = 16 * 1024 * 1024, NAME_SPACE = 256 };

static void
die(const char *what)
{
	fprintf(stderr, "web: %s: %s\n", what, strerror(errno));
	exit(3);
}

static ssize_t
wire_read(struct web_link *k, char *p, size_t n)
{
	int got;

	if (k->ssl == NULL) {
		ssize_t r = recv(k->fd, p, n, 0);
		return r < 0 && errno != EAGAIN ? 0 : r;
	}
	got = SSL_read(k->ssl, p, (int)n);
	if (got > 0)
		return got;
	return SSL_get_error(k->ssl, got) == SSL_ERROR_WANT_READ ? -1 : 0;
}

/* What a client says is small enough for an empty socket to take whole. */
static void
wire_write(struct web_link *k, const char *p, size_t n)
{
	if (n == 0 || k->is_over)
		return;
	if (k->ssl == NULL ? send(k->fd, p, n, MSG_NOSIGNAL) == (ssize_t)n
			   : SSL_write(k->ssl, p, (int)n) == (int)n)
		return;
	k->is_over = true;
}

static void
h2_flush(struct web_link *k)
{
	char *out = k->web->space + SPACE;
	const uint8_t *p;
	size_t n = 0;
	ssize_t got;

	while ((got = nghttp2_session_mem_send(k->h2, &p)) > 0) {
		if ((size_t)got > SPACE - n)
			die("too much to say at once");
		memcpy(out + n, p, (size_t)got);
		n += (size_t)got;
	}
	wire_write(k, out, n);
}

void
web_flush(struct web_link *k)
{
	if (k->h2 != NULL)
		h2_flush(k);
}

static void
slot_done(struct web_slot *s)
{
	s->is_busy = false;
	s->link->web->on_done(s);
}

static int
on_stream_close(nghttp2_session *h, int32_t id, uint32_t code, void *ctx)
{
	struct web_slot *s = nghttp2_session_get_stream_user_data(h, id);

	(void)ctx;
	if (code != 0 || s == NULL)
		die("a stream was reset");
	slot_done(s);
	return 0;
}

static int
on_data(nghttp2_session *h, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
	void *ctx)
{
	struct web_slot *s = nghttp2_session_get_stream_user_data(h, id);

	(void)flags;
	(void)ctx;
	if (s == NULL)
		return 0;
	s->bytes += n;
	if (s->link->web->on_body != NULL)
		s->link->web->on_body(s, str_of(p, n));
	return 0;
}

static int
on_field(nghttp2_session *h, const nghttp2_frame *f, const uint8_t *name, size_t name_n,
	 const uint8_t *value, size_t value_n, uint8_t flags, void *ctx)
{
	(void)h;
	(void)f;
	(void)flags;
	(void)ctx;
	if (str_eq(str_of(name, name_n), STR(":status")) &&
	    !str_eq(str_of(value, value_n), STR("200"))) {
		fprintf(stderr, "web: status %.*s\n", (int)value_n, value);
		exit(3);
	}
	return 0;
}

static nghttp2_nv
field(const char *name, const char *value)
{
	return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
			     strlen(name), strlen(value), 0 };
}

static void
h2_begin(struct web_link *k)
{
	nghttp2_settings_entry e[] = { { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW },
				       { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 } };

	if (nghttp2_session_client_new(&k->h2, k->web->h2, k) != 0 ||
	    nghttp2_submit_settings(k->h2, 0, e, COUNT_OF(e)) != 0 ||
	    nghttp2_session_set_local_window_size(k->h2, 0, 0, 16 * WINDOW) != 0)
		die("HTTP/2");
	h2_flush(k);
}

/* A % in the pattern is the link's number. */
static void
name_of(const struct web_link *k, const char *pattern, char *ret_name)
{
	const char *at = strchr(pattern, '%');

	if (at == NULL)
		(void)snprintf(ret_name, NAME_SPACE, "%s", pattern);
	else
		(void)snprintf(ret_name, NAME_SPACE, "%.*s%llu%s", (int)(at - pattern),
			       pattern, (unsigned long long)k->number, at + 1);
}

void
web_ask(struct web_slot *s)
{
	struct web_link *k = s->link;
	struct web *w = k->web;
	char text[1024], authority[NAME_SPACE];

	name_of(k, w->authority, authority);
	s->is_busy = true;
	s->asked_us = measure_now_us();
	s->bytes = 0;
	if (k->h2 != NULL) {
		nghttp2_nv f[] = { field(":method", "GET"),
				   field(":scheme", w->is_tls ? "https" : "http"),
				   field(":authority", authority),
				   field(":path", w->path),
				   field("user-agent", "load"),
				   field("accept", "*/*") };
		s->stream =
			nghttp2_submit_request(k->h2, NULL, f, COUNT_OF(f), NULL, s);
		if (s->stream < 0)
			die("no stream is left");
		return;
	}
	k->left = UINT64_MAX;
	k->head_n = 0;
	wire_write(k, text,
		   (size_t)snprintf(text, sizeof text,
				    "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: "
				    "load\r\nAccept: */*\r\n\r\n",
				    w->path, authority));
}

/* The head of an answer is whole: how much follows, UINT64_MAX - 1 if until the end. */
static uint64_t
body_of(struct web_link *k)
{
	const char *p;
	uint64_t v = UINT64_MAX - 1;

	k->head[num_min(k->head_n, WEB_HEAD_MAX - 1)] = 0;
	if (strncmp(k->head + 8, " 200", 4) != 0) {
		fprintf(stderr, "web: %s\n", k->head);
		exit(3);
	}
	p = strcasestr(k->head, "\r\ncontent-length:");
	if (p == NULL)
		return v;
	p += strlen("\r\ncontent-length:");
	p += strspn(p, " ");
	if (!num_parse_u64(str_of(p, strcspn(p, "\r")), UINT64_MAX - 2, &v))
		die("a length");
	return v;
}

static void
h1_take(struct web_link *k, struct str s)
{
	struct web_slot *slot = &k->slots[0];

	if (!slot->is_busy)
		die("more than was asked for");
	if (k->left == UINT64_MAX) {
		size_t before = k->head_n, n = num_min(s.n, WEB_HEAD_MAX - 1 - before);
		memcpy(k->head + before, s.p, n);
		k->head_n += n;
		char *end = memmem(k->head, k->head_n, "\r\n\r\n", 4);
		if (end == NULL)
			return;
		k->head_n = (size_t)(end - k->head) + 4;
		s = str_skip(s, k->head_n - before);
		k->left = body_of(k);
	}
	if (s.n > k->left)
		die("more than was announced");
	k->left -= s.n;
	slot->bytes += s.n;
	if (s.n > 0 && k->web->on_body != NULL)
		k->web->on_body(slot, s);
	if (k->left == 0)
		slot_done(slot);
}

static void
link_end(struct web_link *k, bool is_told)
{
	if (k->ssl != NULL && k->is_open)
		(void)SSL_shutdown(k->ssl);
	nghttp2_session_del(k->h2);
	SSL_free(k->ssl);
	(void)close(k->fd);
	k->h2 = NULL;
	k->ssl = NULL;
	k->fd = -1;
	k->is_open = false;
	if (is_told)
		k->web->on_end(k);
}

static void
link_read(struct web_link *k)
{
	char *space = k->web->space;
	ssize_t n = 1;

	while (!k->is_over && (n = wire_read(k, space, SPACE)) > 0) {
		if (k->h2 == NULL)
			h1_take(k, str_of(space, (size_t)n));
		else if (nghttp2_session_mem_recv(k->h2, (uint8_t *)space, (size_t)n) <
			 0)
			die("what came is no HTTP/2");
		/* In clear a short read is the last: spare the one that says so. */
		if (k->ssl == NULL && n < SPACE)
			break;
	}
	if (k->h2 != NULL && n != 0 && !k->is_over)
		h2_flush(k);
	if (k->is_over || n == 0)
		link_end(k, !k->is_over);
}

static void
link_shake(struct web_link *k)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = k };
	int rc = 1;

	if (!k->is_connected)
		(void)epoll_ctl(k->web->poll, EPOLL_CTL_MOD, k->fd, &ev);
	k->is_connected = true;
	if (k->ssl != NULL)
		rc = SSL_connect(k->ssl);
	if (rc != 1) {
		if (SSL_get_error(k->ssl, rc) != SSL_ERROR_WANT_READ)
			link_end(k, true);
		return;
	}
	k->is_open = true;
	if (k->web->is_h2)
		h2_begin(k);
	k->web->on_open(k);
	if (k->h2 != NULL)
		h2_flush(k);
}

void
web_event(struct web_link *k)
{
	if (k->is_open)
		link_read(k);
	else
		link_shake(k);
}

void
web_turn(struct web *w, int ms)
{
	struct epoll_event ready[256];
	int n = epoll_wait(w->poll, ready, COUNT_OF(ready), ms);

	for (int i = 0; i < n; i++)
		web_event(ready[i].data.ptr);
}

void
web_close(struct web_link *k)
{
	k->is_over = true;
}

static void
link_tls(struct web_link *k)
{
	static const unsigned char h1[] = "\x08http/1.1", h2[] = "\x02h2";
	const unsigned char *alpn = k->web->is_h2 ? h2 : h1;
	char name[NAME_SPACE];

	name_of(k, k->web->host, name);
	k->ssl = SSL_new(k->web->tls);
	if (k->ssl == NULL || SSL_set_fd(k->ssl, k->fd) != 1 ||
	    SSL_set_alpn_protos(k->ssl, alpn, alpn[0] + 1u) != 0 ||
	    SSL_set_tlsext_host_name(k->ssl, name) != 1)
		die("TLS");
}

void
web_open(struct web *w, struct web_link *k)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT, .data.ptr = k };
	int on = 1;

	k->web = w;
	k->began_us = measure_now_us();
	k->is_connected = k->is_open = k->is_over = false;
	k->slots_n = w->is_h2 ? w->slots_n : 1;
	for (size_t i = 0; i < k->slots_n; i++)
		k->slots[i] = (struct web_slot){ .link = k };
	k->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (k->fd < 0 || setsockopt(k->fd, SOL_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
	    (connect(k->fd, (struct sockaddr *)&w->to, sizeof w->to) != 0 &&
	     errno != EINPROGRESS) ||
	    epoll_ctl(w->poll, EPOLL_CTL_ADD, k->fd, &ev) != 0)
		die("connect");
	if (w->is_tls)
		link_tls(k);
}

void
web_start(struct web *w)
{
	w->poll = epoll_create1(0);
	w->space = malloc((size_t)2 * SPACE);
	w->tls = SSL_CTX_new(TLS_client_method());
	if (w->poll < 0 || w->space == NULL || w->tls == NULL ||
	    nghttp2_session_callbacks_new(&w->h2) != 0)
		die("start");
	SSL_CTX_set_session_cache_mode(w->tls, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(w->tls, 1);
	nghttp2_session_callbacks_set_on_stream_close_callback(w->h2, on_stream_close);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(w->h2, on_data);
	nghttp2_session_callbacks_set_on_header_callback(w->h2, on_field);
}
