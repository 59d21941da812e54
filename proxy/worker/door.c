#include "proxy/worker/door.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/io/listen.h"
#include "proxy/worker/conn.h"

struct door {
	struct list link; /* worker->doors */
	struct worker *w;
	struct listen *listen; /* NULL: not open yet */
	int fd;                /* until it is open */
	uint16_t index;        /* in the image, or CONN_ATTACHED */
	uint8_t way;           /* enum conn_way */
	uint32_t handle;       /* of an attached sandbox, else HANDLE_NONE */
};

static void
door_free(struct door *d)
{
	list_remove(&d->link);
	listen_free(d->listen);
	if (d->listen == NULL && d->fd >= 0)
		(void)close(d->fd);
	free(d);
}

static struct door *
door_new(struct worker *w, int fd)
{
	struct door *d = calloc(1, sizeof(*d));

	if (d == NULL) {
		(void)close(fd);
		return NULL;
	}
	d->w = w;
	d->fd = fd;
	list_append(&w->doors, &d->link);
	return d;
}

enum status
door_add(struct worker *w, int fd, uint32_t index)
{
	struct door *d;

	if (index >= CONN_ATTACHED) {
		(void)close(fd);
		return ST_BAD_MESSAGE;
	}
	d = door_new(w, fd);
	if (d == NULL)
		return ST_NOMEM;
	d->index = (uint16_t)index;
	return ST_OK;
}

enum status
door_add_attached(struct worker *w, int fd, uint32_t handle, bool is_proxy)
{
	struct door *d = door_new(w, fd);

	if (d == NULL)
		return ST_NOMEM;
	d->index = CONN_ATTACHED;
	d->handle = handle;
	d->way = is_proxy ? CONN_PROXY : CONN_TRANSPARENT;
	return ST_OK;
}

static void
on_accepted(void *ctx, int fd, const struct sockaddr_storage *peer)
{
	struct door *d = ctx;

	struct conn_entry e = { peer, d->index, (enum conn_way)d->way };

	conn_begin(d->w, fd, &e);
}

/* Accepted sockets inherit these, so no connection pays for them. */
static void
set_options(const struct worker *w, int fd)
{
	int one = 1;
	unsigned stalled = (unsigned)worker_option(w, OPT_STALLED_TIMEOUT);

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stalled, sizeof(stalled));
}

static enum conn_way
way_of(uint8_t kind)
{
	if (kind == LISTENER_OPENSANDBOX)
		return CONN_EXEC;
	return kind == LISTENER_PROXY ? CONN_PROXY : CONN_TRANSPARENT;
}

static void
door_open(struct door *d)
{
	struct worker *w = d->w;
	size_t n;
	const struct image_listener *all = image_listeners(w->role.image, &n);
	enum status st;

	if (d->index != CONN_ATTACHED) {
		if (d->index >= n)
			return; /* of a policy that isn't in force yet */
		d->way = (uint8_t)way_of(all[d->index].kind);
	}
	set_options(w, d->fd);
	st = listen_new(w->loop, d->fd, w->role.stats, on_accepted, d, &d->listen);
	if (st != ST_OK)
		log_error(&w->role.log, "a listener can't be opened: %s",
			  status_code(st));
}

void
doors_open(struct worker *w)
{
	if (w->role.image == NULL || w->is_draining)
		return;
	list_each (it, &w->doors) {
		struct door *d = LIST_OF(it, struct door, link);

		if (d->listen == NULL)
			door_open(d);
	}
}

void
doors_close_listeners(struct worker *w)
{
	list_each_safe (it, &w->doors) {
		struct door *d = LIST_OF(it, struct door, link);

		if (d->index != CONN_ATTACHED)
			door_free(d);
	}
}

void
doors_close_attached(struct worker *w, uint32_t handle)
{
	list_each_safe (it, &w->doors) {
		struct door *d = LIST_OF(it, struct door, link);

		if (d->index == CONN_ATTACHED && d->handle == handle)
			door_free(d);
	}
}

void
doors_close(struct worker *w)
{
	list_each_safe (it, &w->doors)
		door_free(LIST_OF(it, struct door, link));
}
