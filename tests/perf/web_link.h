#ifndef TESTS_PERF_WEB_LINK_H
#define TESTS_PERF_WEB_LINK_H
/*
 * web_link: one connection of a client that asks for /N or for events, for the generators:
 * HTTP/1.1, or HTTP/2 with several requests at a time, over TLS or in clear.  Nothing that
 * a server says is verified but its status; what it does wrong ends the process.
 */
#include <netinet/in.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include "tests/perf/measure.h"

enum { WEB_SLOTS = 64, WEB_HEAD_MAX = 4096 };

struct web;
struct web_link;

struct web_slot { /* one request at a time */
	struct web_link *link;
	int32_t stream; /* of HTTP/2 */
	bool is_busy;
	uint64_t asked_us, bytes, left;
	uint64_t number; /* the owner's */
	char tail[512];  /* the owner's too */
	size_t tail_n;
};

struct web_link {
	struct web *web;
	int fd;
	SSL *ssl;
	nghttp2_session *h2;
	bool is_connected, is_open, is_over;
	char head[WEB_HEAD_MAX];
	size_t head_n;
	uint64_t left; /* of a body in HTTP/1.1; UINT64_MAX: head first */
	uint64_t number, began_us;
	struct web_slot slots[WEB_SLOTS];
	size_t slots_n;
};

struct web { /* what all have in common; zeroed and filled in, then web_start() */
	int poll;
	struct sockaddr_in to;
	bool is_tls, is_h2;
	size_t slots_n;
	const char *host, *authority; /* a % in them becomes the link's number */
	const char *path;
	SSL_CTX *tls;
	nghttp2_session_callbacks *h2;
	char *space;
	/* open, and may be asked */
	void (*on_open)(struct web_link *k);
	void (*on_body)(struct web_slot *s, struct str bytes); /* may be NULL */
	void (*on_done)(struct web_slot *s);
	/* closed, and not by us; the link may be opened again */
	void (*on_end)(struct web_link *k);
	void *ctx;
};

void web_start(struct web *w);
void web_open(struct web *w, struct web_link *k);
/* Outside of callbacks web_flush() sends it. */
void web_ask(struct web_slot *s);
void web_flush(struct web_link *k);
/* After the callback that it is called from. */
void web_close(struct web_link *k);
/* Events of one epoll_wait(). */
void web_turn(struct web *w, int ms);
void web_event(struct web_link *k);

#endif
