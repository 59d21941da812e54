#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/base/clock.h"
#include "proxy/base/list.h"
#include "proxy/io/sock.h"
#include "proxy/locator/exchange.h"
#include "proxy/locator/nlmsg.h"
#include "proxy/locator/pins.h"
#include "proxy/locator/port.h"

struct known { /* a sandbox that was located */
	struct place place;
	bool is_pinned;
};

struct locator {
	struct role_self role;
	struct loop *loop;
	struct loop_io super;
	struct ask_line *control; /* NULL: none */
	int route_fd, nft_fd;
	struct list questions;
	size_t places_n, measures_n; /* of them */
	struct map known;            /* sandbox -> struct known */
	uint32_t last_docker;
	struct ask_rate asked;
};

struct question { /* one LOCATE or MEASURE */
	struct list link;
	struct locator *locator;
	enum ask ask;
	uint32_t seq;    /* control's */
	uint32_t docker; /* of our own ask to super; 0: answered */
	char upstream[LOCATOR_ID_MAX + 1];
	char sandbox[LOCATOR_ID_MAX + 1], network[LOCATOR_ID_MAX + 1]; /* of LOCATE */
	struct exchange *exchange;
};

/* What is known. */

static enum status
unpin(struct locator *l, struct known *k)
{
	enum status st = ST_OK;

	if (!k->is_pinned)
		return ST_OK;
	st = pins_remove(l->nft_fd, &k->place);
	port_unnote(l->route_fd, &k->place);
	k->is_pinned = false;
	return st;
}

static bool
place_eq(const struct place *a, const struct place *b)
{
	bool same = strcmp(a->port, b->port) == 0 && a->addrs_n == b->addrs_n &&
		    a->bridge_index == b->bridge_index &&
		    memcmp(a->mac, b->mac, sizeof a->mac) == 0;

	for (size_t i = 0; same && i < a->addrs_n; i++)
		same = addr_eq(&a->addrs[i], &b->addrs[i]);
	return same;
}

/* Where it was, if that was elsewhere, is nobody's any more. */
static enum status
remember(struct locator *l, struct str sandbox, const struct place *p)
{
	struct known *k = map_get(&l->known, sandbox);
	enum status st = ST_OK;

	if (k != NULL && !place_eq(&k->place, p))
		st = unpin(l, k);
	if (k == NULL) {
		k = calloc(1, sizeof *k);
		st = k == NULL ? ST_NOMEM : map_put(&l->known, sandbox, k);
		if (st != ST_OK)
			free(k);
	}
	if (st == ST_OK)
		k->place = *p;
	return st;
}

static void
forget_all(struct locator *l)
{
	struct str key;
	void *value;
	enum status st = pins_flush(l->nft_fd);

	/* Rules that were not loaded yet have nothing in them. */
	if (st != ST_OK && st != ST_NOT_FOUND)
		log_error(&l->role.log, "pins of before can't be taken away: %s",
			  status_code(st));
	for (size_t at = 0; map_next(&l->known, &at, &key, &value);)
		free(value);
	map_done(&l->known);
	map_init(&l->known, LOCATOR_IDS);
}

/* Answers to control. */

static void
tell(struct locator *l, enum ask a, uint32_t seq, struct buf *b)
{
	struct str body;
	enum status st = buf_finish(b, &body);

	if (st == ST_OK && l->control != NULL)
		st = ask_answer(l->control, a, seq, body, NULL, 0);
	if (st != ST_OK)
		log_error(&l->role.log, "%s: the answer is lost: %s", ask_name(a),
			  status_code(st));
}

static void
tell_status(struct locator *l, enum ask a, uint32_t seq, enum status st)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	tell(l, a, seq, &b);
}

static void
tell_place(struct locator *l, uint32_t seq, const struct place *p)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 512);
	buf_put_u16(&b, ST_OK);
	wire_put_str(&b, str_from(p->container));
	wire_put_str(&b, str_from(p->port));
	buf_put(&b, str_of(p->mac, sizeof p->mac));
	buf_put_u8(&b, (uint8_t)p->addrs_n);
	for (size_t i = 0; i < p->addrs_n; i++)
		wire_put_str(&b,
			     str_of(p->addrs[i].b, p->addrs[i].family == 4 ? 4 : 16));
	tell(l, ASK_LOCATE, seq, &b);
}

static void
tell_memory(struct locator *l, uint32_t seq, uint64_t octets)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u16(&b, ST_OK);
	buf_put_u64(&b, octets);
	tell(l, ASK_MEASURE, seq, &b);
}

/* LOCATE, MEASURE. */

static size_t *
open_n(struct question *q)
{
	return q->ask == ASK_LOCATE ? &q->locator->places_n : &q->locator->measures_n;
}

static void
question_free(struct question *q)
{
	list_remove(&q->link);
	--*open_n(q);
	exchange_free(q->exchange);
	free(q);
}

