#ifndef PROXY_IO_CALL_BODY_H
#define PROXY_IO_CALL_BODY_H
/*
 * call_body: the bodies of CALL, as control and a connector say them to each other.  All str
 * are views.
 */
#include "proxy/io/wire.h"

enum {
	CALL_ANSWER_MAX = 4 << 20, /* of call_wish.answer_max */
	CALL_DEADLINE_MAX_MS = 600000,
	CALL_BODY_MAX = 60 * 1024,
};

struct call_wish {
	struct str connector;
	struct str method; /* GET POST PUT PATCH DELETE */
	struct str target; /* path and query, as it goes out */
	struct str type;   /* of the body; empty: none is told */
	struct str body;
	uint32_t deadline_ms; /* 1 to CALL_DEADLINE_MAX_MS, held at both ends */
	size_t answer_max;    /* a longer one is ST_TOO_BIG */
};

struct call_answer {
	enum status st; /* not ST_OK: nothing else is told */
	uint16_t http;
	struct str type;
	uint32_t body_n; /* > 0: in a memfd beside it */
};

void call_wish_put(struct buf *b, const struct call_wish *w);
/* Sizes and times are within bounds; what the texts say is not looked at. */
enum status call_wish_get(struct str body, struct call_wish *ret_w) MUSTCHECK;
void call_answer_put(struct buf *b, const struct call_answer *a);
enum status call_answer_get(struct str body, struct call_answer *ret_a) MUSTCHECK;

#endif
