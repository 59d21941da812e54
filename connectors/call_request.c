/* What a call sends, and whether it may. */
#include "connectors/call_in.h"

enum { SPACE_MAX = 96 * 1024 };

static enum status
add_fields(struct call *c)
{
	struct head *h = &c->head;
	enum status st = head_add(h, STR("accept"), STR("application/json"));
	enum token t;

	if (st == ST_OK)
		st = head_add(h, STR("accept-encoding"), STR("identity"));
	if (st == ST_OK)
		st = head_add(h, STR("user-agent"), STR("sandgate"));
	if (st != ST_OK || c->wish.type.n == 0)
		return st;
	st = head_judge(STR("content-type"), c->wish.type, &t);
	return st == ST_OK ? head_add(h, STR("content-type"), c->wish.type) : st;
}

static bool
is_known(enum method m)
{
	return m == METHOD_GET || m == METHOD_POST || m == METHOD_PUT ||
	       m == METHOD_PATCH || m == METHOD_DELETE;
}

static enum status
make_request(struct call *c)
{
	struct head *h = &c->head;
	enum method m = method_of(c->wish.method);
	bool has_body = c->wish.body.n > 0 || m == METHOD_POST || m == METHOD_PUT ||
			m == METHOD_PATCH;
	enum status st = is_known(m) ? ST_OK : ST_METHOD_REFUSED;

	head_init(h, &c->scratch);
	if (st == ST_OK)
		st = uri_parse(m, c->wish.target, &c->uri);
	if (st == ST_OK && c->uri.form != URI_ORIGIN)
		st = ST_BAD_TARGET;
	if (st != ST_OK)
		return st;
	h->method = c->wish.method;
	h->method_id = m;
	h->target = c->wish.target;
	h->minor = 1;
	h->is_persistent = true;
	h->body = has_body ? BODY_LENGTH : BODY_NONE;
	h->has_length = has_body;
	h->length = c->wish.body.n;
	st = policy_upstream(c->all->role.image, c->connector, &c->uri.dest);
	return st == ST_OK ? add_fields(c) : st;
}

/* That a credential is used is in the ledger before it goes out. */
static enum status
record(const struct call *c, uint32_t version)
{
	CLEANUP(buf_done) struct buf host = { 0 };
	struct row row = role_row_begin(&c->all->role, ROW_CREDENTIAL, NULL);

	buf_init(&host, DEST_NAME_MAX + 64);
	dest_put(&host, &c->uri.dest);
	row.turn = row.id;
	row.host = str_of(host.p, host.len);
	row.method = c->wish.method;
	row.path = c->uri.path;
	row.connector = c->wish.connector;
	row.secret_version = version;
	row.detail = STR("for the gateway itself");
	return host.st == ST_OK ? role_row(&c->all->role, &row) : host.st;
}

/* No sandbox has a placeholder for it: asterisks stand for the credential. */
static enum status
find_words(struct call *c)
{
	const struct shape_owner nobody = { .key = NULL };
	struct words *w = words_new(&nobody, STR(""));

	if (w == NULL)
		return ST_NOMEM;
	words_add_shown(w, &c->job);
	c->words = w;
	return words_ready(w);
}

enum status
call_write(struct call *c, const struct bond_token *token)
{
	struct auth_job *j = &c->job;
	const struct lease *lease = lent_lease(c->lent);
	uint32_t version = token != NULL ? token->version : 0;

	j->head = &c->head;
	j->uri = &c->uri;
	j->is_tls = !connector_at(c->all, c->connector)->upstream_is_plain;
	j->now_s = connector_now_s();
	j->body = c->wish.body;
	if (token != NULL) {
		j->token = &token->shown;
	} else if (lease != NULL) {
		lease_views(lease, j->parts);
		version = lease->version;
	}
	enum status st = c->conf.kind == AUTH_PASSTHROUGH ? ST_OK : record(c, version);
	if (st == ST_OK && c->conf.kind != AUTH_PASSTHROUGH &&
	    c->conf.kind != AUTH_MTLS)
		st = find_words(c);
	if (st == ST_OK) {
		auth_strip(j);
		st = auth_write(j);
	}
	/* Views of the lease or of the token: what was made of them is the job's own. */
	memset(j->parts, 0, sizeof j->parts);
	j->token = NULL;
	return st;
}

/* Judged anew with each try.  A credential goes by TLS, but to a server of `servers:`, where
 * conf has seen that the operator means it. */
static enum status
judge(struct call *c)
{
	const struct image *im = c->all->role.image;

	c->connector = image_connector_by_name(im, c->wish.connector);
	const struct image_connector *at = connector_at(c->all, c->connector);
	if (at == NULL || !policy_may_call(im, c->connector) ||
	    !str_eq(image_str(im, at->group), str_from(c->all->group)))
		return ST_NOT_FOUND;
	auth_conf_from(im, &at->auth, &c->conf);
	if (c->conf.is_delegated)
		return ST_SECRET_DENIED;
	if (at->upstream_is_plain && c->conf.kind != AUTH_PASSTHROUGH &&
	    image_exec_server_of(im, c->connector) == NULL)
		return ST_NEEDS_TLS;
	return ST_OK;
}

enum status
call_prepare(struct call *c)
{
	enum status st = judge(c);

	if (st != ST_OK)
		return st;
	arena_init(&c->scratch, SPACE_MAX);
	auth_job_init(&c->job, &c->conf);
	st = make_request(c);
	c->job.head = &c->head;
	c->job.uri = &c->uri;
	if (st == ST_OK)
		st = auth_refuses(&c->job);
	if (st != ST_OK)
		return st;
	c->lent = lent_of(c->all, c->connector, HANDLE_NONE);
	return c->lent != NULL ? ST_OK : ST_NOMEM;
}
