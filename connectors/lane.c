#include "connectors/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connectors/turn.h"
#include "proxy/io/sock.h"

enum { LANES_MAX = 4096 };

/* An accepted connection that still stands: nothing else speaks for a sandbox. */
static const struct who *
who_asks(struct connector *all, int fd)
{
	struct sockaddr_storage ss;
	socklen_t n = sizeof ss, type_n = sizeof(int);
	int type = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_n) == -1 ||
	    type != SOCK_STREAM || getpeername(fd, (struct sockaddr *)&ss, &n) == -1)
		return NULL;
	return who_by_peer(all->role.who, fd, &ss);
}

/* The socket said whose it is when the lane was opened, and is asked again with each
 * policy; a sandbox that goes takes its lanes along. */
const struct who *
lane_who(const struct lane *l)
{
	return who_by_handle(l->all->role.who, l->handle);
}

/* Called for each turn; it may end itself. */
static void
each_turn(struct lane *l, void (*fn)(struct turn *t))
{
	list_each_safe (it, &l->turns)
		fn(turn_of_link(it));
}

static void
lane_free(void *ctx)
{
	struct lane *l = ctx;

	lent_unref(l->lent);
	free(l);
}

void
lane_end(struct lane *l)
{
	struct connector *all = l->all;

	if (l->is_dead)
		return;
	l->is_dead = true;
	each_turn(l, turn_cut);
	front_free(l->front);
	stream_done(&l->stream);
	loop_io_clear(&l->io);
	loop_io_clear(&l->watcher);
	(void)close(l->io.fd);
	sock_close_passed(l->sandbox);
	list_remove(&l->link);
	loop_defer(all->loop, lane_free, l);
	connector_check_drained(all);
}

enum status
lane_gather(struct lane *l, size_t n)
{
	size_t all = 0;

	list_each (it, &l->all->lanes) {
		const struct lane *other = LIST_OF(it, struct lane, link);
		all += other->handle == l->handle ? other->gathered : 0;
	}
	if (all > LANE_GATHER_MOST || n > LANE_GATHER_MOST - all)
		return ST_LIMIT_BODIES;
	l->gathered += n;
	return ST_OK;
}

static enum status
on_begin(void *ctx, struct side *s)
{
	return turn_new(ctx, s);
}

static void
on_over(void *ctx, bool is_reset)
{
	(void)is_reset;
	lane_end(ctx);
}

static const struct front_hooks hooks = { .begin = on_begin, .over = on_over };

/* The sandbox has closed: what runs may end, a new request finds a new lane. */
static void
on_sandbox(void *ctx, unsigned events)
{
	struct lane *l = ctx;
	ssize_t n;
	char c;

	(void)events;
	loop_io_want(&l->watcher, 0);
	/* What a live one sends is its worker's, who may have taken it by now. */
	n = recv(l->sandbox, &c, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	front_drain(l->front);
}

struct entry { /* what a lane is made of */
	int fd, sandbox;
	uint32_t connector, handle;
};

static enum status
lane_new(struct connector *all, const struct entry *e, struct lane **ret_l)
{
	struct lane *l = calloc(1, sizeof *l);
	struct front_start start = { .flow = &all->flow,
				     .hooks = &hooks,
				     .limits = &all->front_limits,
				     .ctx = l,
				     .is_https = true };

	if (l == NULL)
		return ST_NOMEM;
	l->all = all;
	l->sandbox = e->sandbox;
	l->connector = e->connector;
	l->handle = e->handle;
	l->lent = lent_of(all, e->connector, e->handle);
	list_init(&l->turns);
	stream_plain(&l->stream, e->fd);
	loop_io_init(&l->io, all->loop, e->fd, NULL, NULL);
	start.stream = &l->stream;
	start.io = &l->io;
	l->front = l->lent != NULL ? front_h2_new(&start) : NULL;
	if (l->front == NULL) {
		loop_io_clear(&l->io);
		lane_free(l);
		return ST_NOMEM;
	}
	loop_io_init(&l->watcher, all->loop, e->sandbox, on_sandbox, l);
	*ret_l = l;
	return ST_OK;
}

struct wish { /* the body of the ask */
	struct str connector;
	uint64_t generation;
};

/* Is it a stream between processes, so that nothing of a network is read as a lane? */
static bool
is_lane_socket(int fd)
{
	int type = 0, domain = 0;
	socklen_t n = sizeof type, m = sizeof domain;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &m) == 0 &&
	       type == SOCK_STREAM && domain == AF_UNIX &&
	       sock_set_nonblock(fd) == ST_OK;
}

/* A lane is a connection of its sandbox, so no sandbox has more of them than of those. */
static enum status
has_room(const struct connector *all, const struct who *w)
{
	uint32_t most = image_limits(all->role.image, w->limits)->connections, own = 0;
	size_t n = 0;

	list_each (it, &all->lanes) {
		own += LIST_OF(it, struct lane, link)->handle == w->handle;
		n++;
	}
	return n < LANES_MAX && own < most ? ST_OK : ST_LIMIT_CONNECTIONS;
}

