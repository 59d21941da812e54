#include "conf/draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conf/policy.h"
#include "proxy/base/num.h"

enum { STRINGS_MAX = 8000000 };

void
draft_init(struct draft *d)
{
	for (size_t i = 0; i < IMAGE_SECTIONS; i++) {
		enum image_section s = (enum image_section)i;
		buf_init(&d->table[i], image_record_max(s) * image_record_size(s));
	}
	map_init(&d->strings, STRINGS_MAX);
}

void
draft_done(struct draft *d)
{
	for (size_t i = 0; i < IMAGE_SECTIONS; i++)
		buf_done(&d->table[i]);
	map_done(&d->strings);
}

struct image_ref
draft_str(struct draft *d, struct str s)
{
	struct buf *b = &d->table[IMAGE_STRINGS];
	uintptr_t have = (uintptr_t)map_get(&d->strings, s);

	if (have == 0) {
		have = b->len + 1;
		if (map_put(&d->strings, s, (void *)have) != ST_OK && b->st == ST_OK)
			b->st = ST_NOMEM;
		buf_put(b, s);
	}
	return (struct image_ref){ (uint32_t)(have - 1), (uint32_t)s.n };
}

uint32_t
draft_count(const struct draft *d, enum image_section s)
{
	return (uint32_t)(d->table[s].len / image_record_size(s));
}

uint32_t
draft_add(struct draft *d, enum image_section s, const void *record)
{
	uint32_t index = draft_count(d, s);

	buf_put(&d->table[s], str_of(record, image_record_size(s)));
	return index;
}

void *
draft_table(struct draft *d, enum image_section s)
{
	return d->table[s].p;
}

struct entry { /* one pattern of one rule, on its way into the index */
	uint32_t policy, rule;
	struct image_ref name;
	uint8_t state, is_allow;
};

static int
compare_entries(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->policy != b->policy)
		return a->policy < b->policy ? -1 : 1;
	if (a->state != b->state)
		return a->state < b->state ? -1 : 1;
	if (a->name.offset != b->name.offset) /* strings are stored once */
		return a->name.offset < b->name.offset ? -1 : 1;
	if (a->is_allow != b->is_allow)
		return a->is_allow < b->is_allow ? -1 : 1;
	return (a->rule > b->rule) - (a->rule < b->rule);
}

static bool
is_same_slot(const struct entry *a, const struct entry *b)
{
	return a->policy == b->policy && a->state == b->state &&
	       a->name.offset == b->name.offset && a->name.length == b->name.length;
}

static size_t
collect(struct draft *d, struct entry *entries)
{
	const struct image_rule *r = draft_table(d, IMAGE_RULES);
	const struct image_pattern *p = draft_table(d, IMAGE_PATTERNS);
	size_t n = 0;

	for (uint32_t i = 0; i < draft_count(d, IMAGE_RULES); i++)
		for (uint32_t k = r[i].hosts; k < r[i].hosts + r[i].hosts_n; k++)
			entries[n++] = (struct entry){
				.policy = r[i].policy,
				.rule = i,
				.name = p[k].name,
				.state = p[k].is_wild ? SLOT_WILD : SLOT_EXACT,
				.is_allow = !r[i].is_deny,
			};
	return n;
}

static uint64_t
hash_of(const struct draft *d, const struct entry *e)
{
	const char *name = d->table[IMAGE_STRINGS].p + e->name.offset;
	uint64_t h = image_hash_start(e->policy);

	for (uint32_t i = e->name.length; i > 0; i--)
		h = image_hash_feed(h, name[i - 1]);
	return image_hash_end(h, e->state);
}

static void
insert(struct draft *d, struct image_slot *slots, size_t slots_n, const struct entry *e,
       size_t same)
{
	size_t at = hash_of(d, e) & (slots_n - 1);

	while (slots[at].state != SLOT_EMPTY)
		at = (at + 1) & (slots_n - 1);
	slots[at].state = e->state;
	slots[at].policy = e->policy;
	slots[at].name = e->name;
	slots[at].first = draft_count(d, IMAGE_POSTINGS);
	slots[at].n = (uint32_t)same;
	for (size_t i = 0; i < same; i++)
		(void)draft_add(d, IMAGE_POSTINGS, &e[i].rule);
}

/* Rules of a connector share their hosts, so there may be more than patterns. */
static size_t
count_hosts(struct draft *d)
{
	const struct image_rule *r = draft_table(d, IMAGE_RULES);
	size_t n = 0;

	for (uint32_t i = 0; i < draft_count(d, IMAGE_RULES); i++)
		n += r[i].hosts_n;
	return n;
}

