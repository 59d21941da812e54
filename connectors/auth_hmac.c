/*
 * The kind hmac: a keyed digest over a text that the operator wrote, with the parts of the
 * request put in where braces name them:
 *
 *	{method} {path} {query} {host} {timestamp} {body} {body_sha256} {key_id}
 *
 * All else is literal.  The client chooses none of it but what stands in the request
 * itself; the host is the upstream, so a signature is worth nothing elsewhere.
 */
#include "connectors/auth_part.h"
#include "connectors/mac.h"

struct part {
	struct str name;
	bool needs_body;
	enum status (*put)(const struct auth_job *j, struct cred *out);
};

static enum status
put_method(const struct auth_job *j, struct cred *out)
{
	cred_put(out, j->head->method);
	return out->st;
}

static enum status
put_path(const struct auth_job *j, struct cred *out)
{
	cred_put(out, j->uri->path);
	return out->st;
}

static enum status
put_query(const struct auth_job *j, struct cred *out)
{
	cred_put(out, j->uri->query);
	return out->st;
}

static enum status
put_host(const struct auth_job *j, struct cred *out)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, DEST_NAME_MAX + 64);
	dest_put_host(&b, &j->uri->dest);
	cred_put(out, str_of(b.p, b.len));
	return b.st != ST_OK ? b.st : out->st;
}

static enum status
put_timestamp(const struct auth_job *j, struct cred *out)
{
	cred_put_dec(out, j->now_s);
	return out->st;
}

static enum status
put_body(const struct auth_job *j, struct cred *out)
{
	cred_put(out, j->body);
	return out->st;
}

static enum status
put_body_sha256(const struct auth_job *j, struct cred *out)
{
	struct mac m;
	enum status st = mac_digest(MAC_HASH_SHA256, j->body, &m);

	if (st == ST_OK)
		cred_put_hex(out, mac_view(&m));
	return st == ST_OK ? out->st : st;
}

static enum status
put_key_id(const struct auth_job *j, struct cred *out)
{
	cred_put(out, j->conf->key_id);
	return out->st;
}

static const struct part parts[] = {
	{ { "{method}", 8 }, false, put_method },
	{ { "{path}", 6 }, false, put_path },
	{ { "{query}", 7 }, false, put_query },
	{ { "{host}", 6 }, false, put_host },
	{ { "{timestamp}", 11 }, false, put_timestamp },
	{ { "{body}", 6 }, true, put_body },
	{ { "{body_sha256}", 13 }, true, put_body_sha256 },
	{ { "{key_id}", 8 }, false, put_key_id },
};

static const struct part *
part_at(struct str text)
{
	for (size_t i = 0; i < COUNT_OF(parts); i++)
		if (str_starts(text, parts[i].name))
			return &parts[i];
	return NULL;
}

/* Not given: the body, as most webhooks have it. */
static struct str
message_of(const struct auth_job *j)
{
	return j->conf->message.n > 0 ? j->conf->message : STR("{body}");
}

enum auth_body
auth_body_hmac(const struct auth_job *j)
{
	struct str text = message_of(j);

	if (j->head->body == BODY_NONE)
		return AUTH_BODY_STREAM;
	for (; text.n > 0; text = str_skip(text, 1)) {
		const struct part *p = part_at(text);
		if (p != NULL && p->needs_body)
			return AUTH_BODY_WHOLE;
	}
	return AUTH_BODY_STREAM;
}

void
auth_strip_hmac(struct auth_job *j)
{
	head_remove_name(j->head, j->conf->name);
	if (j->conf->timestamp.n > 0)
		head_remove_name(j->head, j->conf->timestamp);
}

static enum status
expand(const struct auth_job *j, struct str text, struct cred *out)
{
	enum status st = ST_OK;

	while (text.n > 0 && st == ST_OK) {
		const struct part *p = part_at(text);
		if (p != NULL)
			st = p->put(j, out);
		else
			cred_putc(out, text.p[0]);
		text = str_skip(text, p != NULL ? p->name.n : 1);
	}
	return st == ST_OK ? out->st : st;
}

static enum status
sign(const struct auth_job *j, struct mac *ret_m)
{
	static const enum mac_hash hashes[] = {
		[AUTH_SHA256] = MAC_HASH_SHA256,
		[AUTH_SHA1] = MAC_HASH_SHA1,
		[AUTH_SHA512] = MAC_HASH_SHA512,
	};
	CLEANUP(cred_done) struct cred text = { 0 };
	enum status st;

	if (j->conf->algorithm >= COUNT_OF(hashes))
		return ST_BAD_CONFIG;
	/* The message may name each part more than once, but not without end. */
	cred_init(&text, 65536 + 2 * j->body.n);
	st = expand(j, message_of(j), &text);
	if (st != ST_OK)
		return st;
	return mac_keyed(hashes[j->conf->algorithm], j->parts[AUTH_PART_SECRET],
			 cred_since(&text, 0), ret_m);
}

enum status
auth_write_hmac(struct auth_job *j)
{
	struct mac m;
	size_t mark = cred_mark(&j->space);
	enum status st = auth_check_text(j->parts[AUTH_PART_SECRET]);

	if (st == ST_OK && j->conf->timestamp.n > 0) {
		cred_put_dec(&j->space, j->now_s);
		st = auth_last(j, j->conf->timestamp, mark);
	}
	if (st == ST_OK)
		st = sign(j, &m);
	mark = cred_mark(&j->space);
	if (st == ST_OK)
		st = expand(j, j->conf->prefix, &j->space);
	if (st != ST_OK)
		return st;
	if (j->conf->encoding == AUTH_BASE64)
		cred_put_base64(&j->space, mac_view(&m));
	else
		cred_put_hex(&j->space, mac_view(&m));
	return auth_last(j, j->conf->name, mark);
}