static enum status
admit(struct connector *all, const struct wish *wish, struct entry *e)
{
	const struct who *w = who_asks(all, e->sandbox);
	uint32_t index;

	if (w == NULL)
		return ST_UNKNOWN_SANDBOX;
	if (all->is_draining)
		return ST_DRAINING;
	if (wish->generation != all->role.generation)
		return ST_RELOADED;
	index = image_connector_by_name(all->role.image, wish->connector);
	/* No such one and none of yours are told alike. */
	if (index == CONNECTOR_NONE || !turn_may_use(all, index, w))
		return ST_DENIED;
	e->connector = index;
	e->handle = w->handle;
	return has_room(all, w);
}

static enum status
open_lane(struct connector *all, const struct wish *wish, int fd, int sandbox)
{
	struct entry e = { .fd = fd, .sandbox = sandbox };
	struct lane *l = NULL;
	enum status st =
		fd >= 0 && sandbox >= 0 && is_lane_socket(fd) ? ST_OK : ST_BAD_MESSAGE;

	if (st == ST_OK)
		st = admit(all, wish, &e);
	if (st == ST_OK)
		st = lane_new(all, &e, &l);
	if (st != ST_OK)
		return st;
	list_append(&all->lanes, &l->link);
	connector_wake(all);
	front_go(l->front, STR(""));
	return ST_OK;
}

/* Also what the worker says in its own name: one that was taken over would not.  Not that
 * a policy came between, for then the same is asked again at once. */
static void
record_refusal(struct connector *all, const struct wish *wish, int sandbox,
	       enum status why)
{
	struct row row = role_row_begin(&all->role, ROW_DENY,
					sandbox < 0 ? NULL : who_asks(all, sandbox));

	if (why == ST_RELOADED)
		return;
	row.turn = row.id;
	row.reason = why;
	row.connector = str_head(wish->connector, STR_NAME_MAX);
	row.detail = STR("a lane to this connector");
	/* It is refused anyway. */
	(void)!role_row(&all->role, &row);
}

void
lane_heard(struct peer *p, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	struct wish wish = { .connector = wire_str(&w) };
	struct connector *all = p->set->ctx;
	int fd, sandbox;
	enum status st;

	wish.generation = wire_u64(&w);
	if (wire_end(&w) != ST_OK || (m->fds_n != 2 && !m->lost_fds)) {
		peer_kill(p, ST_BAD_MESSAGE);
		return;
	}
	fd = ask_msg_take(m, 0);
	sandbox = ask_msg_take(m, 1);
	st = m->lost_fds ? ST_NO_FILES : open_lane(all, &wish, fd, sandbox);
	if (st != ST_OK) {
		record_refusal(all, &wish, sandbox, st);
		if (fd >= 0)
			sock_close_passed(fd);
		if (sandbox >= 0)
			sock_close_passed(sandbox);
	}
	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	peer_answer(p, ASK_LANE, m->seq, &b, -1);
}

/* By its name, in the image that is in force now. */
static void
find_again(struct lane *l, const struct image *old)
{
	size_t n = 0;
	const struct image_connector *before = image_connectors(old, &n);

	l->connector = l->connector >= n
			       ? CONNECTOR_NONE
			       : image_connector_by_name(
					 l->all->role.image,
					 image_str(old, before[l->connector].name));
	each_turn(l, turn_renumber);
}

static bool
still_stands(struct lane *l)
{
	const struct who *w = who_asks(l->all, l->sandbox);

	if (w == NULL || l->connector == CONNECTOR_NONE)
		return false;
	l->handle = w->handle;
	lent_unref(l->lent);
	l->lent = lent_of(l->all, l->connector, l->handle);
	return l->lent != NULL && turn_may_use(l->all, l->connector, w);
}

void
lanes_judge(struct connector *all, const struct image *old)
{
	lents_forget(all);
	list_each_safe (it, &all->lanes) {
		struct lane *l = LIST_OF(it, struct lane, link);
		find_again(l, old);
		if (!still_stands(l))
			lane_end(l);
		else
			each_turn(l, turn_judge);
	}
}

void
lanes_judge_of(struct connector *all, uint32_t handle)
{
	list_each_safe (it, &all->lanes) {
		struct lane *l = LIST_OF(it, struct lane, link);
		if (l->handle != handle)
			continue;
		if (!still_stands(l))
			lane_end(l);
		else
			each_turn(l, turn_judge);
	}
}

void
lanes_forget(struct connector *all, uint32_t handle)
{
	list_each_safe (it, &all->lanes) {
		struct lane *l = LIST_OF(it, struct lane, link);
		if (l->handle == handle)
			lane_end(l);
	}
}

void
lanes_drain(struct connector *all)
{
	list_each_safe (it, &all->lanes)
		front_drain(LIST_OF(it, struct lane, link)->front);
}

void
lanes_tick(struct connector *all)
{
	list_each_safe (it, &all->lanes) {
		struct lane *l = LIST_OF(it, struct lane, link);
		front_tick(l->front);
		if (l->is_dead)
			continue;
		/* Once a second: is the sandbox still there? */
		if (l->watcher.armed == 0)
			loop_io_want(&l->watcher, LOOP_READ);
		each_turn(l, turn_tick);
	}
}
