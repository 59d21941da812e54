/*
 * The kind sigv4: which fields are signed, and what stands for the body.
 *
 *	S3 over TLS   UNSIGNED-PAYLOAD: streamed; TLS guards it on its way
 *	else          the body's own hash: gathered whole, up to a cap
 *	no body       the hash of nothing
 *
 * Unsigned chunks with a checksum behind them are S3's own way to stream, and go on as
 * they came.
 */
#include "connectors/auth_part.h"
#include "connectors/mac.h"
#include "connectors/sigv4.h"

static const struct str date_name = { "x-amz-date", 10 },
			payload_name = { "x-amz-content-sha256", 20 },
			session_name = { "x-amz-security-token", 20 },
			authorization = { "authorization", 13 },
			unsigned_payload = { "UNSIGNED-PAYLOAD", 16 },
			unsigned_chunks = { "STREAMING-UNSIGNED-PAYLOAD-TRAILER", 34 };

static bool
is_s3(const struct auth_job *j)
{
	return str_eq(j->conf->service, STR("s3")) ||
	       str_eq(j->conf->service, STR("s3-outposts")) ||
	       str_eq(j->conf->service, STR("s3express"));
}

enum status
auth_refuses_sigv4(const struct auth_job *j)
{
	return sigv4_refuses(j->head, j->uri->query);
}

enum auth_body
auth_body_sigv4(const struct auth_job *j)
{
	if (j->head->body == BODY_NONE || (is_s3(j) && j->is_tls))
		return AUTH_BODY_STREAM;
	return AUTH_BODY_WHOLE;
}

/* Exactly one such field, and it says so. */
static bool
sends_chunks(const struct head *h)
{
	const struct field *only = NULL;

	for (size_t i = 0; i < h->fields_len; i++) {
		if (!head_same_name(h->fields[i].name, payload_name))
			continue;
		if (only != NULL)
			return false;
		only = &h->fields[i];
	}
	return only != NULL && str_eq(only->value, unsigned_chunks);
}

/* The word for unsigned chunks is no secret, and auth_write_sigv4() asks for it. */
void
auth_strip_sigv4(struct auth_job *j)
{
	bool is_chunked = is_s3(j) && sends_chunks(j->head);

	head_remove_name(j->head, date_name);
	head_remove_name(j->head, session_name);
	if (!is_chunked)
		head_remove_name(j->head, payload_name);
}

/* KEYID:KEY, or KEY with key_id. */
static enum status
keys_of(const struct auth_job *j, struct sigv4_keys *ret_keys)
{
	struct str rest = j->parts[AUTH_PART_SECRET], id = j->conf->key_id;

	if (j->token != NULL) {
		*ret_keys = (struct sigv4_keys){ j->token->id, j->token->value,
						 j->token->session };
		return ST_OK;
	}
	if (id.n == 0)
		id = str_cut(&rest, ':');
	if (id.n == 0 || rest.n == 0)
		return ST_BAD_SECRET;
	*ret_keys = (struct sigv4_keys){ id, rest, j->parts[AUTH_PART_SESSION_TOKEN] };
	return ST_OK;
}

static enum status
put_payload(struct auth_job *j, struct cred *out)
{
	struct mac m;
	enum status st;

	if (is_s3(j) && sends_chunks(j->head))
		cred_put(out, unsigned_chunks);
	else if (is_s3(j) && j->is_tls && j->head->body != BODY_NONE)
		cred_put(out, unsigned_payload);
	else {
		st = mac_digest(MAC_HASH_SHA256, j->body, &m);
		if (st != ST_OK)
			return st;
		cred_put_hex(out, mac_view(&m));
	}
	return out->st;
}

static bool
is_signed(const struct head *h, const struct field *f)
{
	bool is_ours = f->token == TOKEN_CONTENT_TYPE ||
		       str_ieq(f->name, STR("content-md5")) ||
		       (f->name.n > 6 && str_ieq(str_head(f->name, 6), STR("x-amz-")));

	return is_ours && head_field_passes(h, f);
}

/* Those of the client that are signed, Host as it will be written, and our own. */
static size_t
collect(struct auth_job *j, struct str host, struct field fields[CANON_FIELDS_MAX])
{
	size_t n = 0;

	fields[n++] = (struct field){ STR("host"), host, TOKEN_HOST };
	for (size_t i = 0; i < j->last_n; i++)
		fields[n++] = j->last[i];
	for (size_t i = 0; i < j->head->fields_len && n < CANON_FIELDS_MAX; i++)
		if (is_signed(j->head, &j->head->fields[i]))
			fields[n++] = j->head->fields[i];
	return n;
}

/* As h1_write_request() and the pseudo-field of HTTP/2 write it. */
static enum status
put_host(const struct auth_job *j, struct buf *b)
{
	uint16_t usual = j->is_tls ? 443 : 80;

	if (j->uri->dest.port == usual)
		dest_put_host(b, &j->uri->dest);
	else
		dest_put(b, &j->uri->dest);
	return b->st;
}

static enum status
put_own_fields(struct auth_job *j, const struct sigv4_keys *keys, struct str payload)
{
	char date[SIGV4_DATE];
	size_t mark = cred_mark(&j->space);
	enum status st;

	sigv4_date(j->now_s, date);
	cred_put(&j->space, str_of(date, sizeof date));
	st = auth_last(j, date_name, mark);
	if (st == ST_OK && keys->session.n > 0) {
		mark = cred_mark(&j->space);
		cred_put(&j->space, keys->session);
		st = auth_last(j, session_name, mark);
	}
	if (st == ST_OK && is_s3(j) && !sends_chunks(j->head)) {
		mark = cred_mark(&j->space);
		cred_put(&j->space, payload);
		st = auth_last(j, payload_name, mark);
	}
	return st;
}

static enum status
write_signature(struct auth_job *j, const struct sigv4_keys *keys, struct str payload)
{
	CLEANUP(buf_done) struct buf host = { 0 };
	struct field fields[CANON_FIELDS_MAX];
	const struct sigv4_scope scope = { j->conf->region, j->conf->service,
					   j->now_s };
	struct canon c = { .method = j->head->method,
			   .path = j->uri->path,
			   .query = j->uri->query,
			   .fields = fields,
			   .payload = payload,
			   .is_s3 = is_s3(j) };
	size_t mark = cred_mark(&j->space);
	enum status st;

	buf_init(&host, DEST_NAME_MAX + 64);
	st = put_host(j, &host);
	if (st != ST_OK)
		return st;
	c.fields_n = collect(j, str_of(host.p, host.len), fields);
	st = sigv4_put_authorization(&j->space, &c, &scope, keys);
	return st == ST_OK ? auth_last(j, authorization, mark) : st;
}

enum status
auth_write_sigv4(struct auth_job *j)
{
	CLEANUP(cred_done) struct cred payload = { 0 };
	struct sigv4_keys keys;
	enum status st = keys_of(j, &keys);

	if (st == ST_OK)
		st = auth_check_text(keys.secret);
	if (st == ST_OK)
		st = auth_check_text(keys.id);
	if (st == ST_OK && keys.session.n > 0)
		st = auth_check_text(keys.session);
	if (st != ST_OK)
		return st;
	cred_init(&payload, 80);
	st = put_payload(j, &payload);
	if (st == ST_OK)
		st = put_own_fields(j, &keys, cred_since(&payload, 0));
	if (st == ST_OK)
		st = write_signature(j, &keys, cred_since(&payload, 0));
	return st;
}
