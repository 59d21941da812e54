/* A secret was changed or taken away: whoever was leased it is told, and has forgotten it
 * before the operator is answered.  A process that doesn't answer keeps no lease for longer
 * than connectors/lent.h says, so nobody waits for one that hangs. */
#include <stdlib.h>

#include "proxy/control/control.h"

struct revoking {
	size_t open; /* answers that are not here yet */
	revoked_fn fn;
	void *ctx;
	struct control *control;
};

static void
revoke_end(struct revoking *r)
{
	if (--r->open > 0)
		return;
	r->fn(r->ctx);
	free(r);
}

static void
told(void *ctx, enum status st, struct ask_msg *m)
{
	struct revoking *r = ctx;

	(void)m;
	if (st != ST_OK && st != ST_END) /* a dead one holds nothing */
		log_error(&r->control->role.log,
			  "a connector was not told to forget: %s", status_code(st));
	revoke_end(r);
}

static enum status
put_body(struct buf *b, struct str tenant, struct str secret, struct str *ret_body)
{
	buf_init(b, ask_rule(ASK_REVOKE)->size);
	wire_put_str(b, tenant);
	wire_put_str(b, secret);
	return buf_finish(b, ret_body);
}

static void
tell_all(struct control *c, struct revoking *r, struct str body)
{
	for (size_t i = 0; i < CONTROL_SLOTS; i++) {
		if (!c->is_connector[i] || c->lines[i] == NULL)
			continue;
		enum status st = ask_call(c->lines[i], ASK_REVOKE,
					  ASK_LOAD(body, NULL, 0), told, r, NULL);
		if (st == ST_OK)
			r->open++;
		else
			log_error(&c->role.log,
				  "a connector was not told to forget: %s",
				  status_code(st));
	}
}

enum status
revoke_begin(struct control *c, struct str tenant, struct str secret, revoked_fn fn,
	     void *ctx)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct revoking *r = calloc(1, sizeof *r);
	struct str body = STR("");
	enum status st = ST_NOMEM;

	if (r != NULL)
		st = put_body(&b, tenant, secret, &body);
	if (st != ST_OK) {
		free(r);
		return st;
	}
	*r = (struct revoking){ .open = 1, .fn = fn, .ctx = ctx, .control = c };
	tell_all(c, r, body);
	revoke_end(r);
	return ST_OK;
}
