#include "proxy/worker/conn.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/worker/credentials.h"
#include "proxy/worker/deny.h"
#include "proxy/worker/person.h"

static enum status
host_take(struct exchange *x, enum filter_budget what)
{
	struct conn *c = x->core;
	uint64_t now = loop_now_ms(c->w->loop);
	enum status st;

	if (what == BUDGET_REQUEST)
		return limit_request(c->limit, now);
	st = limit_open(c->limit, now);
	c->is_counted = st == ST_OK;
	return st;
}

static enum status
host_record(struct exchange *x, enum filter_record what)
{
	static const enum row_kind kinds[2][2] = {
		{ ROW_TUNNEL_START, ROW_TUNNEL_END },
		{ ROW_REQUEST, ROW_RESPONSE },
	};

	if (what == RECORD_ALARM)
		return conn_row(x->core, x, ROW_ALARM);
	return conn_row(x->core, x, kinds[x->way == WAY_HTTP][what == RECORD_END]);
}

static void
resume_later(void *ctx)
{
	struct conn *c = ctx;

	if (!c->is_closed && c->owner->resume != NULL)
		c->owner->resume(c);
}

static void
host_resume(struct exchange *x)
{
	struct conn *c = x->core;

	x->is_resumed = true;
	loop_defer(c->w->loop, resume_later, c);
}

static const struct placeholders *
host_placeholders(struct exchange *x)
{
	struct conn *c = x->core;

	if (c->limit == NULL || x->who == NULL)
		return NULL;
	return credentials_of(c->w, c->limit, x->who);
}

static const struct filter_host host = {
	.size = sizeof(host),
	.take = host_take,
	.record = host_record,
	.resume = host_resume,
	.placeholders = host_placeholders,
	.ask_person = person_ask,
	.forget_person = person_forget,
};

static void
conn_speaks(struct conn *c)
{
	if (c->is_pending)
		limit_speaks(c->limit);
	c->is_pending = false;
}

void
conn_tick_silent(struct conn *c)
{
	enum status st;

	if (c->is_pending || c->limit == NULL)
		return;
	st = limit_pending(c->limit, worker_option(c->w, OPT_LIMIT_PENDING));
	c->is_pending = st == ST_OK;
	if (st == ST_OK)
		return;
	stats_add(c->w->role.stats, STAT_LIMIT_PENDING, 1);
	deny_because(c, st);
}

void
conn_take(struct conn *c, const struct conn_owner *owner, void *state, loop_io_fn fn)
{
	if (c->owner != NULL)
		c->owner->done(c);
	conn_speaks(c);
	c->owner = owner;
	c->state = state;
	/* Not loop_io_init(): the descriptor stays where it is in the kernel's set. */
	c->io.fn = fn;
	c->io.ctx = c;
}

void
conn_close(struct conn *c)
{
	struct worker *w = c->w;

	if (c->is_closed)
		return;
	c->is_closed = true;
	if (c->owner != NULL)
		c->owner->done(c);
	if (c->ended != NULL)
		c->ended(c->ended_ctx, c->is_reset);
	loop_io_clear(&c->io);
	if (c->is_lent)
		(void)shutdown(c->io.fd, SHUT_RDWR);
	(void)close(c->io.fd);
	if (c->who_fd != c->io.fd)
		(void)close(c->who_fd);
	conn_speaks(c);
	if (c->is_counted)
		limit_close(c->limit);
	if (c->limit != NULL)
		limit_release(&w->limits, c->limit);
	c->limit = NULL;
	limit_peer_leave(c->peer);
	limits_leave(&w->limits);
	stats_add(w->role.stats, STAT_OPEN, -1);
	list_remove(&c->link);
	loop_defer(w->loop, free, c);
	worker_check_drained(w);
}

void
conn_reset(struct conn *c)
{
	struct linger at_once = { .l_onoff = 1, .l_linger = 0 };

	if (c->is_closed)
		return;
	c->is_reset = true;
	(void)setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	conn_close(c);
}

const struct who *
conn_who(const struct conn *c)
{
	if (c->limit == NULL || c->limit->handle == HANDLE_NONE)
		return NULL;
	return who_by_handle(c->w->role.who, c->limit->handle);
}

bool
conn_is_same_sandbox(const struct conn *c)
{
	const struct who *who;

	if (c->limit == NULL)
		return true;
	if (c->limit->handle == HANDLE_NONE)
		return false;
	who = who_by_socket(c->w->role.who, c->who_fd);
	return who != NULL && str_eq(who->id, str_from(c->limit->id));
}

bool
conn_is_gone(const struct conn *c)
{
	struct pollfd end = { .fd = c->io.fd, .events = POLLRDHUP };

	return poll(&end, 1, 0) == 1 && end.revents != 0;
}

