#ifndef PROXY_WORKER_EXEC_JUDGE_H
#define PROXY_WORKER_EXEC_JUDGE_H
/*
 * exec_judge: what a request to run, write or delete something says, how sensitive that
 * is by the rules of risk (conf/risk.h), and what the ledger and an approver are told of
 * it.  Reads bodies and queries as execd does; what it could read in two ways is refused.
 */
#include "conf/risk.h"
#include "proxy/http/exec_route.h"
#include "proxy/io/exec_note.h"

enum { EXEC_TEXT_MAX = 4096, EXEC_HASH = 32 };

struct exec_judged {
	struct risk_answer answer; /* the worst of all its parts */
	struct exec_note note;     /* begun; more may be put */
	struct buf text;           /* what would be done, redacted and cut */
	uint8_t hash[EXEC_HASH];   /* of route and body, whole */
	struct buf context; /* that code is to run in; empty: none, or has_context */
	struct buf
		claimed; /* the language that such code claims; empty: none, or long */
	bool has_context;
};

/*
 * Without a body (body.p == NULL) the query alone is looked at.
 *
 * Code that names a context runs in the context's language, whatever language it claims.
 * kernel: that language, which counts beside the one that is claimed; empty: it isn't known,
 * so the code is read in every one, which together may cost what one text of risk.text_max
 * does: a longer one is unreadable.  NULL: nobody was asked yet, only what is claimed counts;
 * then out->has_context tells that somebody has to be.
 *
 * ST_BAD_JSON, ST_BAD_TARGET; ST_TOO_BIG: too many values.  *out is zeroed, and whatever comes
 * of it the caller's to end.
 */
enum status exec_judge(const struct image *im, const struct exec_route *r,
		       struct str body, const struct str *kernel,
		       struct exec_judged *out) MUSTCHECK;
void exec_judged_done(struct exec_judged *j);

#endif
