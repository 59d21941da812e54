/* Who asks for a dial, and may they?  Everything is judged here again: a worker or a
 * connector that was taken over gets what policy allows it and no more. */
#include <string.h>
#include <sys/socket.h>

#include "proxy/dialer/dial_in.h"
#include "proxy/dialer/parent.h"
#include "proxy/io/sock.h"

struct wish {            /* the body of the ask */
	struct str name; /* FETCH: of the connector; REACH: of the server */
	struct str host;
	uint16_t port;
	uint8_t way; /* DIAL */
};

static struct place
place_of(const struct dialer *d)
{
	return (struct place){ .image = d->role.image,
			       .who = d->role.who,
			       .countries = d->countries,
			       .networks = d->networks };
}

static enum status
may_parent(const struct dial *d, const struct addr *a)
{
	/* The operator says where it is; that it is not us is ours to see. */
	if (addr_classify(a) == ADDR_METADATA)
		return ST_ADDRESS_METADATA;
	return place_is_self(d->dialer->role.image, a, d->target.port) ? ST_ADDRESS_SELF
								       : ST_OK;
}

static uint32_t
connector_of(const struct dial *d)
{
	return image_connector_by_name(d->dialer->role.image,
				       str_of(d->name, d->name_len));
}

static const struct image_exec_server *
server_of(const struct dial *d)
{
	return image_exec_server_by_name(d->dialer->role.image,
					 str_of(d->name, d->name_len));
}

static const struct who *
who_of(const struct dial *d)
{
	return d->handle == DIAL_NOBODY ? NULL
					: who_by_handle(d->dialer->role.who, d->handle);
}

static enum status
judge_address(struct dial *d, const struct who *w, const struct addr *a)
{
	struct place p = place_of(d->dialer);
	const struct image_exec_server *s = d->ask == ASK_REACH ? server_of(d) : NULL;

	if (d->ask == ASK_REACH)
		return s == NULL ? ST_NOT_GRANTED
				 : place_reach(&p, s, &d->dest, a, &d->found);
	return d->ask == ASK_FETCH
		       ? place_fetch(&p, connector_of(d), w, &d->dest, a, &d->found)
		       : place_judge(&p, w, &d->dest, a, &d->found);
}

enum status
dial_may(void *ctx, const struct addr *a)
{
	struct dial *d = ctx;
	const struct who *w = who_of(d);

	if (w == NULL && d->handle != DIAL_NOBODY)
		return ST_UNKNOWN_SANDBOX;
	return d->is_via ? may_parent(d, a) : judge_address(d, w, a);
}

/* No sandbox has a share of that name: what a sandbox is called holds no blank. */
struct str
dial_whose(const struct dial *d)
{
	const struct who *w = who_of(d);

	if (d->ask == ASK_REACH)
		return str_of(d->caller, d->caller_len);
	return w != NULL ? w->id : STR("a connector");
}

/* A connector of the group of the process that asks, for a sandbox that may use it. */
static enum status
judge_fetch(const struct dial *d, const struct who *w)
{
	const struct image *im = d->dialer->role.image;
	uint32_t index = connector_of(d);
	size_t n;
	const struct image_connector *all = image_connectors(im, &n);

	if (index == CONNECTOR_NONE ||
	    !str_eq(image_str(im, all[index].group), str_from(d->peer->name)))
		return ST_DENIED;
	if (w != NULL) {
		const struct image_sandbox *s = image_sandbox_by_id(im, w->id);
		struct str tenant = s == NULL ? STR("") : image_str(im, s->tenant);
		if (!policy_may_use(im, index, w->may.policy, tenant, w->user))
			return ST_DENIED;
	}
	return policy_fetch(im, index, &d->dest);
}

static enum status
judge_name(struct dial *d, const struct who *w)
{
	struct policy_question q = { .dest = &d->dest, .way = d->way };
	struct policy_answer a;

	if (w == NULL)
		return ST_UNKNOWN_SANDBOX;
	q.may = w->may;
	policy_judge(d->dialer->role.image, &q, &a);
	d->found.rule = a.rule;
	if (a.action == ACTION_DENY)
		return a.reason;
	/* A worker has no business there: the connector asks for itself. */
	return a.connector == CONNECTOR_NONE ? ST_OK : ST_NEEDS_CONNECTOR;
}

/* A name that the parent resolves lies at a place nobody knows: any public address
 * stands for it, without country and network, so rules that want one refuse. */
