#include "proxy/cli/gate_secret.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/cli/admin.h"
#include "proxy/http/dest.h"
#include "proxy/io/vault_op.h"

static enum status
say(const char *item, const char *why)
{
	(void)fprintf(stderr, "sandgate exec: --secret %s: %s\n", item, why);
	return ST_BAD_REQUEST;
}

/* What is left in our memory would be in that of the box's first process too. */
static int
move_value(char *value, size_t n)
{
	int fd = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool ok = fd >= 0 && write(fd, value, n) == (ssize_t)n &&
		  fcntl(fd, F_ADD_SEALS,
			F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0;

	explicit_bzero(value, n);
	if (!ok && fd >= 0)
		(void)close(fd);
	return ok ? fd : -1;
}

/* As long as the value (within reason) and with its beginning if that only tells what
 * kind it is ("ghp_", "sk-"): some clients look at both.  Nothing else of it. */
static void
make_shape(const char *value, size_t n, char *shape)
{
	enum { LEAST = 20, KIND_MAX = 12 };
	size_t kind = 0, all = num_min(num_max(n, LEAST), GATE_SHAPE_MAX);

	for (size_t i = 0; i < KIND_MAX && i + LEAST < n; i++) {
		if (value[i] == '_' || value[i] == '-')
			kind = i + 1;
		else if (!ascii_is_alpha(value[i]))
			break;
	}
	memset(shape, '*', all);
	memcpy(shape, value, kind);
	shape[all] = '\0';
}

enum status
gate_secret_take(const char *item, struct gate_secret *ret_s)
{
	struct str host = str_from(item), name = str_cut(&host, '@');
	struct gate_secret s = { .host = item + name.n + 1 };

	if (host.p == NULL || !str_is_name(name))
		return say(item, "write NAME@HOST, NAME a variable of yours");
	memcpy(s.name, name.p, name.n);
	char *value = getenv(s.name);
	if (value == NULL || value[0] == '\0')
		return say(item,
			   "your environment has no such variable, or it is empty");
	size_t n = strlen(value);
	if (n > VAULT_VALUE_MAX)
		return say(item, "the value is longer than 8 KiB");
	make_shape(value, n, s.shape);
	s.value = move_value(value, n);
	(void)unsetenv(s.name);
	if (s.value < 0)
		return say(item, "the value can't be kept");
	*ret_s = s;
	return ST_OK;
}

void
gate_secrets_done(struct gate_secret *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i].value >= 0)
			(void)close(s[i].value);
		s[i].value = -1;
	}
}

/* The vault. */

static enum status
call(const struct admin_where *where, struct admin_wish *wish, const char *is_fine)
{
	struct admin_reply reply;
	enum status st = admin_call(where, wish, &reply);

	json_decref(wish->body);
	if (st != ST_OK)
		return st;
	const char *code = json_string_value(
		json_object_get(json_object_get(reply.body, "error"), "code"));
	if (reply.http != 200 &&
	    (is_fine == NULL || code == NULL || strcmp(code, is_fine) != 0)) {
		admin_print_refusal(&reply);
		st = ST_CONFLICT;
	}
	json_decref(reply.body);
	return st;
}

enum status
gate_secrets_put(const struct admin_where *where, struct gate_secret *s, size_t n)
{
	struct admin_wish init = { .method = "POST", .path = "/v1/vault/init" };
	enum status st = ST_OK;

	if (n > 0) {
		init.body = json_pack("{s:s}", "key", "file");
		st = call(where, &init, status_code(ST_CONFLICT));
	}
	for (size_t i = 0; i < n && st == ST_OK; i++) {
		struct admin_wish put = { .method = "POST",
					  .path = "/v1/vault/put",
					  .fds = &s[i].value,
					  .fds_n = 1 };
		CLEANUP(buf_done) struct buf name = { 0 };
		buf_init(&name, 64);
		gate_secret_put_name(&name, i);
		put.body = json_pack("{s:s,s:s}", "name", s[i].name, "connector",
				     buf_cstr(&name));
		st = call(where, &put, NULL);
	}
	gate_secrets_done(s, n);
	return st;
}

/* The configuration. */

void
gate_secret_put_name(struct buf *b, size_t index)
{
	buf_putf(b, "secret-%zu", index + 1);
}

bool
gate_secret_put_connector(struct buf *b, const struct gate_secret *s, size_t index)
{
	struct dest d;

	if (dest_from_authority(str_from(s->host), 443, &d) != ST_OK ||
	    !dest_is_name(&d)) {
		(void)fprintf(stderr,
			      "sandgate exec: --secret %s@%s: not a host name\n",
			      s->name, s->host);
		return false;
	}
	buf_put(b, STR("  - {name: "));
	gate_secret_put_name(b, index);
	buf_put(b, STR(", hosts: ["));
	buf_put_json(b, dest_name(&d));
	buf_putf(b, "], ports: [%u], auth: {kind: bearer, secret: ", d.port);
	buf_put_json(b, str_from(s->name));
	buf_put(b, STR(", placeholder: "));
	buf_put_json(b, str_from(s->shape));
	buf_put(b, STR(", env: "));
	buf_put_json(b, str_from(s->name));
	buf_put(b, STR("}, allow: [{paths: [\"/**\"]}]}\n"));
	return true;
}
