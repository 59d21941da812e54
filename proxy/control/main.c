#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/control/brain.h"
#include "proxy/control/ca_file.h"
#include "proxy/control/digest.h"
#include "proxy/control/pin.h"
#include "proxy/io/sock.h"

/* Lines to other roles. */

static void
line_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct control *c = ctx;

	bool is_exec = m->ask == ASK_PLACE || m->ask == ASK_LEFT ||
		       m->ask == ASK_KEPT || m->ask == ASK_CONTEXT ||
		       m->ask == ASK_HOLD || m->ask == ASK_HOLD_CALL;

	if (m->ask == ASK_WHO)
		token_heard(c, line, m);
	else if (is_exec && c->brain != NULL)
		brain_heard(c->brain, line, m);
	else if (m->ask == ASK_PLACE)
		brain_unserved(c, line, m);
	else
		log_error(&c->role.log, "%s is not served", ask_name(m->ask));
}

static void
line_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct control *c = ctx;

	if (why != ST_END)
		log_error(&c->role.log, "a line: %s", status_code(why));
	for (size_t i = 0; i < CONTROL_SLOTS; i++) {
		if (c->lines[i] == line)
			c->lines[i] = NULL;
	}
	if (c->dialer == line)
		c->dialer = NULL;
	if (c->keeper == line)
		c->keeper = NULL;
	if (c->locator == line) {
		c->locator = NULL;
		pin_forget_all(c);
	}
	if (c->brain != NULL)
		brain_line_lost(c->brain, line);
	ask_line_free(line);
}

/* It begins with no pins: sandboxes that are there get them again. */
static void
given_locator(struct control *c, struct ask_line *line)
{
	c->locator = line;
	pin_forget_all(c);
	if (c->brain != NULL)
		brain_bind_soon(c->brain);
}

static enum status
given_line(struct control *c, uint32_t index, struct str text, struct ask_msg *m)
{
	struct ask_end end = { -1, ROLE_CONTROL, (enum role)index };
	struct str group = text, number = str_cut(&group, ':');
	uint64_t slot;
	enum status st;

	if (index >= ROLE_COUNT || group.n > STR_NAME_MAX ||
	    !num_parse_strict(number, CONTROL_SLOTS - 1, &slot))
		return ST_BAD_MESSAGE;
	end.fd = ask_msg_take(m, 0);
	if (end.fd < 0)
		return m->lost_fds ? ST_NO_FILES : ST_BAD_MESSAGE;
	/* The line of the process that was there before ends by itself, and with it what
	 * that process was asked. */
	c->lines[slot] = NULL;
	if (index == ROLE_DIALER)
		c->dialer = NULL;
	if (index == ROLE_KEEPER)
		c->keeper = NULL;
	c->is_connector[slot] = index == ROLE_CONNECTOR;
	memset(c->group[slot], 0, sizeof c->group[slot]);
	if (group.n > 0)
		memcpy(c->group[slot], group.p, group.n);
	st = ask_line_new(c->loop, &end, line_heard, line_lost, c, &c->lines[slot]);
	if (st != ST_OK)
		(void)close(end.fd);
	else if (index == ROLE_DIALER)
		c->dialer = c->lines[slot];
	else if (index == ROLE_KEEPER)
		c->keeper = c->lines[slot];
	else if (index == ROLE_LOCATOR)
		given_locator(c, c->lines[slot]);
	return st;
}

/* What super gives. */

static enum status
given_stats(struct control *c, uint32_t slot, struct ask_msg *m)
{
	if (slot >= CONTROL_SLOTS || m->fds_n == 0)
		return ST_BAD_MESSAGE;
	stats_close(c->stats[slot]);
	c->stats[slot] = NULL;
	return stats_open(m->fds[0], false, &c->stats[slot]);
}