struct str
conn_listener(const struct conn *c)
{
	const struct image *im = c->w->role.image;
	size_t n;
	const struct image_listener *all = image_listeners(im, &n);

	if (c->listener == CONN_ATTACHED)
		return STR("attached");
	/* A reload may have taken the listener away from under its connection. */
	return c->listener < n ? image_str(im, all[c->listener].name) : STR("-");
}

void
conn_refresh(struct conn *c, struct exchange *x)
{
	x->image = c->w->role.image;
	x->generation = c->w->role.generation;
	x->who = conn_who(c);
}

void
conn_exchange(struct conn *c, struct exchange *x)
{
	exchange_init(x, &host, c);
	conn_refresh(c, x);
	x->begun_ms = loop_now_ms(c->w->loop);
}

static void
row_where(struct row *row, const struct exchange *x, struct buf *host_text)
{
	if (x->dest != NULL && x->dest->port != 0) {
		dest_put(host_text, x->dest);
		if (host_text->st == ST_OK)
			row->host = str_of(host_text->p, host_text->len);
	}
	row->address = str_from(x->address);
	row->country = str_from(x->country);
	row->method = x->method;
	row->path = x->path;
}

static void
row_words(struct row *row, const struct exchange *x, struct buf *words)
{
	row->detail = x->detail.n > 0 ? x->detail : x->approval;
	if (x->detail.n == 0 || x->approval.n == 0)
		return;
	buf_put(words, x->detail);
	buf_put(words, STR("; "));
	buf_put(words, x->approval);
	if (words->st == ST_OK)
		row->detail = str_of(words->p, words->len);
}

/* Whose credential the request gets, or who refuses it. */
static struct str
connector_of(const struct conn *c, const struct exchange *x)
{
	const struct image *im = c->w->role.image;
	size_t n = 0;
	const struct image_connector *all = image_connectors(im, &n);

	if (x->action != ACTION_CONNECTOR &&
	    (x->action != ACTION_DENY || x->way != WAY_HTTP))
		return STR("");
	return x->connector < n ? image_str(im, all[x->connector].name)
				: x->connector_was;
}

enum status
conn_row(struct conn *c, struct exchange *x, enum row_kind kind)
{
	struct worker *w = c->w;
	struct row row = role_row_begin(&w->role, kind, conn_who(c));
	CLEANUP(buf_done) struct buf words = { 0 };
	struct buf where, rule;
	enum status st;

	buf_init(&where, DEST_NAME_MAX + 64);
	buf_init(&rule, ROW_FIELD_MAX);
	if (row.sandbox.n == 0 && c->limit != NULL)
		row.sandbox = str_from(c->limit->id);
	buf_init(&words, ROW_FIELD_MAX);
	row_where(&row, x, &where);
	row_words(&row, x, &words);
	if (x->rule != RULE_NONE) {
		image_put_rule(&rule, w->role.image, x->rule);
		row.rule =
			rule.st == ST_OK ? str_of(rule.p, rule.len) : (struct str){ 0 };
	}
	row.turn = x->id != 0 ? x->id : row.id;
	row.reason = x->reason;
	row.observed = x->observed;
	row.listener = conn_listener(c);
	row.http_status = x->http_status;
	row.connector = connector_of(c, x);
	row.secret_version = x->secret_version;
	row.scrubbed = x->scrubbed;
	row.bytes_up = x->bytes_up;
	row.bytes_down = x->bytes_down;
	row.duration_ms = loop_now_ms(w->loop) - x->begun_ms;
	x->last_row = row.id;
	st = role_row(&w->role, &row);
	if (st == ST_OK && x->id == 0)
		x->id = row.id;
	buf_done(&where);
	buf_done(&rule);
	return st;
}

enum status
conn_count(struct conn *c, uint64_t up, uint64_t down)
{
	struct stats *stats = c->w->role.stats;

	if (up != 0)
		stats_add(stats, STAT_BYTES_UP, (int64_t)up);
	if (down != 0)
		stats_add(stats, STAT_BYTES_DOWN, (int64_t)down);
	return c->limit == NULL ? ST_OK : limit_bytes(c->limit, up + down);
}

enum status
conn_identify(struct conn *c, const struct who *who)
{
	struct worker *w = c->w;
	struct exchange x;
	enum status st;

	need(c->limit == NULL);
	st = limit_of(&w->limits, w->role.image, who, &c->limit);

	if (st != ST_OK)
		return st;
	conn_exchange(c, &x);
	if (exchange_run(&x, PHASE_CONNECTION) != VERDICT_NEXT)
		st = x.reason != ST_OK ? x.reason : ST_FILTER_FAILED;
	exchange_done(&x);
	return st;
}
