#include "conf/image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/image_format.h"
#include "conf/policy.h"

enum { SEALS = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK };

struct image {
	const struct image_header *head; /* the mapping */
	size_t size;
};

#define SECTION(name, type, max) { sizeof(type), (max) },
static const struct {
	size_t size, max;
} records[IMAGE_SECTIONS] = {
#include "conf/sections.def"
};
#undef SECTION

size_t
image_record_size(enum image_section s)
{
	return records[s].size;
}

size_t
image_record_max(enum image_section s)
{
	return records[s].max;
}

const void *
image_table(const struct image *im, enum image_section s, size_t *ret_n)
{
	const struct image_extent *e = &im->head->section[s];

	*ret_n = e->count;
	return (const char *)im->head + e->offset;
}

static bool
extent_fits(const struct image_extent *e, enum image_section s, size_t size)
{
	return e->each == records[s].size && e->count <= records[s].max &&
	       e->offset % 8 == 0 && e->offset >= sizeof(struct image_header) &&
	       e->offset <= size && e->count <= (size - e->offset) / e->each;
}

static enum status
check_header(const struct image *im)
{
	const struct image_header *h = im->head;

	if (memcmp(h->magic, IMAGE_MAGIC, sizeof h->magic) != 0 ||
	    h->version != IMAGE_VERSION || h->sections != IMAGE_SECTIONS ||
	    h->size != im->size)
		return ST_BAD_MESSAGE;
	for (size_t i = 0; i < IMAGE_SECTIONS; i++)
		if (!extent_fits(&h->section[i], (enum image_section)i, im->size))
			return ST_BAD_MESSAGE;
	return image_check(im);
}

enum status
image_open(int memfd, struct image **ret_im)
{
	struct stat sb;
	int seals = fcntl(memfd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(memfd, &sb) != 0 ||
	    sb.st_size < (off_t)sizeof(struct image_header) || sb.st_size > UINT32_MAX)
		return ST_BAD_MESSAGE;
	struct image *im = calloc(1, sizeof *im);
	if (im == NULL)
		return ST_NOMEM;
	im->size = (size_t)sb.st_size;
	void *map = mmap(NULL, im->size, PROT_READ, MAP_SHARED, memfd, 0);
	if (map == MAP_FAILED) {
		free(im);
		return ST_NOMEM;
	}
	im->head = map;
	enum status st = check_header(im);
	if (st != ST_OK) {
		image_close(im);
		return st;
	}
	*ret_im = im;
	return ST_OK;
}

void
image_close(struct image *im)
{
	if (im == NULL)
		return;
	union {
		const void *in;
		void *out;
	} map = { .in = im->head };
	(void)munmap(map.out, im->size);
	free(im);
}

struct str
image_str(const struct image *im, struct image_ref ref)
{
	const struct image_extent *e = &im->head->section[IMAGE_STRINGS];

	/* Refs of records were checked at opening; one that a caller made up is not. */
	if (ref.offset > e->count || ref.length > e->count - ref.offset)
		return STR("");
	return str_of((const char *)im->head + e->offset + ref.offset, ref.length);
}

static const struct image_option *
option(const struct image *im, enum option opt)
{
	size_t n;
	const struct image_option *o = image_table(im, IMAGE_OPTIONS, &n);

	need((size_t)opt < n);
	return &o[opt];
}

uint64_t
image_number(const struct image *im, enum option opt)
{
	return option(im, opt)->number;
}

bool
image_flag(const struct image *im, enum option opt)
{
	return option(im, opt)->number != 0;
}

struct str
image_text(const struct image *im, enum option opt)
{
	return image_str(im, option(im, opt)->text);
}

const struct image_admin *
image_admins(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_ADMINS, ret_n);
}

const struct image_listener *
image_listeners(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_LISTENERS, ret_n);
}

const struct image_listener *
image_listener_by_name(const struct image *im, struct str name)
{
	size_t n;
	const struct image_listener *l = image_listeners(im, &n);

	for (size_t i = 0; i < n; i++)
		if (str_eq(image_str(im, l[i].name), name))
			return &l[i];
	return NULL;
}

const struct image_listener *
image_listener_of_sandbox(const struct image *im, struct str id)
{
	size_t n;
	const struct image_listener *l = image_listeners(im, &n);

	for (size_t i = 0; i < n; i++)
		if (id.n > 0 && str_eq(image_str(im, l[i].sandbox), id))
			return &l[i];
	return NULL;
}

const struct image_sandbox *
image_sandboxes(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_SANDBOXES, ret_n);
}

const struct image_policy *
image_policies(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_POLICIES, ret_n);
}

const struct image_rule *
image_rules(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_RULES, ret_n);
}

const struct image_connector *
image_connectors(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_CONNECTORS, ret_n);
}

const struct image_header_line *
image_headers(const struct image *im, uint32_t first)
{
	size_t n;
	const struct image_header_line *h = image_table(im, IMAGE_HEADERS, &n);

	need(first <= n);
	return h + first;
}

