#include <string.h>

#include "connectors/gauge.h"
#include "connectors/turn_in.h"
#include "proxy/http/ws.h"

/* By the policy in force here, whatever the worker thinks. */
static enum status
judge(struct turn *t, const struct who *w)
{
	const struct policy_question q = { .may = w->may,
					   .dest = &t->uri.dest,
					   .way = WAY_HTTP,
					   .method = t->request->method,
					   .path = t->uri.path,
					   .query = t->uri.query,
					   .head = t->request,
					   .is_tls = true };
	struct policy_answer a;

	policy_judge(t->all->role.image, &q, &a);
	t->rule = a.rule;
	if (a.action == ACTION_DENY)
		return a.reason;
	if (a.action != ACTION_CONNECTOR || a.connector != t->lane->connector ||
	    !turn_may_use(t->all, a.connector, w))
		return ST_DENIED;
	return ST_OK;
}

/* The worker has asked the policy too, so this happens between two of them, or when the
 * worker lies: then only this row tells. */
static void
record_refusal(struct turn *t, enum status why)
{
	CLEANUP(buf_done) struct buf host = { 0 };
	struct row row = role_row_begin(&t->all->role, ROW_DENY, lane_who(t->lane));
	const struct image_connector *c = connector_at(t->all, t->lane->connector);

	buf_init(&host, DEST_NAME_MAX + 64);
	row.turn = row.id;
	row.reason = why;
	row.method = t->request->method;
	row.path = t->uri.path;
	if (t->uri.dest.port != 0) {
		dest_put(&host, &t->uri.dest);
		row.host = host.st == ST_OK ? str_of(host.p, host.len) : STR("");
	}
	if (c != NULL)
		row.connector = image_str(t->all->role.image, c->name);
	row.detail = STR("a request on a lane");
	/* It is refused anyway. */
	(void)!role_row(&t->all->role, &row);
}

static enum status
check(struct turn *t)
{
	const struct head *h = t->request;
	const struct who *w = lane_who(t->lane);
	enum status st;

	if (w == NULL)
		return ST_UNKNOWN_SANDBOX;
	if (h->method_id == METHOD_TRACE || h->method_id == METHOD_TRACK ||
	    h->method_id == METHOD_CONNECT)
		return ST_METHOD_REFUSED;
	st = uri_of_request(h, 443, &t->uri);
	if (st == ST_OK)
		st = judge(t, w);
	return st;
}

/* Where it really goes. */
static enum status
aim(struct turn *t)
{
	const struct image *im = t->all->role.image;
	const struct image_connector *c = connector_at(t->all, t->lane->connector);
	struct str host;
	enum status st = ST_OK;

	if (c == NULL)
		return ST_RELOADED;
	t->at = c;
	t->target = t->uri;
	t->target.form = URI_ORIGIN;
	t->is_plain = c->upstream_is_plain != 0;
	host = image_str(im, c->upstream_host);
	if (host.n > 0)
		st = dest_from_host_single(host, c->upstream_port, &t->target.dest);
	auth_conf_from(im, &c->auth, &t->conf);
	return st;
}

static void
job_for(struct turn *t, struct auth_job *ret_j)
{
	auth_job_init(ret_j, &t->conf);
	ret_j->head = t->request;
	ret_j->uri = &t->target;
	ret_j->is_tls = !t->is_plain;
}

static enum status
admit(struct turn *t)
{
	struct auth_job j;
	enum status st = check(t);

	if (st != ST_OK) {
		record_refusal(t, st);
		return st;
	}
	st = aim(t);
	if (st != ST_OK)
		return st;
	if (t->at->request_body > 0 && t->request->has_length &&
	    t->request->length > t->at->request_body)
		return ST_TOO_BIG;
	job_for(t, &j);
	st = auth_refuses(&j);
	if (st == ST_OK)
		st = gauge_enter(t->all, t->lane->connector);
	if (st != ST_OK)
		return st;
	t->connector = t->lane->connector;
	t->is_gathered = !t->request_ends && auth_body(&j) == AUTH_BODY_WHOLE;
	return ST_OK;
}

