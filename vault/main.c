/*
 * sandgate-keeper: holds the keys and meets typed asks only.  A plain poll loop; it
 * links neither libevent nor libssl, and its only parser is the one for asks.  It
 * outlives super as long as the ledger does, to sign where that ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "proxy/base/clock.h"
#include "proxy/base/num.h"
#include "proxy/io/role.h"
#include "proxy/io/sock.h"
#include "vault/keeper.h"
#include "vault/master.h"

enum { SLACK = 2 };

static const struct heard { /* what is served, and to whom: asks.def */
	enum ask ask;
	enum role from;
	enum status (*fn)(struct keeper *k, struct keeper_line *line,
			  struct ask_msg *m);
} heards[] = {
	{ ASK_SIGN, ROLE_LEDGER, keeper_sign },
	{ ASK_MINT, ROLE_WORKER, keeper_mint },
	{ ASK_LEASE, ROLE_CONNECTOR, keeper_lease },
	{ ASK_ROTATE, ROLE_CONNECTOR, keeper_rotate },
	{ ASK_SUPPLY, ROLE_CONNECTOR, keeper_supply },
	{ ASK_GRANT_KEEPER, ROLE_CONTROL, keeper_grant },
	{ ASK_VAULT, ROLE_CONTROL, keeper_vault },
};

static void
line_close(struct keeper *k, struct keeper_line *line)
{
	if (k->waiting.line == line)
		k->waiting.line = NULL;
	(void)close(line->end.fd);
	line->end.fd = -1;
}

static bool
is_served(uint32_t role)
{
	for (size_t i = 0; i < COUNT_OF(heards); i++)
		if ((uint32_t)heards[i].from == role)
			return true;
	return false;
}

static enum status
given_line(struct keeper *k, uint32_t peer, struct str text, struct ask_msg *m)
{
	int fd = ask_msg_take(m, 0);

	if (fd < 0)
		return m->lost_fds ? ST_NO_FILES : ST_BAD_MESSAGE;
	for (size_t i = 0; i < KEEPER_LINES && is_served(peer); i++) {
		struct keeper_line *line = &k->lines[i];
		if (line->end.fd >= 0)
			continue;
		*line = (struct keeper_line){ .end = { fd, ROLE_KEEPER,
						       (enum role)peer } };
		memcpy(line->group, text.p, num_min(text.n, STR_NAME_MAX));
		return sock_set_nonblock(fd);
	}
	/* Nobody else has anything to ask here: what isn't served is hung up. */
	(void)close(fd);
	return ST_OK;
}

/* We stand in our directory: its name may lead through others that we may not enter. */
static enum status
given_state(struct keeper *k, struct ask_msg *m)
{
	if (k->signer != NULL)
		return ST_OK;
	k->state = ask_msg_take(m, 0);
	if (k->state < 0 || fchdir(k->state) != 0)
		return ST_BAD_MESSAGE;
	enum status st = signer_open(k->state, &k->signer);
	if (st != ST_OK)
		log_error(&k->role.log, "keeper.key in the state directory: %s",
			  st == ST_CONFLICT ? "not a file of 32 bytes with mode 0600"
					    : status_code(st));
	return st;
}

static enum status
given_fd(struct ask_msg *m, int *at)
{
	if (*at >= 0)
		(void)close(*at);
	*at = ask_msg_take(m, 0);
	return *at < 0 ? ST_BAD_MESSAGE : ST_OK;
}

/* One that is no secret is left out; the others count. */
static enum status
given_source(struct keeper *k, uint32_t index, struct str text, struct ask_msg *m)
{
	if (index != 0) {
		sources_settle(&k->sources);
		return ST_OK;
	}
	if (m->fds_n == 0)
		return m->lost_fds ? ST_NO_FILES : ST_BAD_MESSAGE;
	enum status st = sources_add(&k->sources, text, m->fds[0]);
	if (st != ST_OK)
		log_error(&k->role.log, "secret %.*s: %s", STR_ARG(text),
			  status_code(st));
	return ST_OK;
}

static enum status
given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	struct keeper *k = ctx;

	if (kind == GIVE_LINE)
		return given_line(k, index, text, m);
	if (kind == GIVE_STATE)
		return given_state(k, m);
	if (kind == GIVE_SOURCE)
		return given_source(k, index, text, m);
	if (k->role.is_started)
		return ST_OK; /* the rest counts at the start only */
	if (kind == GIVE_PAGE) {
		k->page_is_plain = index != 0;
		return given_fd(m, &k->page);
	}
	return kind == GIVE_KEY ? given_fd(m, &k->key) : ST_OK;
}

