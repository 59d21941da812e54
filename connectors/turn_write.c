#include "connectors/scrub_head.h"
#include "connectors/turn_in.h"

/* A credential is used: that is in the ledger before it goes out. */
static enum status
record(struct turn *t)
{
	CLEANUP(buf_done) struct buf host = { 0 };
	CLEANUP(buf_done) struct buf rule = { 0 };
	const struct image *im = t->all->role.image;
	const struct who *w = lane_who(t->lane);
	struct row row;

	if (w == NULL)
		return ST_UNKNOWN_SANDBOX;
	buf_init(&host, DEST_NAME_MAX + 64);
	buf_init(&rule, 8192);
	dest_put(&host, &t->target.dest);
	image_put_rule(&rule, im, t->rule);
	row = role_row_begin(&t->all->role, ROW_CREDENTIAL, w);
	row.turn = row.id;
	row.host = str_of(host.p, host.len);
	row.rule = str_of(rule.p, rule.len);
	row.method = t->request->method;
	row.path = t->uri.path;
	row.connector = image_str(im, t->at->name);
	row.secret_version = t->version;
	return host.st == ST_OK && rule.st == ST_OK ? role_row(&t->all->role, &row)
						    : ST_NOMEM;
}

static bool
is_word(const struct image *im, struct str name, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (head_same_name(image_word(im, first + i), name))
			return true;
	return false;
}

static bool
goes_on(const struct turn *t, const struct field *f)
{
	const struct image_connector *c = t->at;

	/* The writer makes its own of these. */
	if (f->token == TOKEN_TE)
		return true;
	if (!head_field_passes(t->request, f))
		return false;
	if (t->is_gathered && f->token == TOKEN_EXPECT)
		return false;
	return !is_word(t->all->role.image, f->name, c->request_strip,
			c->request_strip_n);
}

/* What the operator adds replaces what the client sent under that name. */
static enum status
add_fields(const struct turn *t, struct head *out)
{
	const struct image *im = t->all->role.image;
	const struct image_header_line *line = image_headers(im, t->at->request_add);
	enum status st = ST_OK;

	for (uint32_t i = 0; i < t->at->request_add_n && st == ST_OK; i++)
		st = head_set(out, image_str(im, line[i].name),
			      image_str(im, line[i].value));
	return st;
}

static bool
is_added(const struct turn *t, struct str name)
{
	const struct image *im = t->all->role.image;
	const struct image_header_line *line = image_headers(im, t->at->request_add);

	for (uint32_t i = 0; i < t->at->request_add_n; i++)
		if (head_same_name(image_str(im, line[i].name), name))
			return true;
	return false;
}

/* Some servers make fields of trailers: what may not be a field is none of those either. */
enum status
turn_trailers(struct turn *t, const struct head *in, struct head *ret_out)
{
	struct uri unused = { .form = URI_ORIGIN };
	struct auth_job j;
	enum status st = ST_OK;

	head_init(ret_out, &t->arena);
	/* Under a new policy nobody knows any more what may go. */
	for (size_t i = 0; t->at != NULL && i < in->fields_len && st == ST_OK; i++) {
		const struct field *f = &in->fields[i];
		if (goes_on(t, f) && !is_added(t, f->name))
			st = head_add_view(ret_out, f->token, f->name, f->value);
	}
	if (st != ST_OK || t->at == NULL)
		return st;
	auth_job_init(&j, &t->conf);
	j.head = ret_out;
	j.uri = &unused;
	auth_strip(&j);
	return ST_OK;
}

/* The request as it goes on, but for its credential.  Only fields that pass are in it and
 * no Connection, so nothing that is added can be nominated away. */
static enum status
make_head(struct turn *t, struct head *out)
{
	const struct head *in = t->request;
	struct arena *arena = &t->arena;
	enum status st = ST_OK;

	*out = *in;
	out->arena = arena;
	out->fields = NULL;
	out->fields_len = out->fields_cap = 0;
	for (size_t i = 0; i < in->fields_len && st == ST_OK; i++) {
		const struct field *f = &in->fields[i];
		if (goes_on(t, f))
			st = head_add_view(out, f->token, f->name, f->value);
	}
	if (st == ST_OK && rinse_is_on(&t->rinse))
		st = scrub_request_head(out);
	if (st == ST_OK)
		st = add_fields(t, out);
	if (t->is_gathered) {
		out->body = BODY_LENGTH;
		out->has_length = true;
		out->expects_continue = false;
	}
	return st;
}