static void
gather(struct turn *t)
{
	uint64_t most = AUTH_BODY_MAX;
	enum status st;

	if (t->at->request_body > 0 && t->at->request_body < most)
		most = t->at->request_body;
	if (t->request->has_length && t->request->length > most) {
		turn_refuse(t, ST_TOO_BIG);
		return;
	}
	if (t->request->has_length)
		most = t->request->length;
	st = lane_gather(t->lane, (size_t)most);
	if (st != ST_OK) {
		turn_refuse(t, st);
		return;
	}
	turn_to(t, TURN_GATHER);
	t->reserved = (size_t)most;
	cred_init(&t->body, (size_t)most);
	if (t->request->expects_continue) {
		struct head h;
		struct side_msg m = { .head = &h };
		head_init(&h, &t->arena);
		h.status = 100;
		side_put_head(t->front, &m);
	}
}

void
turn_on_head(void *ctx, struct side_msg *m)
{
	struct turn *t = ctx;
	enum status st;

	t->request = m->head;
	t->is_ws = m->is_ws;
	t->request_ends = t->up_over = m->is_whole;
	st = admit(t);
	if (st != ST_OK) {
		turn_refuse(t, st);
	} else if (t->is_gathered) {
		gather(t);
	} else {
		turn_to(t, TURN_OPEN);
		turn_step(t);
	}
}

void
turn_on_body(void *ctx, struct str view)
{
	struct turn *t = ctx;

	t->since_ms = loop_now_ms(t->all->loop);
	t->body_bytes += view.n;
	if (t->state == TURN_GATHER) {
		cred_put(&t->body, view);
		if (t->body.st != ST_OK)
			turn_refuse(t, t->body.st);
	} else if (t->state == TURN_CARRY || t->at == NULL ||
		   t->at->request_body == 0 || t->body_bytes <= t->at->request_body) {
		side_put_body(t->leg, view);
	} else {
		turn_refuse(t, ST_TOO_BIG);
	}
}

static void
put_end(struct turn *t, const struct head *trailers)
{
	struct head out;
	enum status st = ST_OK;

	if (trailers != NULL)
		st = turn_trailers(t, trailers, &out);
	if (st != ST_OK)
		turn_refuse(t, st);
	else
		side_put_end(t->leg, t->request, trailers != NULL ? &out : NULL);
}

void
turn_on_end(void *ctx, const struct head *trailers)
{
	struct turn *t = ctx;

	t->since_ms = loop_now_ms(t->all->loop);
	t->up_over = true;
	if (t->state == TURN_GATHER) {
		turn_to(t, TURN_OPEN);
		turn_step(t);
	} else {
		put_end(t, trailers);
	}
}

void
turn_again(struct turn *t)
{
	bool was_gathered = t->is_gathered;
	enum status st;

	turn_stop_waiting(t);
	turn_drop_leg(t);
	st = admit(t);
	/* What has not been kept can't be had again. */
	if (st == ST_OK && was_gathered != t->is_gathered && !t->request_ends)
		st = ST_RELOADED;
	if (st != ST_OK)
		turn_refuse(t, st);
	else if (t->state == TURN_OPEN)
		turn_step(t);
}

/* An upstream. */

static void
opened(struct turn *t, struct side *leg)
{
	t->leg = leg;
	leg->events = &turn_leg_events;
	leg->ctx = t;
}

static void
on_upstream(void *ctx, const struct upstream_got *got)
{
	struct turn *t = ctx;

	t->calling = NULL;
	if (got->st != ST_OK) {
		if (got->words != NULL)
			log_info(&t->all->role.log, "upstream: %s: %s",
				 status_code(got->st), got->words);
		turn_refuse(t, got->st);
		return;
	}
	opened(t, got->side);
	turn_step(t);
	turn_settle(t);
}

