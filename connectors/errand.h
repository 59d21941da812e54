#ifndef CONNECTORS_ERRAND_H
#define CONNECTORS_ERRAND_H
/*
 * errand: one request of the connector's own, to a token service or a source of secrets,
 * and its answer, whole.
 *
 * The request is the owner's: message, body and what they point to, credentials perhaps,
 * stay until sent(), and nobody needs them from then on.  The answer is the errand's, until
 * errand_stop() wipes it.  It has no clock: the owner stops what takes too long.
 */
#include "connectors/cred.h"
#include "connectors/upstream.h"

enum { ERRAND_TYPE_MAX = 128 };

struct errand_hooks {
	void (*sent)(void *ctx);
	/* Once, perhaps from inside errand_begin(), and also without sent().  ST_OK: there
	 * is an answer; ST_TOO_BIG: it is longer than answer_max, and not waited for. */
	void (*over)(void *ctx, enum status st);
};

struct errand {
	/* given */
	struct connector *all;
	const struct errand_hooks *hooks;
	void *ctx;
	struct str name; /* of whom, for the log */
	struct side_msg msg;
	struct str body; /* unless msg.is_whole */
	size_t answer_max;
	bool is_fresh; /* over no connection that was kept */
	/* found */
	uint16_t http;   /* 0: no answer */
	uint8_t repeat;  /* enum side_repeat, when it ended without an answer */
	bool is_encoded; /* not as it was asked for */
	char type[ERRAND_TYPE_MAX]; /* Content-Type, unless it is longer */
	size_t type_n;
	struct cred answer;
	/* while it runs */
	struct upstream_call *calling;
	struct side *leg;
	bool is_answered;
};

/* The wish is not kept. */
void errand_begin(struct errand *e, const struct upstream_wish *wish);
void
errand_stop(struct errand *e); /* over() won't come; fine twice, and on a zeroed one */

#endif