static void
question_end(struct question *q, enum status st)
{
	struct locator *l = q->locator;

	if (st != ST_OK && q->ask == ASK_LOCATE)
		log_info(&l->role.log, "sandbox %s on network %s: %s", q->sandbox,
			 q->network, status_code(st));
	else if (st != ST_OK)
		log_info(&l->role.log, "memory of %s: %s", q->upstream,
			 status_code(st));
	tell_status(l, q->ask, q->seq, st);
	question_free(q);
}

static enum status
placed(struct question *q, const struct exchange_found *found)
{
	struct locator *l = q->locator;
	struct place place = found->place;
	enum status st = port_find(l->route_fd, found->bridge, found->ids.pid, &place);

	if (st == ST_OK)
		st = remember(l, str_from(q->sandbox), &place);
	if (st == ST_OK)
		tell_place(l, q->seq, &place);
	return st;
}

static void
on_found(void *ctx, enum status st, const struct exchange_found *found)
{
	struct question *q = ctx;

	if (st == ST_OK && q->ask == ASK_LOCATE)
		st = placed(q, found);
	else if (st == ST_OK)
		tell_memory(q->locator, q->seq, found->octets);
	if (st != ST_OK)
		question_end(q, st);
	else
		question_free(q);
}

static enum status
ask_docker(struct locator *l, struct question *q)
{
	if (!ask_rate_take(&l->asked, ASK_DOCKER, 0, clock_mono_ms()))
		return ST_LIMIT_RATE;
	if (++l->last_docker == 0)
		l->last_docker = 1; /* 0 is no number */
	q->docker = l->last_docker;
	return ask_send(&l->role.super, ASK_DOCKER, false, q->docker,
			ASK_LOAD(STR(""), NULL, 0));
}

static bool
read_word(struct wire *w, char ret_word[LOCATOR_ID_MAX + 1])
{
	struct str s = wire_str(w);

	if (!docker_is_word(s))
		return false;
	memcpy(ret_word, s.p, s.n);
	return true;
}

static enum status
question_read(struct question *q, struct str body)
{
	struct wire w = wire_from(body);
	bool is_locate = q->ask == ASK_LOCATE;
	bool is_good = (!is_locate || read_word(&w, q->sandbox)) &&
		       read_word(&w, q->upstream) &&
		       (!is_locate || read_word(&w, q->network));

	return is_good ? wire_end(&w) : ST_BAD_PARAMETER;
}

static void
question_heard(struct locator *l, struct ask_msg *m)
{
	size_t max = m->ask == ASK_LOCATE ? LOCATOR_OPEN : LOCATOR_MEASURES;
	struct question *q = calloc(1, sizeof *q);
	enum status st = ST_NOMEM;

	if (q == NULL) {
		tell_status(l, m->ask, m->seq, st);
		return;
	}
	*q = (struct question){ .locator = l, .ask = m->ask, .seq = m->seq };
	list_append(&l->questions, &q->link);
	st = ++*open_n(q) > max ? ST_LIMIT_RATE : question_read(q, m->body);
	if (st == ST_OK)
		st = ask_docker(l, q);
	if (st != ST_OK)
		question_end(q, st);
}

/* Super's answer: a connection to docker, or why there is none. */
static void
connected(struct question *q, struct ask_msg *m)
{
	struct locator *l = q->locator;
	struct wire w = wire_from(m->body);
	uint16_t told = wire_u16(&w);
	struct exchange_wish wish = { .fd = ask_msg_take(m, 0),
				      .kind = q->ask == ASK_LOCATE ? EXCHANGE_PLACE
								   : EXCHANGE_MEMORY,
				      .sandbox = str_from(q->upstream),
				      .network = str_from(q->network) };
	enum status st = told < ST_COUNT ? (enum status)told : ST_BAD_MESSAGE;

	q->docker = 0;
	if (st == ST_OK && wish.fd < 0)
		st = m->lost_fds ? ST_NO_FILES : ST_BAD_MESSAGE;
	if (st == ST_OK)
		st = exchange_begin(l->loop, &wish, on_found, q, &q->exchange);
	if (st == ST_OK)
		return;
	if (wish.fd >= 0)
		(void)close(wish.fd);
	question_end(q, st);
}

static void
answered(void *ctx, struct ask_msg *m)
{
	struct locator *l = ctx;

	if (m->ask != ASK_DOCKER || m->seq == 0)
		return;
	list_each_safe (it, &l->questions) {
		struct question *q = LIST_OF(it, struct question, link);

		if (q->docker == m->seq) {
			connected(q, m);
			return;
		}
	}
}

/* PIN, UNPIN. */

