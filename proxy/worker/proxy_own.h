#ifndef PROXY_WORKER_PROXY_OWN_H
#define PROXY_WORKER_PROXY_OWN_H
/*
 * What the three files of proxy_in share: proxy_in.c reads and hands over, proxy_http.c
 * knows CONNECT, proxy_socks.c knows SOCKS5.
 *
 *	FIRST --> HTTP ----------> (login) --> target --> peek, tunnel or turn
 *	      \-> GREETING -> LOGIN -> REQUEST --/
 */
#include "proxy/http/h1_read.h"
#include "proxy/worker/login.h"
#include "proxy/worker/proxy_in.h"

enum proxy_state {
	PROXY_FIRST,
	PROXY_HTTP,
	PROXY_GREETING,
	PROXY_LOGIN,
	PROXY_REQUEST
};

struct proxy_in {
	struct conn *c;
	enum proxy_state state;
	struct loop_timer timer;
	struct buf bytes;
	size_t at;           /* so much of bytes is dealt with */
	struct login *login; /* being asked: nothing is read meanwhile */
	unsigned tries;      /* refusals on this connection */

	/* PROXY_HTTP */
	struct arena arena;
	struct h1_read reader;
	bool is_reading; /* reader and arena are in use */
	size_t fed;      /* bytes behind `at` that the reader has */
	struct head head;
};

/* What is there and not dealt with. */
struct str proxy_rest(const struct proxy_in *p);
/* Still the owner?  After whatever may have handed the connection on. */
bool proxy_is_owner(const struct proxy_in *p);

/* Go on with what is there, and read if nothing has to be waited for. */
void proxy_resume(struct proxy_in *p);
/* Look at what came; called again with more. */
void proxy_http_look(struct proxy_in *p);
void proxy_socks_look(struct proxy_in *p);
void proxy_http_forget(struct proxy_in *p); /* the reader of the last head */

/* Begin anew behind the next n bytes: a refusal that left the connection usable. */
void proxy_again(struct proxy_in *p, size_t n);

/* The chain's word on this target, before any byte: x is filled in. */
enum verdict proxy_judge(struct proxy_in *p, const struct dest *d,
			 struct exchange *x) MUSTCHECK;
/* It may go there: pins it, welcomes, and hands over with the bytes behind the next n.
 */
void proxy_go(struct proxy_in *p, enum conn_way way, enum conn_form form, size_t n);

#endif
