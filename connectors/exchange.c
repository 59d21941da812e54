#include "connectors/exchange.h"

#include "connectors/jwt.h"

enum {
	/* A service's clock may be behind ours, and GitHub takes ten minutes at most. */
	JWT_BACK_S = 60,
	JWT_LIFE_S = 540,
	FORM_MAX = 64 * 1024,
	ASSERTION_MAX = 2 * JWT_MAX,
	SPACE_MAX = 4 * JWT_MAX
};

bool
exchange_is_local(const struct auth_conf *c)
{
	return c->kind == AUTH_JWT_BEARER && c->exchange == AUTH_EXCHANGE_NONE;
}

static enum status
put_jwt(struct cred *out, const struct auth_conf *c, struct str key, uint64_t now_s)
{
	struct str audience = c->audience;

	if (audience.n == 0 && c->exchange == AUTH_EXCHANGE_OAUTH)
		audience = c->token_url;
	const struct jwt_claims claims = {
		.issuer = c->issuer,
		.subject = c->subject,
		.audience = audience,
		.scope = c->scopes,
		.key_id = c->key_id,
		.issued_s = now_s - JWT_BACK_S,
		.expires_s = now_s + JWT_LIFE_S,
	};
	return jwt_put(out, c->algorithm == AUTH_ES256 ? JWT_ES256 : JWT_RS256, key,
		       &claims);
}

enum status
exchange_make_local(const struct auth_conf *c, const struct str *parts, uint64_t now_s,
		    struct token_held *ret_t)
{
	struct token_held t = { .expires_s = now_s + JWT_LIFE_S };
	enum status st;

	need(exchange_is_local(c));
	cred_init(&t.text, ASSERTION_MAX);
	st = put_jwt(&t.text, c, parts[AUTH_PART_SECRET], now_s);
	if (st != ST_OK) {
		cred_done(&t.text);
		return st;
	}
	t.shown.value = cred_since(&t.text, 0);
	*ret_t = t;
	return ST_OK;
}

static void
put_field(struct cred *out, const char *name, struct str value)
{
	if (value.n == 0)
		return;
	if (out->len > 0)
		cred_putc(out, '&');
	cred_put(out, str_from(name));
	cred_putc(out, '=');
	cred_put_form(out, value);
}

/* RFC 6749 section 2.3.1: both are form-encoded before they are joined. */
static enum status
put_basic(struct exchange *x, struct str id, struct str secret)
{
	CLEANUP(cred_done) struct cred pair = { 0 };
	size_t mark = cred_mark(&x->job.space);

	cred_init(&pair, 3 * (id.n + secret.n) + 1);
	cred_put_form(&pair, id);
	cred_putc(&pair, ':');
	cred_put_form(&pair, secret);
	if (pair.st != ST_OK)
		return pair.st;
	cred_put(&x->job.space, STR("Basic "));
	cred_put_base64(&x->job.space, cred_since(&pair, 0));
	if (x->job.space.st != ST_OK)
		return x->job.space.st;
	x->job.last[x->job.last_n++] =
		(struct field){ STR("authorization"), cred_since(&x->job.space, mark),
				TOKEN_AUTHORIZATION };
	return ST_OK;
}

/* How the client shows itself; one without a secret still says its name. */
static enum status
put_client(struct exchange *x, const struct auth_conf *c, struct str secret)
{
	if (secret.n > 0 && c->style == AUTH_STYLE_BASIC)
		return put_basic(x, c->client_id, secret);
	put_field(&x->form, "client_id", c->client_id);
	put_field(&x->form, "client_secret", secret);
	return x->form.st;
}

static enum status
make_client_credentials(struct exchange *x, const struct auth_conf *c,
			const struct str *parts)
{
	put_field(&x->form, "grant_type", STR("client_credentials"));
	put_field(&x->form, "scope", c->scopes);
	put_field(&x->form, "audience", c->audience);
	return put_client(x, c, parts[AUTH_PART_SECRET]);
}

static enum status
make_refresh(struct exchange *x, const struct auth_conf *c, const struct str *parts)
{
	put_field(&x->form, "grant_type", STR("refresh_token"));
	put_field(&x->form, "refresh_token", parts[AUTH_PART_SECRET]);
	put_field(&x->form, "scope", c->scopes);
	return put_client(x, c, parts[AUTH_PART_CLIENT_SECRET]);
}

static enum status
make_assertion(struct exchange *x, const struct auth_conf *c, const struct str *parts)
{
	CLEANUP(cred_done) struct cred jwt = { 0 };
	enum status st;

	cred_init(&jwt, ASSERTION_MAX);
	st = put_jwt(&jwt, c, parts[AUTH_PART_SECRET], x->job.now_s);
	if (st != ST_OK)
		return st;
	put_field(&x->form, "grant_type",
		  STR("urn:ietf:params:oauth:grant-type:jwt-bearer"));
	put_field(&x->form, "assertion", cred_since(&jwt, 0));
	put_field(&x->form, "scope", c->scopes);
	return x->form.st;
}

/* No body: the installation is in the URL, the App in the JWT. */
static enum status
make_github(struct exchange *x, const struct auth_conf *c, const struct str *parts)
{
	struct cred *out = &x->job.space;
	enum status st;

	cred_put(out, STR("Bearer "));
	st = put_jwt(out, c, parts[AUTH_PART_SECRET], x->job.now_s);
	if (st != ST_OK)
		return st;
	x->job.last[x->job.last_n++] =
		(struct field){ STR("authorization"), cred_since(out, 0),
				TOKEN_AUTHORIZATION };
	return ST_OK;
}