/* A gateway that can't start can't be told to grant either, so the first policy is
 * taken as it is: its connectors are refused what they have not been granted. */
static enum status
prepare(void *ctx, const struct image *im, struct ask_msg *m)
{
	struct keeper *k = ctx;

	(void)m;
	return k->role.image == NULL ? ST_OK : keeper_check_grants(k, im);
}

static void
commit(void *ctx, const struct image *old)
{
	struct keeper *k = ctx;
	enum status st = supplies_renew(&k->supplies, k->role.image, old);

	if (st != ST_OK) /* what there was may be of another place now */
		supplies_done(&k->supplies);
	if (st != ST_OK)
		log_error(&k->role.log, "sources of secrets: %s", status_code(st));
}

/* What is asked. */

enum status
keeper_answer(struct keeper_line *line, const struct ask_msg *m, const struct buf *b,
	      int fd)
{
	struct str body = STR("");
	enum status st = buf_finish(b, &body);

	if (st == ST_OK)
		st = ask_send(&line->end, m->ask, true, m->seq,
			      ASK_LOAD(body, &fd, fd >= 0 ? 1 : 0));
	/* Who doesn't read his answers asks again when the deadline is over. */
	return st == ST_AGAIN ? ST_OK : st;
}

enum status
keeper_sign(struct keeper *k, struct keeper_line *line, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	uint64_t segment = wire_u64(&w);
	struct chain_hash head;

	if (!chain_from(wire_bytes(&w, CHAIN_HASH), &head) || wire_end(&w) != ST_OK)
		return ST_BAD_MESSAGE;
	buf_init(&b, CHAIN_SIG + CHAIN_KEY);
	enum status st = signer_put(k->signer, segment, &head, &b);
	return st == ST_OK ? keeper_answer(line, m, &b, -1) : st;
}

/* Control says: this socket speaks for that sandbox.  Handles are places in the list of
 * one generation: by another's they would name a neighbour. */
enum status
keeper_grant(struct keeper *k, struct keeper_line *line, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	uint64_t cookie = wire_u64(&w);
	uint32_t handle = wire_u32(&w);
	uint64_t generation = wire_u64(&w);
	enum status st = ST_RELOADED;

	if (wire_end(&w) != ST_OK)
		return ST_BAD_MESSAGE;
	if (generation == k->role.generation)
		st = who_grant(k->role.who, cookie, handle);
	buf_init(&b, 2);
	buf_put_u16(&b, (uint16_t)st);
	return keeper_answer(line, m, &b, -1);
}

static enum status
dispatch(struct keeper *k, struct keeper_line *line, struct ask_msg *m)
{
	for (size_t i = 0; i < COUNT_OF(heards) && !m->is_answer; i++) {
		if (heards[i].ask != m->ask)
			continue;
		if (!ask_rate_take(&line->rates[m->ask], m->ask, SLACK,
				   clock_mono_ms()))
			return ST_LIMIT_RATE;
		return heards[i].fn(k, line, m);
	}
	return ST_BAD_MESSAGE;
}

/* Anything but ST_OK and ST_AGAIN ends the line. */
static enum status
line_heard(struct keeper *k, struct keeper_line *line)
{
	struct ask_msg m;
	enum status st = ask_recv(&line->end, k->space, &m);

	if (st != ST_OK)
		return st;
	st = dispatch(k, line, &m);
	ask_msg_done(&m);
	return st;
}

static void
line_turn(struct keeper *k, struct keeper_line *line)
{
	enum status st = line_heard(k, line);

	if (st == ST_OK || st == ST_AGAIN)
		return;
	if (st != ST_END)
		log_error(&k->role.log, "line to the %s: %s", role_name(line->end.peer),
			  status_code(st));
	line_close(k, line);
}

/* The loop. */

static bool
has_lines(const struct keeper *k)
{
	for (size_t i = 0; i < KEEPER_LINES; i++)
		if (k->lines[i].end.fd >= 0)
			return true;
	return false;
}