struct str
image_word(const struct image *im, uint32_t index)
{
	size_t n;
	const struct image_ref *w = image_table(im, IMAGE_WORDS, &n);

	return index < n ? image_str(im, w[index]) : STR("");
}

const struct image_store *
image_stores(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_STORES, ret_n);
}

const struct image_store_item *
image_store_items(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_STORE_ITEMS, ret_n);
}

const struct image_store_item *
image_store_item_by_name(const struct image *im, struct str name)
{
	size_t n;
	const struct image_store_item *of = image_store_items(im, &n);

	for (size_t i = 0; i < n; i++)
		if (str_eq(image_str(im, of[i].name), name))
			return &of[i];
	return NULL;
}

const struct image_store *
image_store_of(const struct image *im, uint32_t connector)
{
	size_t n;
	const struct image_store *of = image_stores(im, &n);

	for (size_t i = 0; i < n; i++)
		if (of[i].connector == connector)
			return &of[i];
	return NULL;
}

bool
image_is_store_name(const struct image *im, struct str secret)
{
	size_t n;
	const struct image_store *of = image_stores(im, &n);
	struct str first = str_cut(&secret, '/');

	for (size_t i = 0; i < n && secret.p != NULL; i++)
		if (str_eq(image_str(im, of[i].name), first))
			return true;
	return false;
}

const struct image_limits *
image_limits(const struct image *im, uint32_t index)
{
	size_t n;
	const struct image_limits *l = image_table(im, IMAGE_LIMITS, &n);

	/* An index from an older generation must not reach outside: the defaults. */
	return index < n ? &l[index] : &l[0];
}

const struct image_server *
image_resolvers(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_RESOLVERS, ret_n);
}

static int
compare(struct str a, struct str b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n == 0 ? 0 : memcmp(a.p, b.p, n);

	return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}

/* Binary search; the tables that are looked up by name are sorted by it, and the
 * name is the first member of their records. */
static size_t
find_by_name(const struct image *im, enum image_section s, struct str name)
{
	size_t n, low = 0;
	const char *table = image_table(im, s, &n);
	size_t high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		struct image_ref ref;
		memcpy(&ref, table + mid * records[s].size, sizeof ref);
		int c = compare(image_str(im, ref), name);
		if (c == 0)
			return mid;
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return SIZE_MAX;
}

const struct addr *
image_host_addrs(const struct image *im, struct str name, size_t *ret_n)
{
	size_t names_n, addrs_n;
	const struct image_name *names = image_table(im, IMAGE_NAMES, &names_n);
	const struct addr *addrs = image_table(im, IMAGE_ADDRS, &addrs_n);
	size_t i = find_by_name(im, IMAGE_NAMES, name);

	*ret_n = i == SIZE_MAX ? 0 : names[i].addrs_n;
	return i == SIZE_MAX ? addrs : addrs + names[i].addrs;
}

uint32_t
image_policy_by_name(const struct image *im, struct str name)
{
	size_t i = find_by_name(im, IMAGE_POLICIES, name);

	return i == SIZE_MAX ? POLICY_NONE : (uint32_t)i;
}

uint32_t
image_connector_by_name(const struct image *im, struct str name)
{
	size_t i = find_by_name(im, IMAGE_CONNECTORS, name);

	return i == SIZE_MAX ? CONNECTOR_NONE : (uint32_t)i;
}

const struct image_sandbox *
image_sandbox_by_id(const struct image *im, struct str id)
{
	size_t n, i = find_by_name(im, IMAGE_SANDBOXES, id);
	const struct image_sandbox *s = image_sandboxes(im, &n);

	return i == SIZE_MAX ? NULL : &s[i];
}

const struct addr *
image_sources(const struct image *im, const struct image_sandbox *s, size_t *ret_n)
{
	size_t n;
	const struct addr *all = image_table(im, IMAGE_ADDRS, &n);

	*ret_n = s->sources_n;
	return all + s->sources;
}

const struct image_sandbox *
image_sandbox_by_source(const struct image *im, const struct addr *a)
{
	size_t n, sandboxes_n, low = 0;
	const struct image_source *sources = image_table(im, IMAGE_SOURCES, &n);
	struct addr want = { .family = a->family };

	/* IPv4 fills the first four bytes; what a caller left behind them is no part.
	 */
	memcpy(want.b, a->b, a->family == 4 ? 4 : 16);
	while (low < n) {
		size_t mid = low + (n - low) / 2;
		int c = memcmp(&sources[mid].addr, &want, sizeof want);
		if (c == 0)
			return &image_sandboxes(im, &sandboxes_n)[sources[mid].sandbox];
		if (c < 0)
			low = mid + 1;
		else
			n = mid;
	}
	return NULL;
}

void
image_put_rule(struct buf *b, const struct image *im, uint32_t rule)
{
	size_t n;
	const struct image_rule *r = image_rules(im, &n);

	if (rule >= n) {
		buf_putc(b, '-');
		return;
	}
	buf_put(b, image_str(im, r[rule].file));
	buf_putc(b, ':');
	buf_put_dec(b, r[rule].line);
}