static enum status
index_hosts(struct draft *d)
{
	size_t most = count_hosts(d), slots_n = 16;

	while (slots_n < most * 2 && slots_n <= image_record_max(IMAGE_SLOTS))
		slots_n *= 2;
	if (slots_n > image_record_max(IMAGE_SLOTS))
		return ST_TOO_BIG;
	struct entry *entries = calloc(most + 1, sizeof *entries);
	struct image_slot *slots = calloc(slots_n, sizeof *slots);
	if (entries == NULL || slots == NULL) {
		free(entries);
		free(slots);
		return ST_NOMEM;
	}
	size_t n = collect(d, entries);
	need(n <= most);
	qsort(entries, n, sizeof *entries, compare_entries);
	for (size_t i = 0, same; i < n; i += same) {
		for (same = 1;
		     i + same < n && is_same_slot(&entries[i], &entries[i + same]);)
			same++;
		insert(d, slots, slots_n, &entries[i], same);
	}
	buf_put(&d->table[IMAGE_SLOTS], str_of(slots, slots_n * sizeof *slots));
	free(entries);
	free(slots);
	return ST_OK;
}

static int
compare_sources(const void *left, const void *right)
{
	const struct image_source *a = left, *b = right;

	return memcmp(&a->addr, &b->addr, sizeof a->addr);
}

static void
index_sources(struct draft *d)
{
	const struct image_sandbox *s = draft_table(d, IMAGE_SANDBOXES);
	const struct addr *addrs = draft_table(d, IMAGE_ADDRS);
	uint32_t n = draft_count(d, IMAGE_SANDBOXES);

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < s[i].sources_n; k++) {
			struct image_source one = { .addr = addrs[s[i].sources + k],
						    .sandbox = i };
			(void)draft_add(d, IMAGE_SOURCES, &one);
		}
	if (draft_count(d, IMAGE_SOURCES) == 0)
		return;
	qsort(draft_table(d, IMAGE_SOURCES), draft_count(d, IMAGE_SOURCES),
	      sizeof(struct image_source), compare_sources);
}

static size_t
round_up(size_t n)
{
	return (n + 7) / 8 * 8;
}

enum status
draft_write(struct draft *d, struct buf *b)
{
	struct image_header h = { .magic = IMAGE_MAGIC,
				  .version = IMAGE_VERSION,
				  .sections = IMAGE_SECTIONS };
	size_t at = round_up(sizeof h);

	/* What a table has lost, another still counts on. */
	for (size_t i = 0; i < IMAGE_SECTIONS; i++)
		if (d->table[i].st != ST_OK)
			return d->table[i].st;
	enum status st = index_hosts(d);
	if (st != ST_OK)
		return st;
	index_sources(d);
	for (size_t i = 0; i < IMAGE_SECTIONS; i++) {
		enum image_section s = (enum image_section)i;
		if (d->table[i].st != ST_OK)
			return d->table[i].st;
		h.section[i] = (struct image_extent){ at, draft_count(d, s),
						      (uint32_t)image_record_size(s) };
		at += round_up(d->table[i].len);
	}
	h.size = at;
	buf_put(b, str_of(&h, sizeof h));
	for (size_t i = 0; i < IMAGE_SECTIONS; i++) {
		while (b->st == ST_OK && b->len % 8 != 0)
			buf_putc(b, '\0');
		buf_put(b, str_of(d->table[i].p, d->table[i].len));
	}
	while (b->st == ST_OK && b->len % 8 != 0)
		buf_putc(b, '\0');
	return b->st;
}

static enum status
write_all(int fd, struct str s)
{
	while (s.n > 0) {
		ssize_t n = write(fd, s.p, s.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return ST_SYSTEM;
		s = str_skip(s, (size_t)n);
	}
	return ST_OK;
}

enum status
draft_seal(struct draft *d, int *ret_memfd)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str bytes = STR("");

	buf_init(&b, UINT32_MAX);
	enum status st = draft_write(d, &b);
	if (st == ST_OK)
		st = buf_finish(&b, &bytes);
	if (st != ST_OK)
		return st;
	int fd = memfd_create("sandgate-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return ST_SYSTEM;
	if (write_all(fd, bytes) != ST_OK ||
	    fcntl(fd, F_ADD_SEALS,
		  F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
		(void)close(fd);
		return ST_SYSTEM;
	}
	*ret_memfd = fd;
	return ST_OK;
}