static enum status
judge_unseen(struct dial *d, const struct who *w)
{
	static const struct addr public = { .family = 4, .b = { 1, 1, 1, 1 } };
	const struct image *im = d->dialer->role.image;
	struct policy_place place = { .addr = &public };

	if (d->ask == ASK_FETCH)
		return policy_fetch_address(
			im, connector_of(d),
			w == NULL ? mandate_of(POLICY_NONE) : w->may, &d->dest, &place);
	return w == NULL ? ST_UNKNOWN_SANDBOX
			 : policy_address(im, w->may, &d->dest, &place, &d->found.rule);
}

/* The key of an execution server would pass a parent readable. */
static bool
is_plain_server(const struct dial *d)
{
	const struct image *im = d->dialer->role.image;
	size_t n;
	const struct image_connector *all = image_connectors(im, &n);
	uint32_t index = d->ask == ASK_FETCH ? connector_of(d) : CONNECTOR_NONE;

	return index != CONNECTOR_NONE && all[index].upstream_is_plain &&
	       image_exec_server_of(im, index) != NULL;
}

/* No parent proxy stands before an execution server's endpoints, or before its API where
 * that has no TLS. */
static bool
goes_via(const struct dial *d, struct dest *ret_parent)
{
	return d->ask != ASK_REACH && !is_plain_server(d) &&
	       parent_for(d->dialer->role.image, &d->dest, ret_parent);
}

static enum status
judge(struct dial *d, const struct who *w)
{
	/* Each address is judged against the server's; the grant was, at the start. */
	if (d->ask == ASK_REACH)
		return server_of(d) == NULL ? ST_NOT_GRANTED : ST_OK;
	enum status st = d->ask == ASK_FETCH ? judge_fetch(d, w) : judge_name(d, w);

	if (st != ST_OK || !d->is_via)
		return st;
	return dest_is_name(&d->dest) ? judge_unseen(d, w)
				      : judge_address(d, w, &d->dest.addr);
}

/* One label is a name only where the operator gave it: in resolver.hosts, as where a
 * connector calls, or by an execution server. */
static enum status
read_dest(const struct dial *d, const struct wish *wish, struct dest *ret_d)
{
	enum status st = dest_from_host(wish->host, wish->port, ret_d);
	struct dest one;
	size_t n = 0;

	if (st != ST_BAD_HOST ||
	    dest_from_host_single(wish->host, wish->port, &one) != ST_OK)
		return st;
	(void)image_host_addrs(d->dialer->role.image, dest_name(&one), &n);
	if (n == 0 && d->ask == ASK_DIAL)
		return st;
	*ret_d = one;
	return ST_OK;
}

/* An accepted connection that still stands: nothing else speaks for anybody. */
static bool
is_connected(int fd, struct sockaddr_storage *ret_ss)
{
	socklen_t n = sizeof(*ret_ss);
	int type = 0;
	socklen_t type_n = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_n) == 0 &&
	       type == SOCK_STREAM &&
	       getpeername(fd, (struct sockaddr *)ret_ss, &n) == 0;
}

static const struct who *
who_asks(const struct dial *d)
{
	struct sockaddr_storage ss;

	return is_connected(d->fd, &ss) ? who_by_peer(d->dialer->role.who, d->fd, &ss)
					: NULL;
}

/* Where it connected from, in words that no sandbox is called by: they hold a blank. */
static bool
name_caller(struct dial *d)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct sockaddr_storage ss;
	struct str text;
	struct addr a;
	uint16_t port;

	if (!is_connected(d->fd, &ss) ||
	    !addr_from_sockaddr((const struct sockaddr *)&ss, &a, &port))
		return false;
	buf_init(&b, sizeof(d->caller));
	buf_put(&b, STR("caller "));
	addr_put(&b, &a);
	if (buf_finish(&b, &text) != ST_OK)
		return false;
	memcpy(d->caller, text.p, text.n);
	d->caller_len = (uint8_t)text.n;
	return true;
}

/* Control said that who holds this very socket may reach this very endpoint. */
static enum status
check_grant(struct dial *d, const struct wish *wish)
{
	struct reach_point p = { .server = wish->name,
				 .host = wish->host,
				 .port = wish->port };

	if (!name_caller(d) || sock_cookie(d->fd, &p.cookie) != ST_OK ||
	    !reach_is_granted(&d->dialer->reach, &p))
		return ST_NOT_GRANTED;
	return ST_OK;
}

