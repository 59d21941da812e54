#include "connectors/store_in.h"

#include <stdlib.h>

enum { TARGET_MAX = 2048, LOGIN_MAX = 64 * 1024 };

static const struct str self = { "/v1/auth/token/lookup-self", 26 };
static const struct str revoke_self = { "/v1/auth/token/revoke-self", 26 };
static const struct str renew = { "/v1/auth/token/renew-self", 25 };

void
store_call_stop(struct store *s)
{
	lease_cancel(s->leasing);
	if (s->is_asked)
		ask_cancel(s->line, s->seq);
	s->leasing = NULL;
	s->is_asked = false;
	errand_stop(&s->errand);
	lease_done(&s->lease);
	cred_done(&s->body);
	cred_done(&s->last);
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
		const struct image_store_item *item = store_item(s);
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

/* On its way. */

static void
on_sent(void *ctx)
{
	struct store *s = ctx;

	cred_done(&s->body);
	cred_done(&s->last);
	lease_done(&s->lease);
}

static void
on_over(void *ctx, enum status st)
{
	struct store *s = ctx;

	s->http = s->errand.http;
	store_answered(s, st);
}

static void
send_request(struct store *s)
{
	static const struct errand_hooks hooks = { on_sent, on_over };
	const struct upstream_wish wish = {
		.connector = s->at->connector,
		.handle = HANDLE_NONE,
		.sandbox = -1,
		.dest = &s->uri.dest,
		.offer = TLS_OFFER_BOTH,
	};

	s->token_field = (struct field){ STR("x-vault-token"), cred_since(&s->last, 0),
					 TOKEN_NONE };
	s->errand = (struct errand){
		.all = s->all,
		.hooks = &hooks,
		.ctx = s,
		.name = s->name,
		.msg = { .head = &s->head,
			 .uri = &s->uri,
			 .is_https = true,
			 .is_whole = s->head.body == BODY_NONE,
			 .last = &s->token_field,
			 .last_n = s->last.len > 0 },
		.body = cred_since(&s->body, 0),
		.answer_max = KV_BODY_MAX,
	};
	errand_begin(&s->errand, &wish);
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
	if (st == ST_OK)
		send_request(s);
	else
		store_answered(s, st);
}