static enum status
given_admin(struct control *c, struct str text, struct ask_msg *m)
{
	int fd = ask_msg_take(m, 0);
	enum status st = fd < 0 ? ST_BAD_MESSAGE : sock_netns_cookie(fd, &c->own_netns);

	c->admin_is_unix = str_eq(text, STR("unix"));
	if (st == ST_OK)
		st = admin_open(c, fd);
	if (st != ST_OK && fd >= 0)
		(void)close(fd);
	return st;
}

/* We stand in our directory: its name may lead through others that we may not enter. */
static enum status
given_state(struct ask_msg *m)
{
	int fd = ask_msg_take(m, 0);

	if (fd < 0)
		return m->lost_fds ? ST_NO_FILES : ST_BAD_MESSAGE;
	int rc = fchdir(fd);
	(void)close(fd);
	return rc == 0 ? ST_OK : ST_SYSTEM;
}

static enum status
given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	struct control *c = ctx;

	if (kind == GIVE_LINE)
		return given_line(c, index, text, m);
	if (kind == GIVE_STATS)
		return given_stats(c, index, m);
	if (kind == GIVE_STATE)
		return given_state(m);
	return kind == GIVE_ADMIN ? given_admin(c, text, m) : ST_BAD_MESSAGE;
}

static void
sandbox(void *ctx, const struct who *w, bool present)
{
	struct control *c = ctx;
	struct row row;
	enum status st;

	if (!c->is_serving)
		return; /* attached before we were here: recorded then */
	row = role_row_begin(&c->role, present ? ROW_ATTACH : ROW_DETACH, w);
	/* The same one, with other addresses, names or narrowing. */
	if (present && w->revision > 1)
		row.detail = STR("changed");
	st = role_row(&c->role, &row);
	if (st != ST_OK)
		log_error(&c->role.log, "ledger row: %s", status_code(st));
}

static void
commit(void *ctx, const struct image *old)
{
	struct control *c = ctx;

	(void)old;
	if (c->is_serving)
		ca_file_begin(c);
}

static void
publish(void *ctx)
{
	ca_file_begin(ctx);
}

static void
answered(void *ctx, struct ask_msg *m)
{
	ask_super_answered(ctx, m);
}

static void
on_super(void *ctx, unsigned events)
{
	struct control *c = ctx;

	(void)events;
	if (role_heard(&c->role) != ST_OK)
		loop_stop(c->loop);
}

/* Super made the pair of sockets: they carry its user. */
static uid_t
super_uid(void)
{
	struct ucred who;
	socklen_t n = sizeof who;

	return getsockopt(ROLE_SUPER_FD, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0
		       ? who.uid
		       : 0;
}

/* Before the jail, which lets us open nothing.  Without it no sandbox is given out, and
 * all else is served. */
static void
open_store(struct control *c)
{
	enum status st = brain_store_open("exec.db", &c->store);

	if (st == ST_OK)
		st = brain_open(c);
	if (st != ST_OK)
		log_error(&c->role.log,
			  "control/exec.db: %s: no execution request is served",
			  status_code(st));
}

int
main(void)
{
	static const struct log log = { "control", LOG_INFO };
	static struct control control;
	struct control *c = &control;
	struct role_hooks hooks = {
		.ctx = c,
		.given = given,
		.commit = commit,
		.sandbox = sandbox,
		.answered = answered,
	};

	if (jail_early(ROLE_CONTROL, 0) != ST_OK || loop_new(&c->loop) != ST_OK) {
		log_error(&log, "cannot start");
		return 1;
	}
	list_init(&c->conns);
	map_init(&c->digests, DIGEST_NAMES);
	map_init(&c->published, CA_FILE_PATHS);
	loop_timer_init(&c->publish, c->loop, publish, c);
	c->super_uid = super_uid();
	role_start(&c->role, ROLE_CONTROL, &hooks);
	open_store(c);
	role_enter(&c->role, NULL);
	c->is_serving = true;
	loop_io_init(&c->super_io, c->loop, c->role.super.fd, on_super, c);
	loop_io_first(&c->super_io);
	loop_io_want(&c->super_io, LOOP_READ);
	ca_file_begin(c);
	loop_run(c->loop);
	return 0;
}