/* Nothing of a request was answered, so a safe one may be asked again. */
static bool
may_repeat(const struct turn *t)
{
	return method_is_safe(t->request->method_id) && t->request_ends && !t->is_ws;
}

static enum tls_offer
offer_of(const struct turn *t)
{
	/* Few systems take a WebSocket over HTTP/2 (RFC 8441), and which do is not known
	 * before their settings are: where no connection is there that knows, HTTP/1 is
	 * sure. */
	return t->is_ws ? TLS_OFFER_H1 : upstream_offer(t->at);
}

static void
open_upstream(struct turn *t)
{
	struct upstream_wish wish = { .connector = t->lane->connector,
				      .handle = t->lane->handle,
				      .sandbox = t->lane->sandbox,
				      .dest = &t->target.dest,
				      .is_plain = t->is_plain,
				      .is_ws = t->is_ws,
				      .offer = offer_of(t) };
	struct side *leg = NULL;
	enum status st;

	if (t->conf.kind == AUTH_MTLS) {
		const struct lease *lease = lent_lease(t->lane->lent);
		lease_client(lease, &wish.chain, &wish.key);
		t->version = lease->version;
	} else if (!t->is_retry) {
		leg = upstream_take(t->all, &wish, !may_repeat(t));
	}
	if (leg != NULL) {
		opened(t, leg);
		turn_step(t);
		return;
	}
	st = upstream_begin(t->all, &wish, on_upstream, t, &t->calling);
	if (st != ST_OK)
		turn_refuse(t, st);
}

/* A lease. */

static void
on_lease(void *ctx, enum status st)
{
	struct turn *t = ctx;

	t->leasing = NULL;
	if (st != ST_OK && st != ST_AGAIN) {
		turn_refuse(t, st);
		return;
	}
	turn_step(t);
	turn_settle(t);
}

static void
take_lease(struct turn *t)
{
	const struct lease_wish wish = {
		.connector = image_str(t->all->role.image, t->at->name),
		.conf = &t->conf,
		.parts = auth_reads(&t->conf),
		.sandbox = t->lane->sandbox,
	};
	enum status st = lent_get(t->lane->lent, &wish, on_lease, t, &t->leasing);

	if (st != ST_OK)
		turn_refuse(t, st);
}

/* A token. */

static void
take_token(struct turn *t, const struct bond_token *token)
{
	t->token = *token;
	t->version = token->version;
	t->has_bond = true;
	turn_step(t);
	t->has_bond = false; /* its views end here */
}

static void
on_token(void *ctx, enum status st, const struct bond_token *token)
{
	struct turn *t = ctx;

	t->bonding = NULL;
	if (st != ST_OK) {
		turn_refuse(t, st);
		return;
	}
	take_token(t, token);
	turn_settle(t);
}

static void
get_token(struct turn *t)
{
	const struct bond_wish wish = { t->lane->connector, lane_who(t->lane),
					t->lane->sandbox };
	struct bond_token token;
	enum status st = ST_UNKNOWN_SANDBOX;

	if (wish.who != NULL)
		st = bond_get(t->all, &wish, on_token, t, &token, &t->bonding);
	if (st == ST_OK)
		take_token(t, &token);
	else if (st != ST_AGAIN)
		turn_refuse(t, st);
}

/* A certificate is for the handshake, all else for a request on what is open. */
static bool
lacks_lease(const struct turn *t)
{
	bool is_due = (t->leg == NULL) == (t->conf.kind == AUTH_MTLS);

	return is_due && auth_reads(&t->conf) != 0 && lent_lease(t->lane->lent) == NULL;
}

void
turn_step(struct turn *t)
{
	need(t->state == TURN_OPEN);
	if (lacks_lease(t))
		take_lease(t);
	else if (t->leg == NULL)
		open_upstream(t);
	else if (auth_has_exchange(&t->conf) && !t->has_bond)
		get_token(t);
	else
		turn_forward(t);
}