static enum status
make_words(struct turn *t, const struct auth_job *j, struct words **ret_w)
{
	const struct image *im = t->all->role.image;
	const struct who *who = lane_who(t->lane);
	struct shape_owner o = { .key = NULL };
	struct words *w;
	enum status st;

	if (who != NULL)
		o = (struct shape_owner){ &t->all->role.shapes, who->id,
					  image_str(im, t->at->name) };
	w = words_new(&o, image_str(im, t->at->auth.placeholder));
	if (w == NULL)
		return ST_NOMEM;
	words_add_shown(w, j);
	st = words_ready(w);
	if (st != ST_OK)
		words_unref(w);
	else
		*ret_w = w;
	return st;
}

/* What must not come back: made with the first request of a lease or a token. */
static enum status
find_words(struct turn *t, const struct auth_job *j)
{
	uint64_t key = t->has_bond ? t->token.serial : 0;
	struct words *w = lent_words(t->lane->lent, key);
	enum status st;

	if (w == NULL) {
		st = make_words(t, j, &w);
		if (st != ST_OK)
			return st;
		lent_keep_words(t->lane->lent, key, w);
	}
	rinse_use(&t->rinse, words_ref(w));
	return ST_OK;
}

static enum status
make_job(struct turn *t, struct auth_job *j)
{
	const struct lease *lease = lent_lease(t->lane->lent);

	auth_job_init(j, &t->conf);
	if (auth_reads(&t->conf) != 0 && lease != NULL) {
		lease_views(lease, j->parts);
		t->version = lease->version;
	}
	if (t->has_bond)
		j->token = &t->token.shown;
	j->now_s = connector_now_s();
	j->is_tls = !t->is_plain;
	j->body = cred_since(&t->body, 0);
	if (t->conf.kind == AUTH_MTLS || t->conf.kind == AUTH_PASSTHROUGH ||
	    !t->at->is_redacting)
		return ST_OK;
	/* As the request goes out again, they are there already. */
	return t->rinse.words != NULL ? ST_OK : find_words(t, j);
}

/* What goes on, and the job that changes it: the job points at the other two. */
struct outgoing {
	struct auth_job job;
	struct head head;
	struct uri target;
};

/* The credential lives from here to the end of this call. */
static enum status
put_request(struct turn *t, struct outgoing *o)
{
	struct auth_job *j = &o->job;
	struct side_msg m = { .head = &o->head,
			      .uri = &o->target,
			      .is_https = !t->is_plain,
			      .is_ws = t->is_ws,
			      .is_whole = t->request_ends && !t->is_ws };
	enum status st = make_head(t, &o->head);

	o->target = t->target;
	j->head = &o->head;
	j->uri = &o->target;
	if (st != ST_OK)
		return st;
	auth_strip(j);
	st = auth_write(j);
	if (st != ST_OK)
		return st;
	if (t->is_gathered)
		o->head.length = j->body.n;
	m.last = j->last;
	m.last_n = j->last_n;
	side_put_head(t->leg, &m);
	if (t->is_gathered) {
		if (j->body.n > 0)
			side_put_body(t->leg, j->body);
		side_put_end(t->leg, &o->head, NULL);
	}
	/* Views of the credential end with it: what isn't sent is copied. */
	st = side_flush(t->leg);
	return st == ST_AGAIN || st == ST_END ? ST_OK : st;
}

void
turn_forward(struct turn *t)
{
	struct outgoing o;
	enum status st = make_job(t, &o.job);

	if (st == ST_OK && t->conf.kind != AUTH_PASSTHROUGH)
		st = record(t);
	if (st == ST_OK)
		st = put_request(t, &o);
	auth_job_done(&o.job);
	if (st != ST_OK)
		turn_refuse(t, st);
	else
		turn_to(t, TURN_FORWARD);
}