static enum status
make_assume_role(struct exchange *x, const struct auth_conf *c)
{
	put_field(&x->form, "Action", STR("AssumeRole"));
	put_field(&x->form, "Version", STR("2011-06-15"));
	put_field(&x->form, "RoleArn", c->assume_role);
	put_field(&x->form, "RoleSessionName",
		  c->session_name.n > 0 ? c->session_name : STR("sandgate"));
	put_field(&x->form, "ExternalId", c->external_id);
	return x->form.st;
}

static enum status
make_body(struct exchange *x, const struct auth_conf *c, const struct str *parts)
{
	if (c->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS)
		return make_client_credentials(x, c, parts);
	if (c->kind == AUTH_OAUTH2_REFRESH)
		return make_refresh(x, c, parts);
	if (c->kind == AUTH_SIGV4)
		return make_assume_role(x, c);
	return c->exchange == AUTH_EXCHANGE_GITHUB_APP ? make_github(x, c, parts)
						       : make_assertion(x, c, parts);
}

/* https://HOST[:PORT][/PATH][?QUERY]; the configuration was checked when it was read. */
static enum status
split_url(struct exchange *x, struct str url, struct arena *a)
{
	struct str rest = str_skip(url, 8), target, path;
	size_t n = 0;

	if (!str_starts(url, STR("https://")))
		return ST_BAD_CONFIG;
	while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
		n++;
	target = str_skip(rest, n);
	if (target.n == 0 || target.p[0] == '?')
		target = STR("/");
	path = arena_copy(a, target);
	if (path.p == NULL)
		return ST_NOMEM;
	x->head.target = path;
	x->uri.form = URI_ORIGIN;
	x->uri.query = path;
	x->uri.path = str_cut(&x->uri.query, '?');
	x->uri.has_query = x->uri.query.p != NULL;
	if (!x->uri.has_query)
		x->uri.query = STR("");
	return dest_from_authority(str_head(rest, n), 443, &x->uri.dest);
}

static enum status
make_head(struct exchange *x, const struct auth_conf *c)
{
	/* The token service of Amazon answers in JSON to who would have it. */
	struct str type =
		c->kind == AUTH_SIGV4 ? STR("text/xml") : STR("application/json");
	struct head *h = &x->head;
	enum status st;

	h->method = STR("POST");
	h->method_id = METHOD_POST;
	h->minor = 1;
	h->body = BODY_LENGTH;
	h->has_length = true;
	h->is_persistent = true;
	st = head_add(h, STR("accept"), type);
	/* Some services refuse who names no agent. */
	if (st == ST_OK)
		st = head_add(h, STR("user-agent"), STR("sandgate"));
	if (st == ST_OK)
		st = head_add(h, STR("accept-encoding"), STR("identity"));
	if (st == ST_OK && x->form.len > 0)
		st = head_add(h, STR("content-type"),
			      STR("application/x-www-form-urlencoded"));
	return st;
}

/* The base keys sign the call itself, for the service that gives the others out. */
static enum status
sign_call(struct exchange *x, const struct auth_conf *c, const struct str *parts)
{
	x->conf = *c;
	x->conf.service = STR("sts");
	x->conf.assume_role = STR("");
	cred_done(&x->job.space);
	x->job.space = (struct cred){ 0 };
	for (size_t i = 0; i < AUTH_PARTS; i++)
		x->job.parts[i] = parts[i];
	return auth_write(&x->job);
}

enum status
exchange_make(struct exchange *x, const struct auth_conf *c, const struct str *parts,
	      uint64_t now_s, struct arena *a)
{
	enum status st;

	need(auth_has_exchange(c) && !exchange_is_local(c));
	*x = (struct exchange){ .conf = *c };
	head_init(&x->head, a);
	x->job = (struct auth_job){ .conf = &x->conf,
				    .now_s = now_s,
				    .is_tls = true,
				    .head = &x->head,
				    .uri = &x->uri };
	cred_init(&x->form, FORM_MAX);
	cred_init(&x->job.space, SPACE_MAX);
	st = split_url(x, c->token_url, a);
	if (st == ST_OK)
		st = make_body(x, c, parts);
	if (st == ST_OK)
		st = make_head(x, c);
	if (st != ST_OK)
		return st;
	x->job.body = cred_since(&x->form, 0);
	x->head.length = x->job.body.n;
	return c->kind == AUTH_SIGV4 ? sign_call(x, c, parts) : ST_OK;
}

void
exchange_over(struct exchange *x)
{
	auth_job_done(&x->job);
	cred_done(&x->form);
}

enum status
exchange_read(const struct auth_conf *c, uint16_t status, struct str body,
	      uint64_t now_s, struct token_held *ret_t)
{
	if (status < 200 || status > 299)
		return ST_TOKEN_FAILED;
	if (c->kind == AUTH_SIGV4)
		return token_parse_sts(body, ret_t);
	if (c->kind == AUTH_JWT_BEARER && c->exchange == AUTH_EXCHANGE_GITHUB_APP)
		return token_parse_github(body, ret_t);
	return token_parse_oauth(body, now_s, ret_t);
}
