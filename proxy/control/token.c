#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/control/control.h"
#include "proxy/io/sock.h"

enum { FAILURES_PER_SECOND = 20 };

struct login { /* a token was right; the dialer is being told */
	struct ask_line *line;
	uint32_t seq, handle;
	uint64_t generation; /* handles are places in its list of sandboxes */
};

void
token_hash(struct str token, uint8_t ret_hash[32])
{
	unsigned n = 32;

	/* Fails only when the library can't allocate: then nothing matches. */
	if (EVP_Digest(token.p, token.n, ret_hash, &n, EVP_sha256(), NULL) != 1)
		memset(ret_hash, 0, 32);
}

bool
token_hash_eq(const uint8_t a[32], const uint8_t b[32])
{
	return CRYPTO_memcmp(a, b, 32) == 0;
}

static void
answer(struct control *c, const struct login *login, enum status st)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	buf_put_u32(&b, st == ST_OK ? login->handle : HANDLE_NONE);
	buf_put_u64(&b, login->generation);
	st = ask_answer(login->line, ASK_WHO, login->seq, str_of(b.p, b.len), NULL, 0);
	if (st != ST_OK && st != ST_END)
		log_error(&c->role.log, "WHO: %s", status_code(st));
}

/* Only failures count, and a right token always passes: nobody is locked out by
 * someone else's guesses. */
static enum status
failed(struct control *c)
{
	uint64_t now = loop_now_ms(c->loop);

	if (now - c->failures_ms >= 1000) {
		c->failures_ms = now;
		c->failures = 0;
	}
	return ++c->failures > FAILURES_PER_SECOND ? ST_LIMIT_RATE : ST_AUTH_FAILED;
}

static enum status
check(struct control *c, struct str id, struct str token, uint32_t *ret_handle)
{
	static const uint8_t none[32] = { 0 };
	const struct image_sandbox *s = image_sandbox_by_id(c->role.image, id);
	const struct who *w = who_by_id(c->role.who, id);
	uint8_t hash[32];

	/* An unknown id costs the same as a wrong token. */
	token_hash(token, hash);
	bool is_right = token_hash_eq(hash, s == NULL ? none : s->token_hash);
	if (s == NULL || w == NULL || !is_right || token_hash_eq(hash, none))
		return failed(c);
	*ret_handle = w->handle;
	return ST_OK;
}

static bool
is_line(const struct control *c, const struct ask_line *line)
{
	for (size_t i = 0; i < CONTROL_SLOTS; i++) {
		if (c->lines[i] == line)
			return true;
	}
	return false;
}

struct granted { /* what is asked of several for one login */
	struct control *control;
	struct login login;
	size_t open; /* answers that are not here yet */
	enum status st;
};

static void
grant_end(struct granted *g)
{
	if (--g->open > 0)
		return;
	/* The worker may have died meanwhile. */
	if (is_line(g->control, g->login.line))
		answer(g->control, &g->login, g->st);
	free(g);
}

/* Without the dialer nothing goes out. */
static void
dialer_told(void *ctx, enum status st, struct ask_msg *m)
{
	struct granted *g = ctx;
	struct wire w = wire_from(st == ST_OK ? m->body : STR(""));
	uint16_t told = wire_u16(&w);

	if (st == ST_OK)
		st = w.is_bad || told >= ST_COUNT ? ST_BAD_MESSAGE : (enum status)told;
	g->st = st;
	grant_end(g);
}

/* Without one of the others only its own part is refused, by itself. */
static void
other_told(void *ctx, enum status st, struct ask_msg *m)
{
	struct granted *g = ctx;

	(void)m;
	if (st != ST_OK && st != ST_END)
		log_error(&g->control->role.log, "a grant: %s", status_code(st));
	grant_end(g);
}

static void
tell_others(struct control *c, struct granted *g, struct str body)
{
	const struct ask_load load = ASK_LOAD(body, NULL, 0);

	if (c->keeper != NULL &&
	    ask_call(c->keeper, ASK_GRANT_KEEPER, load, other_told, g, NULL) == ST_OK)
		g->open++;
	for (size_t i = 0; i < CONTROL_SLOTS; i++)
		if (c->is_connector[i] && c->lines[i] != NULL &&
		    ask_call(c->lines[i], ASK_GRANT_CONNECTOR, load, other_told, g,
			     NULL) == ST_OK)
			g->open++;
}

/* All who will see this socket must know it before the worker can show it to them. */
static enum status
grant(struct control *c, int fd, const struct login *login)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct granted *g;
	uint64_t cookie = 0;
	enum status st = fd < 0 ? ST_BAD_MESSAGE : sock_cookie(fd, &cookie);

	if (st != ST_OK)
		return st;
	if (c->dialer == NULL)
		return ST_NO_DIALER;
	g = calloc(1, sizeof *g);
	if (g == NULL)
		return ST_NOMEM;
	*g = (struct granted){ .control = c, .login = *login, .open = 1 };
	buf_init(&b, 32);
	buf_put_u64(&b, cookie);
	buf_put_u32(&b, login->handle);
	buf_put_u64(&b, login->generation);
	st = ask_call(c->dialer, ASK_GRANT, ASK_LOAD(str_of(b.p, b.len), NULL, 0),
		      dialer_told, g, NULL);
	if (st == ST_OK)
		tell_others(c, g, str_of(b.p, b.len));
	else
		free(g);
	return st;
}

void
token_heard(struct control *c, struct ask_line *line, struct ask_msg *m)
{
	struct login login = { line, m->seq, HANDLE_NONE, c->role.generation };
	struct wire w = wire_from(m->body);
	struct str id = wire_str(&w), token = wire_str(&w);
	enum status st = wire_end(&w);

	if (st == ST_OK)
		st = check(c, id, token, &login.handle);
	if (st == ST_OK)
		st = grant(c, m->fds_n > 0 ? m->fds[0] : -1, &login);
	if (st != ST_OK)
		answer(c, &login, st);
}
