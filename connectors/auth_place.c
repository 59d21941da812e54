/* Credentials in the target or in the body: query, path, form. */
#include "connectors/auth_part.h"
#include "connectors/pair.h"

/* RFC 3986: what else may stand in a segment as it is. */
static const struct str segment_octets = { "!$&'()*+,;=:@", 13 };

static void
put_pair(struct auth_job *j, bool is_first)
{
	struct cred *out = &j->space;

	if (!is_first)
		cred_putc(out, '&');
	cred_put_form(out, j->conf->name);
	cred_putc(out, '=');
	cred_put_percent(out, auth_value(j), STR(""));
}

/* The client's own is left out when the query is written anew. */
void
auth_strip_query(struct auth_job *j)
{
	struct cred kept = { 0 };
	bool is_first = true;

	if (!pair_has(j->uri->query, j->conf->name))
		return;
	cred_init(&kept, j->uri->query.n);
	pair_put_without(&kept, j->uri->query, j->conf->name, &is_first);
	/* Kept where the rest of the request lives; without room there is no query, and
	 * with it no credential of the client's. */
	j->uri->query = arena_copy(j->head->arena, cred_since(&kept, 0));
	j->uri->has_query = !is_first;
	cred_done(&kept);
}

enum status
auth_write_query(struct auth_job *j)
{
	size_t mark = cred_mark(&j->space);
	enum status st = auth_check_text(auth_value(j));
	bool is_first = j->uri->query.n == 0;

	if (st != ST_OK)
		return st;
	cred_put(&j->space, j->uri->query);
	put_pair(j, is_first);
	if (j->space.st != ST_OK)
		return j->space.st;
	j->uri->query = cred_since(&j->space, mark);
	j->uri->has_query = true;
	j->target_is_secret = true;
	return ST_OK;
}

/* What follows the prefix, however its octets are spelled; p == NULL: not there. */
static struct str
behind_prefix(struct str path, struct str prefix)
{
	while (prefix.n > 0) {
		if (path.n == 0 || pair_octet(&path, false) != prefix.p[0])
			return (struct str){ NULL, 0 };
		prefix = str_skip(prefix, 1);
	}
	return path;
}

enum status
auth_refuses_path(const struct auth_job *j)
{
	struct str rest = behind_prefix(j->uri->path, j->conf->prefix);

	return rest.p == NULL ? ST_NO_SLOT : ST_OK;
}

/* Up to the next slash is the client's own, so writing replaces it. */
enum status
auth_write_path(struct auth_job *j)
{
	size_t mark = cred_mark(&j->space);
	struct str rest = behind_prefix(j->uri->path, j->conf->prefix), path;
	enum status st = auth_check_text(auth_value(j));

	if (st != ST_OK)
		return st;
	if (rest.p == NULL)
		return ST_NO_SLOT;
	struct str own = rest;
	own = str_cut(&own, '/');
	cred_put(&j->space, j->conf->prefix);
	cred_put_percent(&j->space, auth_value(j), segment_octets);
	cred_put(&j->space, str_skip(rest, own.n));
	if (j->space.st != ST_OK)
		return j->space.st;
	path = cred_since(&j->space, mark);
	if (uri_check_path(path) != ST_OK)
		return ST_BAD_SECRET;
	j->uri->path = path;
	j->target_is_secret = true;
	return ST_OK;
}

static bool
is_form(const struct head *h)
{
	const struct field *f = head_get(h, TOKEN_CONTENT_TYPE);
	struct str type;

	if (f == NULL || head_count(h, TOKEN_CONTENT_TYPE) != 1)
		return false;
	type = f->value;
	return str_ieq(str_trim(str_cut(&type, ';')),
		       STR("application/x-www-form-urlencoded"));
}

static bool
is_encoded(const struct head *h)
{
	return head_get(h, TOKEN_CONTENT_ENCODING) != NULL;
}

enum status
auth_refuses_form(const struct auth_job *j)
{
	if (!is_form(j->head) || is_encoded(j->head) || j->head->body == BODY_NONE)
		return ST_NO_SLOT;
	return ST_OK;
}

enum auth_body
auth_body_form(const struct auth_job *j)
{
	(void)j;
	return AUTH_BODY_WHOLE;
}

enum status
auth_write_form(struct auth_job *j)
{
	size_t mark = cred_mark(&j->space);
	enum status st = auth_check_text(auth_value(j));
	bool is_first = true;

	if (st != ST_OK)
		return st;
	pair_put_without(&j->space, j->body, j->conf->name, &is_first);
	put_pair(j, is_first);
	if (j->space.st != ST_OK)
		return j->space.st;
	j->body = cred_since(&j->space, mark);
	return ST_OK;
}