/* False: a socket is there, and its sandbox is not known. */
static bool
find_who(struct dial *d, const struct who **ret_w)
{
	bool is_sandbox = d->fd != -1 && d->ask != ASK_REACH;
	const struct who *w = is_sandbox ? who_asks(d) : NULL;

	if (w == NULL && is_sandbox)
		return false;
	d->handle = w == NULL ? DIAL_NOBODY : w->handle;
	*ret_w = w;
	return true;
}

static enum status
take_share(struct dial *d, const struct who *w)
{
	struct dialer *all = d->dialer;
	const struct image *im = all->role.image;
	uint32_t max = (uint32_t)image_number(im, OPT_LIMIT_ALL_CONNECTIONS);

	if (w != NULL || d->ask == ASK_REACH)
		max = image_limits(im, w == NULL ? 0 : w->limits)->connections;
	if (all->dials_n >= DIALS_MAX)
		return ST_LIMIT_CONNECTIONS;
	return quota_take_dial(&all->quota, dial_whose(d), max, &d->share);
}

static enum status
admit(struct dial *d, const struct wish *wish)
{
	const struct who *w;

	if (!find_who(d, &w))
		return ST_UNKNOWN_SANDBOX;
	if (d->dialer->is_draining)
		return ST_DRAINING;
	if (wish->name.n > sizeof d->name)
		return ST_DENIED;
	if (wish->name.n > 0)
		memcpy(d->name, wish->name.p, wish->name.n);
	d->name_len = (uint8_t)wish->name.n;
	enum status st = d->ask == ASK_REACH ? check_grant(d, wish) : ST_OK;
	if (st == ST_OK)
		st = read_dest(d, wish, &d->dest);
	if (st != ST_OK)
		return st;
	/* Of a plain request the worker knows more than is told here. */
	d->way = wish->way == WAY_HTTP ? WAY_ANY : (enum policy_way)wish->way;
	d->is_via = goes_via(d, &d->target);
	if (!d->is_via)
		d->target = d->dest;
	st = judge(d, w);
	return st == ST_OK ? take_share(d, w) : st;
}

/* fd is taken over; -1: there is none. */
static void
start(struct peer *p, struct ask_msg *m, int fd, const struct wish *wish)
{
	enum ask a = m->ask;
	struct dial *d;
	enum status st;

	if (wish->port == 0) {
		dial_refuse_ask(p, a, m->seq, ST_BAD_PORT);
		if (fd != -1)
			sock_close_passed(fd);
		return;
	}
	d = dial_new(p, a, m->seq, fd);
	if (d == NULL) {
		dial_refuse_ask(p, a, m->seq, ST_NOMEM);
		if (fd != -1)
			sock_close_passed(fd);
		return;
	}
	st = admit(d, wish);
	if (st == ST_OK)
		dial_begin(d);
	else
		dial_refuse(d, st);
}

void
dial_heard(struct peer *p, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	struct wish wish = { .host = wire_str(&w) };

	wish.port = wire_u16(&w);
	wish.way = wire_u8(&w);
	if (wire_end(&w) != ST_OK || wish.way > WAY_TCP || m->fds_n != 1)
		peer_kill(p, ST_BAD_MESSAGE);
	else
		start(p, m, ask_msg_take(m, 0), &wish);
}

void
dial_fetch_heard(struct peer *p, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	struct wish wish = { .name = wire_str(&w) };

	wish.host = wire_str(&w);
	wish.port = wire_u16(&w);
	if (wire_end(&w) != ST_OK || m->fds_n > 1)
		peer_kill(p, ST_BAD_MESSAGE);
	else
		start(p, m, m->fds_n == 1 ? ask_msg_take(m, 0) : -1, &wish);
}

void
dial_reach_heard(struct peer *p, struct ask_msg *m)
{
	if (m->fds_n != 1)
		peer_kill(p, ST_BAD_MESSAGE);
	else
		dial_fetch_heard(p, m); /* the same form */
}

static enum status
judge_again(struct dial *d)
{
	const struct who *w;
	struct dest parent;

	if (!find_who(d, &w))
		return ST_UNKNOWN_SANDBOX;
	enum status st = judge(d, w);
	/* Another way out than the one that was begun: ask again. */
	if (st == ST_OK && goes_via(d, &parent) != d->is_via)
		st = ST_RELOADED;
	return st;
}

void
dial_judge_again(struct dialer *all)
{
	list_each_safe (it, &all->dials) {
		struct dial *d = LIST_OF(it, struct dial, link);
		enum status st = judge_again(d);
		if (st != ST_OK)
			dial_fail(d, st);
	}
}
