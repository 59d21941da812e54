#ifndef PROXY_IO_PLACE_H
#define PROXY_IO_PLACE_H
/*
 * place: the bodies of PLACE and HOLD, as worker and control say them to each other.
 *
 * PLACE is asked once for each request of an execution listener, when its head (and, of
 * routes with a JSON body, its body) is there.  Control finds out who asks, whether what is
 * asked for is theirs, and answers
 *
 *	PLACE_REFUSE   status, and words: told as {code, message}
 *	PLACE_ANSWER   a whole response
 *	PLACE_ROUTE    where the request goes; then a ticket is open until LEFT
 *
 * A body over PLACE_INLINE is in a memfd, sealed by control, with the length that stands
 * here.  All str are views.
 */
#include "proxy/io/wire.h"

enum {
	PLACE_BODY_MAX = 48 * 1024,         /* of a request */
	PLACE_INLINE = 32 * 1024,           /* of an answer, beside its memfd */
	PLACE_ANSWER_MAX = 4 * 1024 * 1024, /* in a memfd */
	PLACE_FIELDS = 8,
	PLACE_TEXT_MAX = 4096,   /* of what HOLD shows to an approver */
	PLACE_CONTEXT_MAX = 128, /* longer ids of contexts are not remembered */
	PLACE_LANGUAGE_MAX = 32,
};

struct place_wish {
	uint64_t ticket; /* the worker's own number for this request, never 0 */
	uint64_t
		turn; /* of the ledger, for control's own row; 0: it has one of its own */
	uint16_t op; /* enum exec_op */
	uint16_t port;
	bool is_v1, is_tls, use_server_proxy;
	struct str key, bearer, capability; /* as sent; empty: none */
	struct str authority;               /* by which the caller reached us */
	struct str on_behalf_of, session, task, idempotency;
	struct str reuse;   /* X-Sandgate-Reuse, as sent */
	struct str request; /* X-Request-ID, of every answer */
	/* Of the route; of code that is to run `id` is the context that it names. */
	struct str sandbox, id, query, expires;
	struct str peer; /* address:port, for the ledger */
	struct str body; /* JSON, checked for its form */
	/* A create whose lifecycle brings commands: how sensitive they are, which rule says
	 * so, and what they are, cut to PLACE_TEXT_MAX.  What else a create is judged by is
	 * control's. */
	uint8_t level; /* enum risk_level */
	struct str why, text;
};

enum place_kind { PLACE_REFUSE, PLACE_ANSWER, PLACE_ROUTE };

struct place_field {
	struct str name, value;
};

struct place_answer {
	enum place_kind kind;
	enum status st; /* PLACE_REFUSE */
	/* Whose it is, for the ledger, as far as known. */
	struct str tenant, user, agent, session, task, on_behalf_of, sandbox, server;
	struct str words; /* for the row: what was decided and why; or of a refusal */
	/* PLACE_ANSWER */
	uint16_t http;
	struct str type, body; /* body: unless body_n > PLACE_INLINE */
	uint32_t body_n;
	/* PLACE_ANSWER: fields of the response.  PLACE_ROUTE: of the request, upstream's
	 * tokens: never shown to the caller. */
	struct place_field fields[PLACE_FIELDS];
	size_t fields_n;
	/* PLACE_ROUTE */
	struct str host; /* a literal or a name, of REACH */
	uint16_t port;
	struct str prefix;   /* stands before the path; "" or "/..." */
	bool keeps_login;    /* Authorization and Cookie go on to an application */
	struct str language; /* of that context; empty: not known */
};

void place_wish_put(struct buf *b, const struct place_wish *w);
enum status place_wish_get(struct str body, struct place_wish *ret_w) MUSTCHECK;
void place_answer_put(struct buf *b, const struct place_answer *a);
enum status place_answer_get(struct str body, struct place_answer *ret_a) MUSTCHECK;

/* HOLD: a person is asked whether this may be done. */
struct hold_wish {
	uint64_t ticket; /* of the PLACE that it belongs to */
	uint8_t level;   /* enum risk_level */
	struct str what; /* the route's name in the ledger */
	struct str why;  /* FILE:LINE: sentence */
	struct str text; /* what would be done; cut to PLACE_TEXT_MAX */
	uint8_t hash
		[32]; /* of the whole of it: an approval is for that, not for its start */
};

void hold_wish_put(struct buf *b, const struct hold_wish *w);
enum status hold_wish_get(struct str body, struct hold_wish *ret_w) MUSTCHECK;

#endif