/* Only those that are there: poll(2) takes no more than there may be descriptors. */
static void
turn(struct keeper *k)
{
	struct pollfd fds[KEEPER_LINES + 2];
	struct keeper_line *lines[KEEPER_LINES];
	size_t n = 0;

	/* poll(2) passes over descriptors below zero. */
	fds[n++] = (struct pollfd){ .fd = k->role.super.fd, .events = POLLIN };
	fds[n++] = (struct pollfd){ .fd = vault_fd(k->vault), .events = POLLIN };
	for (size_t i = 0; i < KEEPER_LINES; i++) {
		if (k->lines[i].end.fd < 0)
			continue;
		lines[n - 2] = &k->lines[i];
		fds[n++] =
			(struct pollfd){ .fd = k->lines[i].end.fd, .events = POLLIN };
	}
	if (poll(fds, n, supplies_wait_ms(&k->supplies)) < 0) {
		need(errno == EINTR);
		return;
	}
	keeper_expire(k);
	if (fds[1].revents != 0)
		keeper_vault_finish(k);
	/* Who a sandbox is comes before what is asked for it: lines have the next turn. */
	if (fds[0].revents != 0) {
		if (role_heard(&k->role) != ST_OK)
			k->role.super.fd = -1; /* super is gone */
		return;
	}
	for (size_t i = 2; i < n; i++)
		if (fds[i].revents != 0)
			line_turn(k, lines[i - 2]);
}

/* The start. */

/* Without it the wall clock counts a lockout. */
static struct str
read_boot(struct keeper *k)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, k->boot, LOCKOUT_BOOT);

	if (fd >= 0)
		(void)close(fd);
	return str_of(k->boot, n == LOCKOUT_BOOT ? LOCKOUT_BOOT : 0);
}

static enum vault_key
wanted_key(const struct keeper *k)
{
	struct str text = image_text(k->role.image, OPT_VAULT_MASTER_KEY);

	if (str_eq(text, STR("passphrase")))
		return VAULT_KEY_PASSPHRASE;
	return str_eq(text, STR("file")) ? VAULT_KEY_FILE : VAULT_KEY_GIVEN;
}

static void
tell_state(const struct keeper *k, enum vault_key wanted)
{
	enum vault_state state = vault_state(k->vault);
	bool is_locked = state == VAULT_ABSENT || state == VAULT_SEALED;

	if (k->page_is_plain || k->page < 0)
		log_info(&k->role.log, "this kernel has no memfd_secret: root can read "
				       "the vault's key in memory");
	if (is_locked && wanted == VAULT_KEY_GIVEN)
		log_error(&k->role.log,
			  "vault.master_key: not the vault's key, or no file of %d "
			  "bytes or more that only its owner may read",
			  MASTER_LEAST);
	if (state == VAULT_SEALED && wanted == VAULT_KEY_FILE)
		log_error(
			&k->role.log,
			"master.key in the state directory: not the vault's key, or no "
			"file of ours that only its owner may read");
	log_info(&k->role.log, "vault: %s", vault_state_word(state));
}

static enum status
open_vault(struct keeper *k)
{
	struct vault_given g = { k->state, k->page, k->key, read_boot(k),
				 wanted_key(k) };
	enum status st = vault_new(&g, &k->vault);

	if (st == ST_OK)
		tell_state(k, g.wanted);
	return st;
}

static enum status
start(struct keeper *k)
{
	if (k->signer == NULL) {
		log_error(&k->role.log, "no state directory was given");
		return ST_NOT_FOUND;
	}
	enum status st = open_vault(k);
	if (st != ST_OK)
		log_error(&k->role.log, "vault: %s", status_code(st));
	return st;
}

int
main(void)
{
	struct keeper k = { .state = -1, .page = -1, .key = -1 };
	struct role_hooks hooks = {
		.ctx = &k, .given = given, .prepare = prepare, .commit = commit
	};

	/* For the CA's key: guarded, locked, in no core.  Without it, ordinary memory. */
	(void)CRYPTO_secure_malloc_init(1 << 16, 32);
	if (jail_early(ROLE_KEEPER, 0) != ST_OK || sources_init(&k.sources) != ST_OK)
		return 1;
	for (size_t i = 0; i < KEEPER_LINES; i++)
		k.lines[i].end.fd = -1;
	role_start(&k.role, ROLE_KEEPER, &hooks);
	if (start(&k) != ST_OK)
		return 1;
	role_enter(&k.role, ".");
	while (k.role.super.fd >= 0 || has_lines(&k))
		turn(&k);
	sources_done(&k.sources);
	supplies_done(&k.supplies);
	vault_free(k.vault);
	signer_free(k.signer);
	return 0;
}
