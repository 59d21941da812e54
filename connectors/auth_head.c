/* Credentials in a field: bearer, basic, header. */
#include "connectors/auth_part.h"

static const struct str authorization = { "authorization", 13 };

static enum status
write_user(struct auth_job *j, struct str user, struct str password)
{
	CLEANUP(cred_done) struct cred pair = { 0 };
	size_t mark = cred_mark(&j->space);
	enum status st = auth_check_text(password);

	if (st != ST_OK)
		return st;
	cred_init(&pair, user.n + 1 + password.n);
	if (user.n > 0) {
		cred_put(&pair, user);
		cred_putc(&pair, ':');
	}
	cred_put(&pair, password);
	if (pair.st != ST_OK)
		return pair.st;
	cred_put(&j->space, STR("Basic "));
	cred_put_base64(&j->space, cred_since(&pair, 0));
	return auth_last(j, authorization, mark);
}

static enum status
write_prefixed(struct auth_job *j, struct str name, struct str prefix)
{
	size_t mark = cred_mark(&j->space);
	enum status st = auth_check_text(auth_value(j));

	if (st != ST_OK)
		return st;
	cred_put(&j->space, prefix);
	cred_put(&j->space, auth_value(j));
	return auth_last(j, name, mark);
}

enum status
auth_write_bearer(struct auth_job *j)
{
	const struct auth_conf *c = j->conf;

	if (c->user.n > 0)
		return write_user(j, c->user, auth_value(j));
	return write_prefixed(j, authorization,
			      c->prefix.n > 0 ? c->prefix : STR("Bearer "));
}

enum status
auth_write_basic(struct auth_job *j)
{
	if (j->conf->user.n == 0 && !str_has(auth_value(j), ':'))
		return ST_BAD_SECRET;
	return write_user(j, j->conf->user, auth_value(j));
}

void
auth_strip_header(struct auth_job *j)
{
	head_remove_name(j->head, j->conf->name);
}

enum status
auth_write_header(struct auth_job *j)
{
	return write_prefixed(j, j->conf->name, j->conf->prefix);
}
