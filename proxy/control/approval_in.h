#ifndef PROXY_CONTROL_APPROVAL_IN_H
#define PROXY_CONTROL_APPROVAL_IN_H
/*
 * approval_in: approvals from inside: approvals.c runs them, approval_hold.c hears workers,
 * approval_hook.c tells a connector's system, approval_api.c what operators say.
 */
#include "proxy/control/approval_store.h"

struct approvals {
	struct control *control;
	struct approval_store *store;
	approval_who_fn who;
	struct list waiting; /* struct approval */
	size_t waiting_n;
	struct list holds; /* of workers */
	struct list posts; /* on their way to the webhook */
	size_t posts_n;
};

uint64_t approvals_now_s(void);

/* A person has said so: e->by isn't empty.  ST_NOT_FOUND: there is no such one; ST_CONFLICT:
 * it is decided already; ST_APPROVAL_OWN; else it stays pending. */
enum status approvals_decide(struct approvals *all, uint64_t id,
			     const struct approval_end *e) MUSTCHECK;

/* As a JSON object; of text at most text_max octets. */
void approval_put_json(struct buf *b, const struct approval_row *r, size_t text_max);
void approval_put_grant_json(struct buf *b, const struct approval_grant *g);

/* approval_hold.c */
void approval_holds_close(struct approvals *all);

/* approval_hook.c: a new one is told to exec.approval_webhook, if there is one.  Never waits,
 * never fails: who doesn't hear of it sees it in the list. */
void approval_hook_tell(struct approvals *all, const struct approval_row *r);
void approval_hooks_close(struct approvals *all);

#endif
