#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/control/digest.h"
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

enum status
token_failed(struct control *c, enum status why)
{
	uint64_t now = loop_now_ms(c->loop);

	if (now - c->failures_ms >= 1000) {
		c->failures_ms = now;
		c->failures = 0;
	}
	return ++c->failures > FAILURES_PER_SECOND ? ST_LIMIT_RATE : why;
}

/* ST_AGAIN: only the keeper knows.  An unknown id costs the same as a wrong token. */
static enum status
check(struct control *c, struct str id, const uint8_t hash[32])
{
	static const uint8_t none[32] = { 0 };
	const struct image_sandbox *s = image_sandbox_by_id(c->role.image, id);
	bool is_right = token_hash_eq(hash, s == NULL ? none : s->token_hash);

	if (s == NULL || who_by_id(c->role.who, id) == NULL)
		return token_failed(c, ST_AUTH_FAILED);
	if (s->token.length == 0)
		return is_right && !token_hash_eq(hash, none)
			       ? ST_OK
			       : token_failed(c, ST_AUTH_FAILED);
	const struct digest *d = digest_cached(c, s, DIGEST_GOOD_MS);
	if (d != NULL && digest_has(d, hash))
		return ST_OK;
	return digest_cached(c, s, DIGEST_FRESH_MS) != NULL
		       ? token_failed(c, ST_AUTH_FAILED)
		       : ST_AGAIN;
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
	enum status st = sock_cookie(fd, &cookie);

	if (st != ST_OK)
		return st;
	if (c->dialer == NULL)
		return ST_NO_DIALER;
	/* It will be shown to us as well, approval_hold.c. */
	st = who_grant(c->role.who, cookie, login->handle);
	if (st != ST_OK)
		return st;
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

static void
login_end(struct control *c, struct login *login, struct str id, int fd)
{
	const struct who *w = who_by_id(c->role.who, id);

	login->generation = c->role.generation;
	if (w != NULL)
		login->handle = w->handle;
	enum status st =
		w == NULL ? token_failed(c, ST_AUTH_FAILED) : grant(c, fd, login);
	if (st != ST_OK)
		answer(c, login, st);
}

struct waiting { /* for what the keeper says of a token */
	struct control *control;
	struct login login;
	uint8_t hash[32];
	char id[STR_NAME_MAX];
	size_t id_n;
	int fd;
};

static void
digest_told(void *ctx, enum status st, const struct digest *d)
{
	struct waiting *w = ctx;
	struct control *c = w->control;
	/* That there is no such token is told as any wrong one. */
	bool is_wrong = st == ST_NO_SECRET || (st == ST_OK && !digest_has(d, w->hash));

	if (is_wrong)
		st = token_failed(c, ST_AUTH_FAILED);
	if (is_line(c, w->login.line)) {
		if (st == ST_OK)
			login_end(c, &w->login, str_of(w->id, w->id_n), w->fd);
		else
			answer(c, &w->login, st);
	}
	sock_close_passed(w->fd);
	free(w);
}

static enum status
ask_keeper(struct control *c, const struct login *login, struct str id,
	   const uint8_t hash[32], int fd)
{
	const struct image_sandbox *s = image_sandbox_by_id(c->role.image, id);
	struct waiting *w = s == NULL ? NULL : calloc(1, sizeof *w);

	if (w == NULL)
		return ST_NOMEM;
	*w = (struct waiting){ .control = c, .login = *login, .fd = fd };
	memcpy(w->hash, hash, sizeof w->hash);
	w->id_n = num_min(id.n, sizeof w->id);
	memcpy(w->id, id.p, w->id_n);
	enum status st = digest_ask(c, s, digest_told, w);
	if (st != ST_OK)
		free(w);
	return st == ST_AGAIN ? ST_LIMIT_RATE : st;
}

void
token_heard(struct control *c, struct ask_line *line, struct ask_msg *m)
{
	struct login login = { line, m->seq, HANDLE_NONE, c->role.generation };
	struct wire w = wire_from(m->body);
	struct str id = wire_str(&w), token = wire_str(&w);
	uint8_t hash[32];
	enum status st = wire_end(&w);

	if (st == ST_OK && m->fds_n == 0)
		st = ST_BAD_MESSAGE;
	token_hash(token, hash);
	if (st == ST_OK)
		st = check(c, id, hash);
	if (st == ST_OK) {
		login_end(c, &login, id, m->fds[0]);
		return;
	}
	if (st == ST_AGAIN) {
		int fd = ask_msg_take(m, 0);
		st = ask_keeper(c, &login, id, hash, fd);
		if (st == ST_OK)
			return;
		sock_close_passed(fd);
	}
	answer(c, &login, st);
}
