#include "proxy/dns/query.h"

#include "proxy/dns/pending.h"

enum { TTL_SYNTHETIC = 60, ANY_PORT = 443 };

static struct str
name_of(const struct query *q)
{
	return str_of(q->msg.name, q->msg.name_len);
}

static struct str
listener_name(const struct query *q)
{
	const struct dns_door *door = q->way->door;
	const struct image_listener *all;
	size_t n;

	if (door->handle != HANDLE_NONE)
		return STR("attached");
	all = image_listeners(q->dns->role.image, &n);
	return door->listener < n
		       ? image_str(q->dns->role.image, all[door->listener].name)
		       : STR("dns");
}

static struct str
type_word(uint16_t type)
{
	static const struct {
		uint16_t type;
		struct str word;
	} words[] = {
		{ DNSMSG_A, { "A", 1 } },       { DNSMSG_AAAA, { "AAAA", 4 } },
		{ DNSMSG_PTR, { "PTR", 3 } },   { DNSMSG_HTTPS, { "HTTPS", 5 } },
		{ DNSMSG_SVCB, { "SVCB", 4 } },
	};

	for (size_t i = 0; i < COUNT_OF(words); i++)
		if (words[i].type == type)
			return words[i].word;
	return STR("other type");
}

static enum status
put_row(struct query *q, enum row_kind kind, enum status why)
{
	struct dns *d = q->dns;
	struct row row = role_row_begin(&d->role, kind, q->who);
	struct str rule;

	row.reason = why;
	row.listener = listener_name(q);
	row.host = name_of(q);
	row.detail = type_word(q->msg.type);
	row.observed = q->verdict.observed;
	if (q->verdict.rule != RULE_NONE) {
		buf_clear(&d->rule);
		image_put_rule(&d->rule, d->role.image, q->verdict.rule);
		if (buf_finish(&d->rule, &rule) == ST_OK)
			row.rule = rule;
	}
	return role_row(&d->role, &row);
}

static size_t
write_answer(struct query *q, struct dnsmsg_answer *a)
{
	a->is_tcp = q->way->peer == NULL;
	return dnsmsg_write(&q->msg, a, q->dns->out);
}

size_t
query_fail(struct query *q, enum status why)
{
	struct dnsmsg_answer a = {
		.rcode = (enum dnsmsg_rcode)status_words(why)->dns_rcode,
		.ede = DNSMSG_EDE_OTHER,
		.code = status_code(why),
	};

	if (why == ST_DNS_NOT_FOUND)
		a.code = NULL; /* an ordinary answer */
	else if (why == ST_DNS_FAILED)
		a.ede = DNSMSG_EDE_NO_AUTHORITY;
	return write_answer(q, &a);
}

/* NXDOMAIN or what the operator wants instead; limits and failures keep their own. */
static enum dnsmsg_rcode
refusal_rcode(const struct dns *d, enum status why)
{
	enum dnsmsg_rcode rcode = (enum dnsmsg_rcode)status_words(why)->dns_rcode;

	if (rcode == DNSMSG_NXDOMAIN &&
	    image_number(d->role.image, OPT_DNS_DENIED) != 0)
		return DNSMSG_REFUSED;
	return rcode;
}

size_t
query_refuse(struct query *q, enum status why)
{
	struct dnsmsg_answer a = { .ede = DNSMSG_EDE_BLOCKED,
				   .code = status_code(why) };

	if (put_row(q, ROW_DENY, why) != ST_OK)
		return query_fail(q, ST_NO_LEDGER);
	stats_add(q->dns->role.stats, STAT_QUERIES_BLOCKED, 1);
	stats_refused(q->dns->role.stats, why);
	a.rcode = refusal_rcode(q->dns, why);
	return write_answer(q, &a);
}

/* A packet that is no query, or nobody's: nothing of it is sent back but its id, for
 * the source may be forged and the answer must not carry the sandbox's bytes anywhere.
 */
static size_t
refuse_bare(struct query *q, enum status why)
{
	struct str packet = q->msg.packet;

	q->msg.name_len = 0;
	q->msg.type = 0;
	if (quota_may_tell(q->quota, loop_now_ms(q->dns->loop)) &&
	    put_row(q, ROW_DENY, why) != ST_OK)
		why = ST_NO_LEDGER;
	stats_add(q->dns->role.stats, STAT_QUERIES_BLOCKED, 1);
	stats_refused(q->dns->role.stats, why);
	return dnsmsg_write_error(
		packet, (enum dnsmsg_rcode)status_words(why)->dns_rcode, q->dns->out);
}

size_t
query_answer(struct query *q, const struct addr *addrs, size_t n, uint32_t ttl)
{
	struct dnsmsg_answer a = { .addrs = addrs, .addrs_n = n, .ttl = ttl };

	return write_answer(q, &a);
}

static size_t
answer_synthetic(struct query *q, uint16_t slot)
{
	struct addr a = synth_address(slot, q->msg.type == DNSMSG_A ? 4 : 6);

	return query_answer(q, &a, 1, TTL_SYNTHETIC);
}

/* An address of the sandbox's own, by which the worker knows the name again. */
static size_t
answer_by_name(struct query *q)
{
	struct dns *d = q->dns;
	uint16_t slot;

	if (!d->synth ||
	    synth_assign(d->synth, q->who->id, dest_name(&q->dest), &slot) != ST_OK)
		return query_fail(q, ST_TOO_BIG);
	return answer_synthetic(q, slot);
}

