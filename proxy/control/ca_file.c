#include "proxy/control/ca_file.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/io/vault_op.h"

enum { SOON_MS = 1000, LATER_MS = 10000, ROUND_MS = 60000 };

struct writing { /* one file */
	struct control *control;
	char path[];
};

static bool
is_wanted(const struct image *im)
{
	size_t n;
	const struct image_exec_server *of = image_exec_servers(im, &n);

	for (size_t i = 0; i < n; i++)
		if (of[i].ca_file.length > 0)
			return true;
	return false;
}

bool
ca_file_is_ready(const struct control *c, const struct image_exec_server *s)
{
	struct str path = image_str(c->role.image, s->ca_file);

	return path.n == 0 || map_get(&c->published, path) != NULL;
}

static bool
are_all_ready(const struct control *c)
{
	size_t n;
	const struct image_exec_server *of = image_exec_servers(c->role.image, &n);

	for (size_t i = 0; i < n; i++)
		if (!ca_file_is_ready(c, &of[i]))
			return false;
	return true;
}

static void
written(void *ctx, enum status st, struct str body)
{
	struct writing *x = ctx;
	struct control *c = x->control;
	struct wire w = wire_from(body);
	uint16_t told = wire_u16(&w);

	if (st == ST_OK)
		st = wire_end(&w) == ST_OK && told < ST_COUNT ? (enum status)told
							      : ST_BAD_MESSAGE;
	if (st == ST_OK)
		st = map_put(&c->published, str_from(x->path), c);
	/* Super may be a commit behind us; why it can't write is in its own log. */
	if (st != ST_OK) {
		(void)map_take(&c->published, str_from(x->path));
		loop_timer_set(&c->publish, st == ST_NOT_FOUND ? SOON_MS : LATER_MS);
	}
	free(x);
}

static enum status
write_one(struct control *c, struct str path, struct str text)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct writing *x = malloc(sizeof *x + path.n + 1);
	struct str body = STR("");
	enum status st = x == NULL ? ST_NOMEM : ST_OK;

	if (st != ST_OK)
		return st;
	x->control = c;
	memcpy(x->path, path.p, path.n);
	x->path[path.n] = '\0';
	buf_init(&b, ask_rule(ASK_PUBLISH)->size);
	wire_put_str(&b, path);
	wire_put_str(&b, text);
	st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_super(c, ASK_PUBLISH, ASK_LOAD(body, NULL, 0), written, x);
	if (st != ST_OK)
		free(x);
	return st;
}

static enum status
write_all(struct control *c, struct str text)
{
	size_t n;
	const struct image_exec_server *of = image_exec_servers(c->role.image, &n);
	enum status st = ST_OK;

	for (size_t i = 0; i < n && st == ST_OK; i++)
		if (of[i].ca_file.length > 0)
			st = write_one(c, image_str(c->role.image, of[i].ca_file),
				       text);
	return st;
}

static void
exported(void *ctx, enum status st, struct ask_msg *m)
{
	struct control *c = ctx;
	struct wire w = wire_from(st == ST_OK ? m->body : STR(""));
	uint16_t told = wire_u16(&w);
	struct str text = wire_str(&w);

	c->is_publishing = false;
	if (st == ST_OK)
		st = wire_end(&w) == ST_OK && told < ST_COUNT ? (enum status)told
							      : ST_BAD_MESSAGE;
	if (st == ST_OK)
		st = write_all(c, text);
	loop_timer_set(&c->publish,
		       st == ST_OK && are_all_ready(c) ? ROUND_MS : SOON_MS);
}

void
ca_file_begin(struct control *c)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct vault_ask ask = { .op = VAULT_OP_CA_EXPORT };
	struct str body = STR("");

	if (!is_wanted(c->role.image) || c->is_publishing)
		return;
	buf_init(&b, VAULT_ASK_MAX);
	vault_ask_put(&b, &ask);
	enum status st = c->keeper == NULL ? ST_NO_KEEPER : buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_call(c->keeper, ASK_VAULT, ASK_LOAD(body, NULL, 0), exported,
			      c, NULL);
	c->is_publishing = st == ST_OK;
	if (st != ST_OK)
		loop_timer_set(&c->publish, SOON_MS);
}
