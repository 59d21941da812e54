#include "proxy/worker/login.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "proxy/io/ask.h"
#include "proxy/io/sock.h"

enum { LOGIN_BODY_MAX = 1024 };

struct login {
	struct conn *c;
	struct ask_line *line;
	uint32_t seq;
	bool is_asked;
	login_fn fn;
	void *ctx;
};

/* Of the whole field; never 0.  Who could make another field with the same mark would
 * have to know the token. */
static uint32_t
mark_of(const struct field *f)
{
	return (uint32_t)num_hash(f->value, 0) | 1;
}

void
login_keep(struct conn *c, const struct head *h)
{
	const struct field *f = head_get(h, TOKEN_PROXY_AUTHORIZATION);

	if (f != NULL)
		c->by_token = mark_of(f);
}

enum status
login_check(const struct conn *c, const struct head *h)
{
	const struct field *f = head_get(h, TOKEN_PROXY_AUTHORIZATION);

	if (c->by_token == 0 || c->way != CONN_PROXY)
		return ST_OK;
	if (f == NULL)
		return ST_AUTH_REQUIRED;
	return mark_of(f) == c->by_token ? ST_OK : ST_AUTH_FAILED;
}

static bool
is_local(const struct conn *c)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t n = sizeof(ss);
	struct addr a;
	uint16_t port;

	return getpeername(c->who_fd, (struct sockaddr *)&ss, &n) == 0 &&
	       addr_from_sockaddr((struct sockaddr *)&ss, &a, &port) &&
	       addr_classify(&a) == ADDR_LOOPBACK;
}

bool
login_is_possible(const struct image *im)
{
	static const uint8_t none[32];
	size_t n;
	const struct image_sandbox *all = image_sandboxes(im, &n);

	for (size_t i = 0; i < n; i++)
		if (all[i].token.length > 0 ||
		    !str_eq(str_of(all[i].token_hash, sizeof(all[i].token_hash)),
			    str_of(none, sizeof(none))))
			return true;
	return false;
}

bool
login_basic(struct str value, struct buf *space, struct str *ret_id,
	    struct str *ret_token)
{
	struct str scheme = str_cut(&value, ' ');

	if (!str_ieq(scheme, STR("basic")) || value.p == NULL)
		return false;
	buf_clear(space);
	if (!enc_get_base64(space, str_trim(value)) || space->st != ST_OK)
		return false;
	*ret_token = str_of(space->p, space->len);
	if (!str_has(*ret_token, ':'))
		return false;
	*ret_id = str_cut(ret_token, ':');
	return true;
}

/* The grant makes who_by_socket() know this socket as long as it lives. */
static enum status
login_grant(struct conn *c, uint32_t handle)
{
	struct who_table *table = c->w->role.who;
	const struct who *who = who_by_handle(table, handle);
	uint64_t cookie = 0;
	enum status st = who == NULL ? ST_AUTH_FAILED : sock_cookie(c->who_fd, &cookie);

	if (st == ST_OK)
		st = who_grant(table, cookie, handle);
	if (st != ST_OK)
		return st;
	return conn_identify(c, who);
}

static void
on_answer(void *ctx, enum status st, struct ask_msg *m)
{
	struct login *l = ctx;
	struct wire in;
	uint16_t said;
	uint32_t handle;
	uint64_t generation;

	l->is_asked = false;
	if (st == ST_OK) {
		in = wire_from(m->body);
		said = wire_u16(&in);
		handle = wire_u32(&in);
		generation = wire_u64(&in);
		st = wire_end(&in);
		/* The handle of another generation would name a neighbour. */
		if (st == ST_OK &&
		    (said != ST_OK || generation != l->c->w->role.generation))
			st = ST_AUTH_FAILED;
		if (st == ST_OK)
			st = login_grant(l->c, handle);
	} else {
		st = ST_AUTH_FAILED; /* control doesn't answer: nobody is let in */
	}
	loop_defer(l->c->w->loop, free, l);
	l->fn(l->ctx, st);
}

enum status
login_start(struct conn *c, struct str id, struct str token, login_fn fn, void *ctx,
	    struct login **ret_login)
{
	struct login *l;
	struct buf body;
	enum status st;

	if (!c->is_tls && !is_local(c))
		return ST_AUTH_INSECURE;
	if (c->w->control == NULL)
		return ST_AUTH_FAILED;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return ST_NOMEM;
	*l = (struct login){ .c = c, .line = c->w->control, .fn = fn, .ctx = ctx };
	buf_init(&body, LOGIN_BODY_MAX);
	wire_put_str(&body, id);
	wire_put_str(&body, token);
	st = body.st == ST_OK
		     ? ask_call(l->line, ASK_WHO,
				ASK_LOAD(str_of(body.p, body.len), &c->who_fd, 1),
				on_answer, l, &l->seq)
		     : ST_AUTH_FAILED;
	buf_done(&body);
	if (st != ST_OK) {
		free(l);
		return st == ST_NOMEM || st == ST_LIMIT_RATE ? st : ST_AUTH_FAILED;
	}
	l->is_asked = true;
	*ret_login = l;
	return ST_OK;
}

enum status
login_by_head(struct conn *c, const struct head *h, login_fn fn, void *ctx,
	      struct login **ret_login)
{
	const struct field *f = head_get(h, TOKEN_PROXY_AUTHORIZATION);
	CLEANUP(buf_done) struct buf space = { 0 };
	struct str id, token;

	if (!login_is_possible(c->w->role.image))
		return ST_UNKNOWN_SANDBOX;
	if (f == NULL)
		return ST_AUTH_REQUIRED;
	buf_init(&space, 1024);
	if (!login_basic(f->value, &space, &id, &token))
		return ST_AUTH_FAILED;
	return login_start(c, id, token, fn, ctx, ret_login);
}

void
login_cancel(struct login *l)
{
	if (l == NULL)
		return;
	if (l->is_asked)
		ask_cancel(l->line, l->seq);
	loop_defer(l->c->w->loop, free, l);
}
