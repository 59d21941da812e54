#include "connectors/store_in.h"

#include <stdlib.h>

enum { TARGET_MAX = 2048, LOGIN_MAX = 64 * 1024 };

static const struct str self = { "/v1/auth/token/lookup-self", 26 };
static const struct str revoke_self = { "/v1/auth/token/revoke-self", 26 };
static const struct str renew = { "/v1/auth/token/renew-self", 25 };

void
store_call_stop(struct store *s)
{
	struct side *leg = s->leg;

	lease_cancel(s->leasing);
	upstream_cancel(s->calling);
	if (s->is_asked)
		ask_cancel(s->line, s->seq);
	s->leasing = NULL;
	s->calling = NULL;
	s->is_asked = false;
	s->leg = NULL;
	side_abort(leg, ST_OK);
	lease_done(&s->lease);
	cred_done(&s->body);
	cred_done(&s->last);
	cred_done(&s->answer);
	arena_done(&s->scratch);
	loop_timer_clear(&s->timer);
}

static const struct image *
image(const struct store *s)
{
	return s->all->role.image;
}

/* The request. */

/* Everything in it was checked with the configuration: it goes as it is. */
static enum status
put_target(const struct store *s, struct buf *b)
{
	const struct image_store_item *item =
		s->what == STORE_READ ? store_item(s) : NULL;

	if (s->what == STORE_SELF) {
		buf_put(b, self);
	} else if (s->what == STORE_RENEW) {
		buf_put(b, renew);
	} else if (s->what == STORE_REVOKE) {
		buf_put(b, revoke_self);
	} else if (s->what == STORE_LOGIN) {
		buf_put(b, STR("/v1/auth/"));
		buf_put(b, image_str(image(s), s->at->login_mount));
		buf_put(b, STR("/login"));
	} else {
		buf_put(b, STR("/v1/"));
		buf_put(b, image_str(image(s), item->mount));
		buf_put(b, STR("/data/"));
		buf_put(b, image_str(image(s), item->path));
		if (item->version != 0)
			buf_putf(b, "?version=%u", item->version);
	}
	return b->st;
}

static enum status
set_target(struct store *s)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text = STR("");

	buf_init(&b, TARGET_MAX);
	enum status st = put_target(s, &b);
	if (st == ST_OK)
		st = buf_finish(&b, &text);
	if (st != ST_OK)
		return st;
	text = arena_copy(&s->scratch, text);
	if (text.p == NULL)
		return ST_NOMEM;
	s->head.target = text;
	s->uri.form = URI_ORIGIN;
	s->uri.query = text;
	s->uri.path = str_cut(&s->uri.query, '?');
	s->uri.has_query = s->uri.query.p != NULL;
	if (!s->uri.has_query)
		s->uri.query = STR("");
	return policy_upstream(image(s), s->at->connector, &s->uri.dest);
}

static bool
is_post(const struct store *s)
{
	return s->what != STORE_SELF && s->what != STORE_READ;
}

static void
put_body(struct store *s)
{
	struct str parts[AUTH_PARTS];

	cred_init(&s->body, LOGIN_MAX);
	if (s->what == STORE_LOGIN) {
		lease_views(&s->lease, parts);
		kv_put_login(&s->body, s->at->login == STORE_APPROLE,
			     image_str(image(s), s->at->role), parts[AUTH_PART_SECRET]);
	} else if (is_post(s)) {
		cred_put(&s->body, STR("{}"));
	}
}

static enum status
set_fields(struct store *s)
{
	struct str space = image_str(image(s), s->at->space);
	enum status st = head_add(&s->head, STR("accept"), STR("application/json"));

	if (st == ST_OK)
		st = head_add(&s->head, STR("accept-encoding"), STR("identity"));
	if (st == ST_OK)
		st = head_add(&s->head, STR("user-agent"), STR("sandgate"));
	/* Agents that stand before it may insist on this one. */
	if (st == ST_OK)
		st = head_add(&s->head, STR("x-vault-request"), STR("true"));
	if (st == ST_OK && space.n > 0)
		st = head_add(&s->head, STR("x-vault-namespace"), space);
	if (st == ST_OK && s->body.len > 0)
		st = head_add(&s->head, STR("content-type"), STR("application/json"));
	return st;
}

static void
set_frame(struct store *s)
{
	struct head *h = &s->head;
	bool posts = is_post(s);

	h->method = posts ? STR("POST") : STR("GET");
	h->method_id = posts ? METHOD_POST : METHOD_GET;
	h->minor = 1;
	h->is_persistent = true;
	h->body = posts ? BODY_LENGTH : BODY_NONE;
	h->has_length = posts;
	h->length = s->body.len;
}

