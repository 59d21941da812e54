#ifndef FILTERS_FILTER_H
#define FILTERS_FILTER_H
/*
 * filter: one step of the chain that judges every exchange.  A filter is one const
 * struct in one file and one row of filters.def, which is also the order.
 *
 *	on_connection   accepted, identity known (or not: who == NULL)
 *	on_hello        the destination is known; `way` tells from what: WAY_ANY
 *	                a CONNECT or SOCKS target before any byte, WAY_TLS a hello,
 *	                WAY_TCP other bytes
 *	on_request      a whole HTTP request head, way == WAY_HTTP
 *	on_dial         of what is carried unread: nobody was dialled for it
 *	on_open         upstream is there, `address` and `country` say where;
 *	                nothing was sent
 *	on_body         bytes of the request
 *	on_response     a response head
 *	on_response_body
 *	on_done         always, once, for every filter, however the exchange ended
 *
 * Request phases run in the order of filters.def, response phases and on_done
 * backwards.  The worst verdict latches: after DENY or FAIL no phase but on_done runs.
 * HOLD is for on_dial and the phases with a head.  A body callback may HOLD as well; ANSWER is for phases with a head: request, open and
 * response.  What a body callback has not let pass at the last byte is a failure.
 * A filter owns no socket, no loop, no secret; what it may ask of the worker is
 * struct filter_host.  It never runs the chain and never frees the exchange.
 */
#include "conf/policy.h"
#include "conf/who.h"

struct head;
struct exchange;
struct placeholders;

enum verdict { /* from best to worst */
	       VERDICT_NEXT,
	       VERDICT_HOLD, /* go on when host->resume() was called; never from inside
				a phase */
	       VERDICT_ANSWER, /* the filter answered in place of upstream */
	       VERDICT_DENY,   /* x->reason says why */
	       VERDICT_FAIL,   /* the filter itself failed: denied as well */
};

enum phase {
	PHASE_CONNECTION,
	PHASE_HELLO,
	PHASE_REQUEST,
	PHASE_DIAL,
	PHASE_OPEN,
	PHASE_RESPONSE,
};

enum { /* what a filter must see; the union decides tunnel or intercept */
       NEEDS_NOTHING = 0,
       NEEDS_HEAD = 1,
       NEEDS_BODY = 2,
       NEEDS_RESPONSE = 4,
       NEEDS_RESPONSE_BODY = 8,
       NEEDS_TUNNEL_BYTES = 16,
};

enum filter_budget { BUDGET_CONNECTION, BUDGET_REQUEST };
enum filter_record { RECORD_START, RECORD_END, RECORD_ALARM };

/* What a person is asked.  Copied. */
struct filter_question {
	struct str what; /* "connector", "host", or "request": one alone */
	struct str text; /* what would be done: a yes is for this text */
	struct str why;  /* FILE:LINE: sentence */
};

struct filter_host {
	size_t size; /* of this struct, as the worker knows it */
	/* Take one from the sandbox's budget; ST_LIMIT_... when it is used up. */
	enum status (*take)(struct exchange *x, enum filter_budget what);
	/* Put a row in the ring: a tunnel's or a request's, as x->way says. */
	enum status (*record)(struct exchange *x, enum filter_record what);
	/* A filter that said HOLD has its answer: the core goes on in a later turn of
	 * the loop.  Never from inside a phase. */
	void (*resume)(struct exchange *x);
	/* What this sandbox was given to show in place of credentials
	 * (conf/placeholder.h), for this generation; NULL: nothing. */
	const struct placeholders *(*placeholders)(struct exchange *x);
	/* A person is asked in the sandbox's name.  ST_OK: say HOLD; what went on without
	 * a yes is never resumed but refused.  Else why nobody is asked. */
	enum status (*ask_person)(struct exchange *x, const struct filter_question *q);
	/* Nobody waits for the answer, and x->approval ends. */
	void (*forget_person)(struct exchange *x);
};

/*
 * One tunnel or one request with its response.  Owner: the core, which sets the first
 * two groups anew before each phase.  Filters write reason, rule, action, observed, needs.
 */
struct exchange {
	const struct filter_host *host;
	void *core; /* struct conn */

	const struct image *image;
	uint64_t generation;     /* of that image */
	const struct who *who;   /* NULL: unknown */
	const struct dest *dest; /* NULL before it is known */
	enum policy_way way;
	bool is_tls;      /* WAY_HTTP: inside TLS that was ended here */
	bool needs_bytes; /* WAY_TLS: a filter wants requests, so there is no tunnel */
	struct str method, path, query; /* WAY_HTTP; path without query */
	struct head *request;           /* WAY_HTTP */
	struct head *response;          /* from on_response on */
	const struct head *trailers;    /* of the request, at its last on_body */
	char address[56]; /* what was dialled, address:port, NUL-terminated */
	char country[4];

	uint64_t judged;          /* the generation by which policy allowed it */
	uint32_t judged_revision; /* of who */
	enum verdict worst;
	enum status reason; /* why not; ST_OK while nothing is wrong */
	uint32_t rule;      /* that decided, or RULE_NONE */
	enum policy_action action;
	uint32_t connector; /* as policy_answer has it, or CONNECTOR_NONE */
	/* Of one that a policy before this one allowed; then connector is CONNECTOR_NONE. */
	struct str connector_was;
	bool observed;                     /* allowed only because of observe */
	bool is_held, is_started, is_done; /* is_started: a START was recorded */
	bool is_resumed;                   /* the filter that held has its answer */
	uint8_t at;                        /* the filter that said HOLD */
	unsigned needs; /* NEEDS_..., of this exchange alone: added in on_request */

	void *person;        /* the core's, while one is asked and after that */
	struct str approval; /* a sentence: who allowed it; empty: nobody was asked */

	uint64_t id;       /* of the first row; 0: none written */
	uint64_t last_row; /* id of the newest one, written or refused */
	uint64_t begun_ms; /* monotonic */
	uint64_t bytes_up, bytes_down;
	uint32_t http_status;
	uint32_t secret_version; /* that the connector used; 0: none */
	uint32_t scrubbed;       /* echoes of it that it replaced */
	/* VERDICT_ANSWER: with http_status; both live as long as the exchange. */
	struct str answer, answer_type;
	struct str
		detail; /* a sentence for the next row; set and forgotten by the core */
};

typedef enum verdict (*filter_phase_fn)(struct exchange *x);
/* *ret_pass: how many bytes of view may go on (all when untouched).  What may not pass
 * yet is shown again, in front of what came since. */
typedef enum verdict (*filter_body_fn)(struct exchange *x, struct str view,
				       bool is_last, size_t *ret_pass);

struct filter {
	const char *name;
	unsigned needs;
	filter_phase_fn on_connection, on_hello, on_request, on_dial, on_open,
		on_response;
	filter_body_fn on_body, on_response_body;
	void (*on_done)(struct exchange *x);
};

#define FILTER(name) extern const struct filter filter_##name;
#include "filters/filters.def"
#undef FILTER

/* For filters: deny with a reason, in one line. */
enum verdict filter_deny(struct exchange *x, enum status reason);

#endif
