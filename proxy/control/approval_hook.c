/* A new approval is told to the system of the connector exec.approval_webhook. */
#include <stdlib.h>

#include "conf/policy.h"
#include "proxy/control/approval_in.h"
#include "proxy/control/call.h"

enum {
	POSTS_MAX = 64,
	TRIES = 3,
	DEADLINE_MS = 10000,
	PAUSE_MS = 2000, /* before the second try; twice that before the third */
	ANSWER_MAX = 4096,
	BODY_MAX = 24 * 1024,
};

struct post {
	struct list link; /* all->posts */
	struct approvals *all;
	struct call *call;
	struct loop_timer again;
	unsigned tries;
	struct buf body;
};

static void
post_free(void *ctx)
{
	struct post *p = ctx;

	buf_done(&p->body);
	free(p);
}

static void
post_end(struct post *p)
{
	call_cancel(p->call);
	p->call = NULL;
	loop_timer_clear(&p->again);
	list_remove(&p->link);
	p->all->posts_n--;
	loop_defer(p->all->control->loop, post_free, p);
}

static void
give_up(struct post *p, const char *why)
{
	log_info(&p->all->control->role.log, "exec.approval_webhook: %s", why);
	post_end(p);
}

/* Only what may be different the next time is tried again. */
static void
on_got(void *ctx, const struct call_got *got)
{
	struct post *p = ctx;
	bool is_told = got->st == ST_OK && got->http < 300;

	p->call = NULL;
	if (is_told)
		post_end(p);
	else if (p->tries < TRIES && (got->st != ST_OK || got->http >= 500 ||
				      got->http == 408 || got->http == 429))
		loop_timer_set(&p->again, (uint64_t)PAUSE_MS * p->tries);
	else
		give_up(p, got->st != ST_OK ? status_code(got->st)
					    : "its answer is no 2xx");
}

/* The connector's name, or nothing: a new configuration may name none. */
static struct str
hook_name(const struct control *c)
{
	const struct image *im = c->role.image;
	uint32_t index = image_exec(im)->webhook;
	size_t n;
	const struct image_connector *k = image_connectors(im, &n);

	return index == CONNECTOR_NONE || index >= n ? STR("")
						     : image_str(im, k[index].name);
}

static void
send_it(void *ctx)
{
	struct post *p = ctx;
	struct call_wish w = { .connector = hook_name(p->all->control),
			       .method = STR("POST"),
			       .target = STR("/"),
			       .type = STR("application/json"),
			       .body = str_of(p->body.p, p->body.len),
			       .deadline_ms = DEADLINE_MS,
			       .answer_max = ANSWER_MAX };
	enum status st = ST_NOT_FOUND;

	p->tries++;
	if (w.connector.n > 0)
		st = call_begin(p->all->control, &w, on_got, p, &p->call);
	if (st == ST_OK)
		return;
	p->call = NULL;
	if (p->tries < TRIES && st != ST_NOT_FOUND && st != ST_BAD_REQUEST)
		loop_timer_set(&p->again, (uint64_t)PAUSE_MS * p->tries);
	else
		give_up(p, status_code(st));
}

void
approval_hook_tell(struct approvals *all, const struct approval_row *r)
{
	struct post *p;

	if (hook_name(all->control).n == 0)
		return;
	p = all->posts_n < POSTS_MAX ? calloc(1, sizeof *p) : NULL;
	if (p == NULL) {
		log_info(&all->control->role.log,
			 "exec.approval_webhook: approval %llu is not told: too many "
			 "wait",
			 (unsigned long long)r->id);
		return;
	}
	p->all = all;
	loop_timer_init(&p->again, all->control->loop, send_it, p);
	list_append(&all->posts, &p->link);
	all->posts_n++;
	buf_init(&p->body, BODY_MAX);
	approval_put_json(&p->body, r, APPROVALS_TEXT_MAX / 2);
	if (p->body.st == ST_OK)
		send_it(p);
	else
		give_up(p, status_code(p->body.st));
}

void
approval_hooks_close(struct approvals *all)
{
	list_each_safe (it, &all->posts)
		post_end(LIST_OF(it, struct post, link));
}
