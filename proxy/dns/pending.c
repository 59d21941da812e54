#include "proxy/dns/pending.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"

enum { WANT_A = 1, WANT_AAAA = 2, ASK_SIZE = 512, HTTP_FORBIDDEN = 403 };

struct pending {
	struct list link;
	struct dns *dns;
	struct quota *quota; /* counted in */
	struct query_way way;
	struct query_peer peer; /* what way.peer points to, for UDP */
	struct ask_line *line;  /* asked on; every call on it ends before it is lost */
	uint32_t seq;
	uint64_t generation; /* of the policy under which it was asked */
	uint32_t revision;   /* of the sandbox, then */
	uint8_t id_len;
	char id[UINT8_MAX]; /* of the sandbox */
	size_t packet_n;
	char packet[];
};

static void
release(struct pending *p)
{
	struct dns *d = p->dns;

	list_remove(&p->link);
	p->quota->pending--;
	quota_release(p->quota);
	d->pendings_n--;
	free(p);
	dns_check_drained(d);
}

/* status u16, ttl u32, count u8, addresses: str16 each. */
struct found {
	enum status st;
	uint32_t ttl;
	size_t n;
	struct addr addrs[DNSMSG_ADDRS_MAX];
};

static bool
take_address(struct wire *w, struct found *f)
{
	struct str bytes = wire_str(w);
	struct addr *a;

	if (bytes.n != 4 && bytes.n != 16)
		return false;
	if (f->n == DNSMSG_ADDRS_MAX)
		return true; /* more than anyone tries */
	a = &f->addrs[f->n++];
	*a = (struct addr){ .family = bytes.n == 4 ? 4 : 6 };
	memcpy(a->b, bytes.p, bytes.n);
	return true;
}

static struct found
read_found(struct str body)
{
	struct wire w = wire_from(body);
	uint16_t st = wire_u16(&w);
	struct found f = { .ttl = wire_u32(&w) };
	bool is_good = st < ST_COUNT;

	for (uint8_t count = wire_u8(&w); is_good && count > 0; count--)
		is_good = take_address(&w, &f);
	f.st = is_good && wire_end(&w) == ST_OK ? (enum status)st : ST_BAD_MESSAGE;
	return f;
}

/* Not what was asked under a policy or narrowing that is no longer in force. */
static void
keep(const struct pending *p, const struct query *q, const struct found *f)
{
	struct recent_question key = query_key(q);
	struct recent_answer a = { .n = f->n, .ttl = f->ttl };

	if (p->generation != p->dns->role.generation || p->revision != q->who->revision)
		return;
	memcpy(a.addrs, f->addrs, f->n * sizeof(f->addrs[0]));
	recent_keep(&p->dns->recent, &key, &a);
}

/* The rest of a question after the dialer's answer; size of the answer in d->out. */
static size_t
resume(struct pending *p, struct query *q, const struct found *f)
{
	enum status st = dnsmsg_read_query(str_of(p->packet, p->packet_n), &q->msg);

	need(st == ST_OK); /* it was read before */
	q->who = who_by_id(p->dns->role.who, str_of(p->id, p->id_len));
	if (!q->who)
		return 0;
	st = query_judge(q);
	if (st != ST_OK)
		return query_refuse(q, st);
	/* The dialer refuses a name whose every address the rule does not allow. */
	if (f->st != ST_OK && status_words(f->st)->http == HTTP_FORBIDDEN)
		return query_refuse(q, f->st);
	if (f->st != ST_OK)
		return query_fail(q, f->st);
	keep(p, q, f);
	return query_found(q, f->addrs, f->n, f->ttl);
}

static void
answered(void *ctx, enum status st, struct ask_msg *m)
{
	struct pending *p = ctx;
	struct dns *d = p->dns;
	struct query q = { .dns = d, .way = &p->way, .verdict.rule = RULE_NONE };
	struct found f = { .st = ST_NO_DIALER };
	size_t n;

	q.quota = p->quota;
	if (st == ST_OK)
		f = read_found(m->body);
	else if (st == ST_TIMEOUT)
		f.st = ST_DNS_FAILED;
	n = resume(p, &q, &f);
	list_remove(&p->link); /* the owner may end by this and drop what is listed */
	p->way.send(p->way.owner, p->way.peer, str_of(d->out, n));
	release(p);
}

static struct pending *
pending_new(const struct query *q)
{
	struct str packet = q->msg.packet, id = q->who->id;
	struct pending *p = malloc(sizeof(*p) + packet.n);

	need(id.n <= sizeof(p->id)); /* it has a quota */
	if (!p)
		return NULL;
	p->dns = q->dns;
	p->line = q->dns->dialer;
	p->generation = q->dns->role.generation;
	p->revision = q->who->revision;
	p->quota = q->quota;
	p->way = *q->way;
	if (q->way->peer) {
		p->peer = *q->way->peer;
		p->way.peer = &p->peer;
	}
	p->id_len = (uint8_t)id.n;
	memcpy(p->id, id.p, id.n);
	p->packet_n = packet.n;
	memcpy(p->packet, packet.p, packet.n);
	list_append(&p->dns->pendings, &p->link);
	p->quota->pending++;
	p->dns->pendings_n++;
	return p;
}

/* handle u32, generation u64, name str16, want u8 */
static enum status
ask_dialer(struct pending *p, const struct query *q)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;
	enum status st;

	buf_init(&b, ASK_SIZE);
	buf_put_u32(&b, q->who->handle);
	buf_put_u64(&b, q->dns->role.generation);
	wire_put_str(&b, dest_name(&q->dest));
	buf_put_u8(&b, q->msg.type == DNSMSG_A ? WANT_A : WANT_AAAA);
	st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_call(p->line, ASK_RESOLVE, ASK_LOAD(body, NULL, 0), answered,
			      p, &p->seq);
	return st;
}

static size_t
too_many(struct query *q)
{
	stats_add(q->dns->role.stats, STAT_LIMIT_RATE, 1);
	return query_fail(q, ST_LIMIT_RATE);
}

size_t
pending_start(struct query *q)
{
	struct dns *d = q->dns;
	struct pending *p;

	if (!role_has_ledger(&d->role))
		return query_fail(q, ST_NO_LEDGER);
	if (!d->dialer)
		return query_fail(q, ST_NO_DIALER);
	if (q->quota->pending >= QUOTA_PENDING || d->pendings_n >= PENDING_MAX)
		return too_many(q);
	p = pending_new(q);
	if (!p)
		return query_fail(q, ST_NOMEM);
	if (ask_dialer(p, q) != ST_OK) {
		release(p);
		return query_fail(q, ST_NO_DIALER);
	}
	stats_add(d->role.stats, STAT_LOOKUPS, 1);
	return 0;
}

void
pending_drop(struct dns *d, const void *owner)
{
	list_each_safe (it, &d->pendings) {
		struct pending *p = LIST_OF(it, struct pending, link);

		if (p->way.owner != owner)
			continue;
		ask_cancel(p->line, p->seq);
		release(p);
	}
}