size_t
query_found(struct query *q, const struct addr *addrs, size_t n, uint32_t ttl)
{
	/* The gateway's loopback would be the sandbox's own in there. */
	for (size_t i = 0; i < n; i++)
		if (addr_classify(&addrs[i]) == ADDR_LOOPBACK)
			return answer_by_name(q);
	return query_answer(q, addrs, n, ttl);
}

/* One label is fine here: resolver.hosts may have it, and policy decides anyway. */
enum status
query_judge(struct query *q)
{
	enum status st = dest_from_host_single(name_of(q), ANY_PORT, &q->dest);

	if (st != ST_OK)
		return st;
	if (!dest_is_name(&q->dest))
		return ST_IP_LITERAL;
	policy_judge_name(q->dns->role.image, q->who->may, &q->dest, &q->verdict);
	return q->verdict.action == ACTION_DENY ? q->verdict.reason : ST_OK;
}

static bool
is_address_type(uint16_t type)
{
	return type == DNSMSG_A || type == DNSMSG_AAAA;
}

/* Policy allows the name and the row is written. */
static size_t
answer_allowed(struct query *q)
{
	struct dns *d = q->dns;

	/* Nobody's addresses are looked up backwards: that is a way out of its own. */
	if (q->msg.type == DNSMSG_PTR)
		return query_fail(q, ST_DNS_NOT_FOUND);
	/* HTTPS and SVCB among them: they would bring ECH keys and address hints. */
	if (!is_address_type(q->msg.type))
		return query_answer(q, NULL, 0, 0);
	if (!policy_is_by_name(d->role.image, q->who->may.policy, dest_name(&q->dest)))
		return pending_start(q);
	return answer_by_name(q);
}

struct recent_question
query_key(const struct query *q)
{
	return (struct recent_question){ .handle = q->who->handle,
					 .type = q->msg.type,
					 .name = dest_name(&q->dest) };
}

/* The same was asked a moment ago; 0: it wasn't. */
static size_t
answer_recent(struct query *q)
{
	struct recent_question key = query_key(q);
	struct recent_answer a;
	bool wants_row = false;

	if (!is_address_type(q->msg.type) ||
	    policy_is_by_name(q->dns->role.image, q->who->may.policy, key.name) ||
	    !recent_find(&q->dns->recent, &key, &a, &wants_row))
		return 0;
	if (wants_row && put_row(q, ROW_DNS, q->verdict.reason) != ST_OK)
		return query_fail(q, ST_NO_LEDGER);
	return query_found(q, a.addrs, a.n, a.ttl);
}

/* The gateway's own pages: not a way out, so no policy; IPv4 only. */
static size_t
answer_pages(struct query *q)
{
	if (put_row(q, ROW_DNS, ST_OK) != ST_OK)
		return query_fail(q, ST_NO_LEDGER);
	return q->msg.type == DNSMSG_A ? answer_synthetic(q, 0)
				       : query_answer(q, NULL, 0, 0);
}

static size_t
handle_question(struct query *q)
{
	enum status st;

	if (q->dns->is_draining)
		return query_refuse(q, ST_DRAINING);
	if (q->msg.class != DNSMSG_IN)
		return query_refuse(q, ST_METHOD_REFUSED);
	if (str_eq(name_of(q), STR(SYNTH_PAGES_NAME)))
		return answer_pages(q);
	st = query_judge(q);
	if (st != ST_OK)
		return query_refuse(q, st);
	size_t n = answer_recent(q);
	if (n != 0)
		return n;
	if (put_row(q, ROW_DNS, q->verdict.reason) != ST_OK)
		return query_fail(q, ST_NO_LEDGER);
	return answer_allowed(q);
}

/* Too fast: the answer costs little, the ledger hears of it once a second. */
static size_t
refuse_rate(struct query *q)
{
	struct dnsmsg_answer a = {
		.rcode = DNSMSG_REFUSED,
		.ede = DNSMSG_EDE_BLOCKED,
		.code = status_code(ST_LIMIT_RATE),
	};

	stats_add(q->dns->role.stats, STAT_LIMIT_RATE, 1);
	if (quota_may_tell(q->quota, loop_now_ms(q->dns->loop)))
		return query_refuse(q, ST_LIMIT_RATE);
	stats_refused(q->dns->role.stats, ST_LIMIT_RATE);
	return write_answer(q, &a);
}

static size_t
handle_good(struct query *q, uint64_t now)
{
	struct dnsmsg_answer badvers = { .rcode = DNSMSG_BADVERS };
	uint64_t per_second = image_number(q->dns->role.image, OPT_LIMIT_QUERIES);

	if (!quota_take(q->quota, now, per_second))
		return refuse_rate(q);
	if (q->msg.edns_version != 0)
		return write_answer(q, &badvers);
	return handle_question(q);
}

enum status
query_handle(struct dns *d, const struct who *w, struct str packet,
	     const struct query_way *way, size_t *ret_size)
{
	struct query q = { .dns = d, .who = w, .way = way, .verdict.rule = RULE_NONE };
	enum status st = dnsmsg_read_query(packet, &q.msg);
	uint64_t now = loop_now_ms(d->loop);
	size_t n;

	if (st == ST_END)
		return ST_END;
	stats_add(d->role.stats, STAT_QUERIES, 1);
	q.msg.packet = packet;
	q.quota = quotas_get(&d->quotas, w ? w->id : STR(""), now);
	if (!q.quota)
		n = dnsmsg_write_error(packet, DNSMSG_SERVFAIL, d->out);
	else if (!w || st != ST_OK)
		n = refuse_bare(&q, w ? st : ST_UNKNOWN_SANDBOX);
	else
		n = handle_good(&q, now);
	if (n == 0)
		return ST_AGAIN;
	*ret_size = n;
	return ST_OK;
}