static void
pin_heard(struct locator *l, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	struct str sandbox = wire_str(&w);
	struct known *k = NULL;
	enum status st = wire_end(&w);

	if (st == ST_OK) {
		k = map_get(&l->known, sandbox);
		st = k == NULL ? ST_NOT_FOUND : ST_OK;
	}
	if (st == ST_OK) {
		st = port_note(l->route_fd, &k->place);
		k->is_pinned = true; /* also what came half: it is taken away again */
	}
	if (st == ST_OK)
		st = pins_add(l->nft_fd, &k->place);
	if (st != ST_OK && k != NULL) {
		log_error(&l->role.log, "%.*s isn't pinned: %s%s", STR_ARG(sandbox),
			  status_code(st),
			  st == ST_NOT_FOUND ? ": are the rules of `sandgate rules "
					       "--sandboxes` loaded?"
					     : "");
		(void)(unpin(l, k) == ST_OK);
	}
	tell_status(l, ASK_PIN, m->seq, st);
}

static void
unpin_heard(struct locator *l, struct ask_msg *m)
{
	struct wire w = wire_from(m->body);
	struct str sandbox = wire_str(&w);
	struct known *k = NULL;
	enum status st = wire_end(&w);

	if (st == ST_OK) {
		k = map_take(&l->known, sandbox);
		st = k == NULL ? ST_NOT_FOUND : unpin(l, k);
	}
	free(k);
	tell_status(l, ASK_UNPIN, m->seq, st);
}

static void
on_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct locator *l = ctx;

	if (line != l->control)
		return; /* of a control that is no more */
	if (m->ask == ASK_LOCATE || m->ask == ASK_MEASURE)
		question_heard(l, m);
	else if (m->ask == ASK_PIN)
		pin_heard(l, m);
	else if (m->ask == ASK_UNPIN)
		unpin_heard(l, m);
}

/* The line to control. */

static void
drop_questions(struct locator *l)
{
	list_each_safe (it, &l->questions)
		question_free(LIST_OF(it, struct question, link));
}

static void
on_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct locator *l = ctx;

	if (why != ST_END)
		log_error(&l->role.log, "the line to control: %s", status_code(why));
	if (l->control == line) {
		l->control = NULL;
		drop_questions(l);
	}
	ask_line_free(line);
}

/* It knows of no pin: those of before are not anybody's. */
static enum status
take_control(struct locator *l, int fd)
{
	struct ask_end end = { .fd = fd, .self = ROLE_LOCATOR, .peer = ROLE_CONTROL };
	struct ask_line *line;
	enum status st = ask_line_new(l->loop, &end, on_heard, on_lost, l, &line);

	if (st != ST_OK) {
		(void)close(fd);
		return st;
	}
	drop_questions(l);
	forget_all(l);
	l->control = line;
	return ST_OK;
}

static enum status
given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	struct locator *l = ctx;
	int fd;

	(void)text;
	if (kind != GIVE_LINE || index != ROLE_CONTROL)
		return ST_BAD_MESSAGE;
	fd = ask_msg_take(m, 0);
	if (fd < 0)
		return m->lost_fds ? ST_NO_FILES : ST_BAD_MESSAGE;
	return take_control(l, fd);
}

static void
on_super(void *ctx, unsigned events)
{
	struct locator *l = ctx;

	(void)events;
	if (role_heard(&l->role) != ST_OK)
		loop_stop(l->loop);
}

static enum status
locator_init(struct locator *l)
{
	enum status st = loop_new(&l->loop);

	list_init(&l->questions);
	map_init(&l->known, LOCATOR_IDS);
	if (st == ST_OK)
		st = nlmsg_open(NETLINK_ROUTE, &l->route_fd);
	if (st == ST_OK)
		st = nlmsg_open(NETLINK_NETFILTER, &l->nft_fd);
	return st;
}

/* Pins outlive us for as long as it takes to start again; a gateway that ends takes them
 * along. */
static void
locator_done(struct locator *l)
{
	drop_questions(l);
	forget_all(l);
	ask_line_free(l->control);
	loop_io_clear(&l->super);
	loop_free(l->loop);
	free(l);
}

int
main(void)
{
	static const struct log log = { "locator", LOG_INFO };
	struct locator *l = calloc(1, sizeof *l);
	struct role_hooks hooks = { .ctx = l, .given = given, .answered = answered };

	if (l == NULL || jail_early(ROLE_LOCATOR, 1ULL << CAP_NET_ADMIN) != ST_OK ||
	    locator_init(l) != ST_OK) {
		log_error(&log, "cannot start");
		free(l);
		return 1;
	}
	role_start(&l->role, ROLE_LOCATOR, &hooks);
	role_enter(&l->role, NULL);
	loop_io_init(&l->super, l->loop, l->role.super.fd, on_super, l);
	loop_io_want(&l->super, LOOP_READ);
	loop_run(l->loop);
	locator_done(l);
	return 0;
}
