/* What the connectors that read sources bring, and what operators may see of it. */
#include "vault/ask_vault_in.h"

enum { DETAIL_MAX = 512, ROOM = 512 };

/* Whose it is says the image, and which process may bring it the line. */
static enum status
may_supply(const struct image *im, const struct keeper_line *line, struct str name,
	   uint64_t *ret_keep_ms)
{
	const struct image_store_item *item = image_store_item_by_name(im, name);
	size_t n;

	if (item == NULL)
		return ST_RELOADED;
	const struct image_store *store = &image_stores(im, &n)[item->store];
	const struct image_connector *c = &image_connectors(im, &n)[store->connector];
	if (!str_eq(image_str(im, c->group), str_from(line->group)))
		return ST_SECRET_DENIED;
	*ret_keep_ms = store->keep_ms;
	return ST_OK;
}

/* Only what is new: a source is read again and again. */
static void
write_row(struct keeper *k, const struct supplied *one, enum status reason)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row row = role_row_begin(&k->role, ROW_VAULT, NULL);

	buf_init(&b, DETAIL_MAX);
	buf_put(&b, STR("source "));
	buf_put(&b, str_from(one->name));
	if (one->version != 0)
		buf_putf(&b, " version %u", one->version);
	row.reason = reason;
	row.detail = str_of(b.p, b.len);
	enum status st = role_row(&k->role, &row);
	if (st != ST_OK)
		log_error(&k->role.log, "a row of a source: %s", status_code(st));
}

static enum status
supply(struct keeper *k, const struct keeper_line *line, struct str name,
       const struct supply_told *told)
{
	uint64_t keep_ms = 0;
	bool is_news = false;
	enum status st = may_supply(k->role.image, line, name, &keep_ms);
	struct supplied *one = st == ST_OK ? supplies_find(&k->supplies, name) : NULL;

	if (st == ST_OK && one == NULL)
		st = ST_RELOADED;
	if (st == ST_OK && told->value >= 0 && !role_has_ledger(&k->role))
		st = ST_NO_LEDGER;
	if (st != ST_OK)
		return st;
	st = supply_take(one, told, keep_ms, &is_news);
	if (is_news)
		write_row(k, one, one->why);
	return st;
}

enum status
keeper_supply(struct keeper *k, struct keeper_line *line, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	struct str name = wire_str(&w);
	uint16_t why = wire_u16(&w);
	struct supply_told told = { .why = (enum status)why };

	told.version = wire_u32(&w);
	told.expires_s = wire_u64(&w);
	told.value = m->fds_n > 0 ? m->fds[0] : -1;
	if (wire_end(&w) != ST_OK || why >= ST_COUNT ||
	    (why == ST_OK) != (m->fds_n > 0 || m->lost_fds))
		return ST_BAD_MESSAGE;
	enum status st = m->lost_fds ? ST_NO_FILES : supply(k, line, name, &told);
	if (st == ST_BAD_MESSAGE)
		return st;
	buf_init(&b, 8);
	buf_put_u16(&b, (uint16_t)st);
	return keeper_answer(line, m, &b, -1);
}

void
keeper_expire(struct keeper *k)
{
	const struct supplied *one;

	while ((one = supplies_expire(&k->supplies)) != NULL)
		write_row(k, one, ST_SOURCE_SILENT);
}

/* The list. */

struct listed { /* one secret of another's, whatever way it comes */
	const char *name, *source;
	uint32_t version;
	uint64_t expires_s;
	enum status st;
};

static void
take_smallest(struct listed *least, const struct listed *one, struct str after)
{
	struct str name = str_from(one->name);

	if (str_cmp(name, after) <= 0)
		return;
	if (least->name == NULL || str_cmp(name, str_from(least->name)) < 0)
		*least = *one;
}

/* The first by name that comes after this one. */
static bool
next_of(const struct keeper *k, struct str after, struct listed *ret_one)
{
	struct listed least = { .name = NULL };

	for (size_t i = 0; i < k->sources.now_n; i++) {
		const struct source *s = &k->sources.now[i];
		bool is_file = str_starts(str_from(s->name), STR("files/"));
		const struct listed one = { s->name, is_file ? "file" : "environment",
					    s->version, 0, ST_OK };
		take_smallest(&least, &one, after);
	}
	for (size_t i = 0; i < k->supplies.n; i++) {
		const struct supplied *s = &k->supplies.of[i];
		const struct listed one = { s->name, "openbao", s->version,
					    s->expires_s, supply_is_good(s) };
		take_smallest(&least, &one, after);
	}
	*ret_one = least;
	return least.name != NULL;
}

static void
put_listed(struct buf *b, const struct listed *one)
{
	bool is_there = one->st == ST_OK;

	buf_put(b, STR("{\"name\":"));
	buf_put_json(b, str_from(one->name));
	buf_putf(b,
		 ",\"source\":\"%s\",\"version\":%u,\"expires\":%llu,\"code\":\"%s\"}",
		 one->source, is_there ? one->version : 0,
		 is_there ? (unsigned long long)one->expires_s : 0ULL,
		 status_code(one->st));
}

enum status
op_sources(struct op *o)
{
	struct str after = o->ask.name;
	struct listed one;
	bool has_more = next_of(o->keeper, after, &one);
	size_t n = 0;

	buf_put(&o->text, STR("{\"secrets\":["));
	while (has_more && o->text.len < TEXT_MAX - VAULT_NAME_MAX - ROOM) {
		if (n++ > 0)
			buf_putc(&o->text, ',');
		put_listed(&o->text, &one);
		after = str_from(one.name);
		has_more = next_of(o->keeper, after, &one);
	}
	buf_put(&o->text, STR("],\"next\":"));
	if (has_more)
		buf_put_json(&o->text, after);
	else
		buf_put(&o->text, STR("null"));
	buf_putc(&o->text, '}');
	return o->text.st;
}