static enum status
make_request(struct store *s)
{
	arena_init(&s->scratch, STORE_SPACE);
	head_init(&s->head, &s->scratch);
	s->uri = (struct uri){ .form = URI_ORIGIN };
	enum status st = set_target(s);
	if (st != ST_OK)
		return st;
	put_body(s);
	cred_init(&s->last, KV_TOKEN_MAX);
	if (s->what != STORE_LOGIN)
		cred_put(&s->last, cred_since(&s->token.text, 0));
	if (s->body.st != ST_OK || s->last.st != ST_OK)
		return ST_BAD_SECRET;
	st = set_fields(s);
	set_frame(s);
	return st;
}

/* The leg's events. */

static void
end_call(struct store *s, enum status st)
{
	struct side *leg = s->leg;

	s->leg = NULL;
	side_done(leg);
	store_answered(s, st);
}

static void
on_head(void *ctx, struct side_msg *m)
{
	struct store *s = ctx;

	if (m->head->status < 200)
		return;
	s->http = m->head->status;
	s->is_answered = m->is_whole;
}

static void
on_body(void *ctx, struct str view)
{
	cred_put(&((struct store *)ctx)->answer, view);
}

static void
on_end(void *ctx, const struct head *trailers)
{
	(void)trailers;
	((struct store *)ctx)->is_answered = true;
}

static void
on_batch(void *ctx)
{
	struct store *s = ctx;
	bool again = true;

	while (again && s->leg != NULL) {
		/* One that is too long is not waited for. */
		if (s->is_answered || s->answer.st != ST_OK) {
			end_call(s, s->answer.st == ST_OK ? ST_OK : ST_SOURCE_SILENT);
			return;
		}
		(void)!side_flush(s->leg); /* a failure is told by gone */
		side_want(s->leg, true);
		again = side_deliver(s->leg);
	}
}

static void
on_room(void *ctx)
{
	(void)ctx;
}

static void
on_gone(void *ctx, enum status why)
{
	end_call(ctx, why == ST_OK ? ST_SOURCE_SILENT : why);
}

static const struct side_events events = {
	.head = on_head,
	.body = on_body,
	.end = on_end,
	.room = on_room,
	.batch = on_batch,
	.gone = on_gone,
};

static void
send_request(struct store *s)
{
	struct field token = { STR("x-vault-token"), cred_since(&s->last, 0),
			       TOKEN_NONE };
	struct side_msg m = { .head = &s->head,
			      .uri = &s->uri,
			      .is_https = true,
			      .is_whole = s->head.body == BODY_NONE,
			      .last = &token,
			      .last_n = s->last.len > 0 };

	cred_init(&s->answer, KV_BODY_MAX);
	s->is_answered = false;
	s->http = 0;
	s->leg->events = &events;
	s->leg->ctx = s;
	side_put_head(s->leg, &m);
	if (!m.is_whole) {
		side_put_body(s->leg, cred_since(&s->body, 0));
		side_put_end(s->leg, &s->head, NULL);
	}
	/* Views of secrets end here: what isn't sent is copied. */
	(void)!side_flush(s->leg);
	cred_done(&s->body);
	cred_done(&s->last);
	lease_done(&s->lease);
	on_batch(s);
}

static void
on_upstream(void *ctx, const struct upstream_got *got)
{
	struct store *s = ctx;

	s->calling = NULL;
	if (got->st != ST_OK) {
		if (got->words != NULL)
			log_info(&s->all->role.log, "source %.*s: %s: %s",
				 STR_ARG(s->name), status_code(got->st), got->words);
		store_answered(s, got->st);
		return;
	}
	s->leg = got->side;
	send_request(s);
}

static void
on_timeout(void *ctx)
{
	store_answered(ctx, ST_UPSTREAM_TIMEOUT);
}

void
store_call(struct store *s, enum store_what what)
{
	enum status st;

	s->state = STORE_CALL;
	s->what = what;
	loop_timer_init(&s->timer, s->all->loop, on_timeout, s);
	loop_timer_set(&s->timer,
		       what == STORE_REVOKE ? STORE_REVOKE_MS : STORE_CALL_MS);
	st = make_request(s);
	const struct upstream_wish wish = {
		.connector = s->at->connector,
		.handle = HANDLE_NONE,
		.sandbox = -1,
		.dest = &s->uri.dest,
		.offer = TLS_OFFER_BOTH,
	};
	if (st == ST_OK) {
		s->leg = upstream_take(s->all, &wish, true);
		st = s->leg != NULL ? ST_OK
				    : upstream_begin(s->all, &wish, on_upstream, s,
						     &s->calling);
	}
	if (st != ST_OK)
		store_answered(s, st);
	else if (s->leg != NULL)
		send_request(s);
}
