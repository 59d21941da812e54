#include "connectors/auth.h"

#include "connectors/auth_part.h"

enum {
	CLIENT_SECRET = 1u << AUTH_PART_CLIENT_SECRET,
	SESSION_TOKEN = 1u << AUTH_PART_SESSION_TOKEN,
	CERTIFICATE = 1u << AUTH_PART_CERTIFICATE
};

static enum status
write_nothing(struct auth_job *j)
{
	(void)j;
	return ST_OK;
}

static const struct auth_class classes[AUTH_KINDS] = {
	[AUTH_BEARER] = { .write = auth_write_bearer },
	[AUTH_BASIC] = { .write = auth_write_basic },
	[AUTH_HEADER] = { .strip = auth_strip_header, .write = auth_write_header },
	[AUTH_QUERY] = { .strip = auth_strip_query, .write = auth_write_query },
	[AUTH_PATH] = { .refuses = auth_refuses_path, .write = auth_write_path },
	[AUTH_FORM] = { .refuses = auth_refuses_form,
			.body = auth_body_form,
			.strip = auth_strip_query,
			.write = auth_write_form },
	[AUTH_OAUTH2_CLIENT_CREDENTIALS] = { .write = auth_write_bearer },
	[AUTH_OAUTH2_REFRESH] = { .needs = CLIENT_SECRET, .write = auth_write_bearer },
	[AUTH_JWT_BEARER] = { .write = auth_write_bearer },
	[AUTH_SIGV4] = { .needs = SESSION_TOKEN,
			 .refuses = auth_refuses_sigv4,
			 .body = auth_body_sigv4,
			 .strip = auth_strip_sigv4,
			 .write = auth_write_sigv4 },
	[AUTH_HMAC] = { .body = auth_body_hmac,
			.strip = auth_strip_hmac,
			.write = auth_write_hmac },
	[AUTH_MTLS] = { .needs = CERTIFICATE,
			.keeps_authorization = true,
			.write = write_nothing },
	[AUTH_PASSTHROUGH] = { .keeps_authorization = true, .write = write_nothing },
};

bool
auth_has_exchange(const struct auth_conf *c)
{
	if (c->kind == AUTH_SIGV4)
		return c->assume_role.n > 0;
	/* A JWT that is shown as it is, is made and kept the same way. */
	return c->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS ||
	       c->kind == AUTH_OAUTH2_REFRESH || c->kind == AUTH_JWT_BEARER;
}

unsigned
auth_needs(const struct auth_conf *c)
{
	unsigned needs = 0;

	if (c->kind == AUTH_PASSTHROUGH)
		return 0;
	for (unsigned part = 0; part < AUTH_PARTS; part++) {
		unsigned bit = 1u << part;
		if (c->vault[part].n > 0 &&
		    (part == AUTH_PART_SECRET || (classes[c->kind].needs & bit) != 0))
			needs |= bit;
	}
	return needs;
}

unsigned
auth_reads(const struct auth_conf *c)
{
	return auth_has_exchange(c) ? 0 : auth_needs(c);
}

void
auth_job_init(struct auth_job *j, const struct auth_conf *c)
{
	*j = (struct auth_job){ .conf = c };
}

void
auth_job_done(struct auth_job *j)
{
	cred_done(&j->space);
	j->last_n = 0;
}

enum status
auth_refuses(const struct auth_job *j)
{
	const struct auth_class *k = &classes[j->conf->kind];

	return k->refuses == NULL ? ST_OK : k->refuses(j);
}

enum auth_body
auth_body(const struct auth_job *j)
{
	const struct auth_class *k = &classes[j->conf->kind];

	return k->body == NULL ? AUTH_BODY_STREAM : k->body(j);
}

/* What a client may use to say who it is, whatever this connector uses: two
 * identities in one request are never what the operator meant.  A cookie is a
 * session with the site, not a credential of ours. */
static void
strip_credentials(struct head *h)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->fields_len; i++) {
		enum token t = token_folded(h->fields[i].name);
		if ((token_flags(t) & TOKEN_IS_CREDENTIAL) == 0 || t == TOKEN_COOKIE)
			h->fields[kept++] = h->fields[i];
	}
	h->fields_len = kept;
}

void
auth_strip(struct auth_job *j)
{
	const struct auth_class *k = &classes[j->conf->kind];

	if (!k->keeps_authorization)
		strip_credentials(j->head);
	if (k->strip != NULL)
		k->strip(j);
}

/* The largest that is made: a target or a body with what is put in, each octet of a
 * secret a triplet; and the names of signed fields. */
static size_t
space_for(const struct auth_job *j)
{
	size_t n = 4096 + j->uri->path.n + j->uri->query.n + j->body.n;

	for (size_t i = 0; i < AUTH_PARTS; i++)
		n += 3 * j->parts[i].n;
	if (j->token != NULL)
		n += 3 * (j->token->value.n + j->token->id.n + j->token->session.n);
	for (size_t i = 0; i < j->head->fields_len; i++)
		n += j->head->fields[i].name.n + 1;
	return n;
}

enum status
auth_write(struct auth_job *j)
{
	const struct auth_class *k = &classes[j->conf->kind];

	need(j->last_n == 0 && j->space.p == NULL);
	cred_init(&j->space, space_for(j));
	return k->write(j);
}

struct str
auth_value(const struct auth_job *j)
{
	return j->token != NULL ? j->token->value : j->parts[AUTH_PART_SECRET];
}

enum status
auth_check_text(struct str value)
{
	if (value.n == 0 || value.n > AUTH_VALUE_MAX || value.p[0] == ' ' ||
	    value.p[value.n - 1] == ' ')
		return ST_BAD_SECRET;
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] < ' ' || value.p[i] > '~')
			return ST_BAD_SECRET;
	return ST_OK;
}

enum status
auth_last(struct auth_job *j, struct str name, size_t mark)
{
	need(j->last_n < AUTH_LAST_MAX);
	if (j->space.st != ST_OK)
		return j->space.st;
	j->last[j->last_n++] =
		(struct field){ name, cred_since(&j->space, mark), token_of(name) };
	return ST_OK;
}
