/*
 * sandgate-keeper: holds the keys and meets typed asks only.  A plain poll loop; it
 * links neither libevent nor libssl, and its only parser is the one for asks.  It
 * outlives super as long as the ledger does, to sign where that ends.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "proxy/base/clock.h"
#include "proxy/io/role.h"
#include "proxy/io/sock.h"
#include "vault/sign.h"

/* The ledger's line and, for a moment, the one of the ledger that died before it. */
enum { LINES = 8, SLACK = 2 };

struct line {
	struct ask_end end; /* fd -1: free */
	struct ask_rate signs;
};

struct keeper {
	struct role_self role;
	struct signer *signer;
	struct line lines[LINES];
	char space[ASK_BODY_MAX + 8];
};

static void
line_close(struct line *line)
{
	(void)close(line->end.fd);
	line->end.fd = -1;
}

static enum status
given_line(struct keeper *k, uint32_t peer, struct ask_msg *m)
{
	int fd = ask_msg_take(m, 0);

	if (fd < 0)
		return m->lost_fds ? ST_NO_FILES : ST_BAD_MESSAGE;
	for (size_t i = 0; i < LINES && peer == ROLE_LEDGER; i++) {
		struct line *line = &k->lines[i];
		if (line->end.fd >= 0)
			continue;
		*line = (struct line){ .end = { fd, ROLE_KEEPER, ROLE_LEDGER } };
		return sock_set_nonblock(fd);
	}
	/* Nobody else has anything to ask here: what isn't served is hung up. */
	(void)close(fd);
	return ST_OK;
}

static enum status
given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	struct keeper *k = ctx;

	(void)text;
	if (kind == GIVE_LINE)
		return given_line(k, index, m);
	if (kind != GIVE_STATE || k->signer != NULL)
		return ST_OK;
	int state = ask_msg_take(m, 0);
	enum status st = signer_open(state, &k->signer);
	(void)close(state);
	if (st != ST_OK)
		log_error(&k->role.log, "keeper.key in the state directory: %s",
			  st == ST_CONFLICT ? "not a file of 32 bytes with mode 0600"
					    : status_code(st));
	return st;
}

static enum status
answer_sign(struct keeper *k, struct line *line, const struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	uint64_t segment = wire_u64(&w);
	struct chain_hash head;
	struct str answer = STR("");

	if (!chain_from(wire_bytes(&w, CHAIN_HASH), &head) || wire_end(&w) != ST_OK)
		return ST_BAD_MESSAGE;
	buf_init(&b, CHAIN_SIG + CHAIN_KEY);
	enum status st = signer_put(k->signer, segment, &head, &b);
	if (st == ST_OK)
		st = buf_finish(&b, &answer);
	if (st == ST_OK)
		st = ask_send(&line->end, ASK_SIGN, true, m->seq,
			      ASK_LOAD(answer, NULL, 0));
	/* A ledger that doesn't read its answers asks again when its deadline is over.
	 */
	return st == ST_AGAIN ? ST_OK : st;
}

/* Anything but ST_OK and ST_AGAIN ends the line. */
static enum status
line_heard(struct keeper *k, struct line *line)
{
	struct ask_msg m;
	enum status st = ask_recv(&line->end, k->space, &m);

	if (st != ST_OK)
		return st;
	if (m.is_answer || m.ask != ASK_SIGN)
		st = ST_BAD_MESSAGE;
	else if (!ask_rate_take(&line->signs, ASK_SIGN, SLACK, clock_mono_ms()))
		st = ST_LIMIT_RATE;
	else
		st = answer_sign(k, line, &m);
	ask_msg_done(&m);
	return st;
}

static void
line_turn(struct keeper *k, struct line *line)
{
	enum status st = line_heard(k, line);

	if (st == ST_OK || st == ST_AGAIN)
		return;
	if (st != ST_END)
		log_error(&k->role.log, "line to the ledger: %s", status_code(st));
	line_close(line);
}

static bool
has_lines(const struct keeper *k)
{
	for (size_t i = 0; i < LINES; i++)
		if (k->lines[i].end.fd >= 0)
			return true;
	return false;
}

/* poll(2) passes over descriptors below zero. */
static void
turn(struct keeper *k)
{
	struct pollfd fds[LINES + 1] = { { .fd = k->role.super.fd, .events = POLLIN } };

	for (size_t i = 0; i < LINES; i++)
		fds[i + 1] =
			(struct pollfd){ .fd = k->lines[i].end.fd, .events = POLLIN };
	if (poll(fds, LINES + 1, -1) < 0) {
		need(errno == EINTR);
		return;
	}
	for (size_t i = 0; i < LINES; i++)
		if (fds[i + 1].revents != 0)
			line_turn(k, &k->lines[i]);
	if (fds[0].revents != 0 && role_heard(&k->role) != ST_OK)
		k->role.super.fd = -1; /* super is gone */
}

int
main(void)
{
	struct keeper k = { 0 };
	struct role_hooks hooks = { .ctx = &k, .given = given };

	if (jail_early(ROLE_KEEPER, 0) != ST_OK)
		return 1;
	for (size_t i = 0; i < LINES; i++)
		k.lines[i].end.fd = -1;
	role_start(&k.role, ROLE_KEEPER, &hooks);
	if (k.signer == NULL) {
		log_error(&k.role.log, "no state directory was given");
		return 1;
	}
	role_enter(&k.role, NULL);
	while (k.role.super.fd >= 0 || has_lines(&k))
		turn(&k);
	return 0;
}
