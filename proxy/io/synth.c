#include "proxy/io/synth.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/base/num.h"

/* One slot: name_len is stored last, with release order.  0: free. */
struct slot {
	uint8_t name_len;
	char name[SYNTH_NAME_MAX];
	uint8_t unused[2];
};

/*
 * One sandbox: an entry of a table with open addressing.  version is odd while the
 * entry changes hands; a name added meanwhile needs no new version.
 */
struct group {
	uint32_t version;
	uint32_t used; /* slots given out; the writer's business alone */
	uint64_t hash; /* of the id; GROUP_FREE, GROUP_GONE or larger */
	uint8_t id_len;
	char id[SYNTH_ID_MAX];
	uint8_t unused[8];
};

enum { GROUP_FREE = 0, GROUP_GONE = 1 };

_Static_assert(sizeof(struct group) * SYNTH_SANDBOXES % 65536 == 0 &&
		       sizeof(struct slot) * SYNTH_SLOTS % 65536 == 0,
	       "the slots of a sandbox are whole pages");

struct table { /* what lies in the memfd; pages come into being when they are written */
	struct group groups[SYNTH_SANDBOXES];
	struct slot slots[SYNTH_SANDBOXES][SYNTH_SLOTS];
};

struct synth {
	struct table *t;
	bool writable;
};

static const uint8_t range6[8] = { 0xfd, 0x5a, 0x67, 0x61, 0x74, 0x65, 0, 0 };

static bool
memfd_prepare(int fd)
{
	return ftruncate(fd, sizeof(struct table)) == 0 &&
	       fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

/* The same file, opened anew: a duplicate would be writable too. */
static int
reopen_read_only(int fd)
{
	char path[32];
	int n = snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);

	need(n > 0 && (size_t)n < sizeof(path));
	return open(path, O_RDONLY | O_CLOEXEC);
}

enum status
synth_create(int *ret_write_fd, int *ret_read_fd)
{
	int fd = memfd_create("sandgate-synth", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int read_fd = -1;

	if (fd == -1)
		return ST_SYSTEM;
	if (memfd_prepare(fd))
		read_fd = reopen_read_only(fd);
	if (read_fd == -1) {
		close(fd);
		return ST_SYSTEM;
	}
	*ret_write_fd = fd;
	*ret_read_fd = read_fd;
	return ST_OK;
}

static struct slot *
slots_of(const struct synth *s, const struct group *g)
{
	return s->t->slots[g - s->t->groups];
}

static void
version_step(struct group *g)
{
	/* Between two steps the version is odd; the fences keep the writes between
	 * them. */
	__atomic_store_n(&g->version, g->version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void
group_clear(struct synth *s, struct group *g)
{
	if (g->version % 2 == 0)
		version_step(g);
	/* Its pages go back to the system; they read as zero from now on. */
	if (madvise(slots_of(s, g), sizeof(s->t->slots[0]), MADV_REMOVE) == -1)
		memset(slots_of(s, g), 0, sizeof(s->t->slots[0]));
	g->used = 0;
	g->id_len = 0;
	g->hash = GROUP_GONE;
	version_step(g);
}

/* A writer that was killed while a group changed hands left its version odd. */
static void
mend(struct synth *s)
{
	for (size_t i = 0; i < SYNTH_SANDBOXES; i++)
		if (s->t->groups[i].version % 2 != 0)
			group_clear(s, &s->t->groups[i]);
}

enum status
synth_open(int memfd, bool writable, struct synth **ret_s)
{
	struct stat sb;
	struct synth *s;
	void *p;

	if (fstat(memfd, &sb) == -1 || sb.st_size != sizeof(struct table) ||
	    (fcntl(memfd, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
		return ST_BAD_MESSAGE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return ST_NOMEM;
	p = mmap(NULL, sizeof(struct table),
		 writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, memfd, 0);
	if (p == MAP_FAILED) {
		free(s);
		return ST_SYSTEM;
	}
	s->t = p;
	s->writable = writable;
	if (writable)
		mend(s);
	*ret_s = s;
	return ST_OK;
}

void
synth_close(struct synth *s)
{
	if (!s)
		return;
	munmap(s->t, sizeof(struct table));
	free(s);
}

/* The number behind 198.18.0.1 or fd5a:6761:7465::1; false outside of both ranges. */
static bool
address_offset(const struct addr *a, uint64_t *ret_offset)
{
	if (a->family == 4) {
		*ret_offset = num_be32(a->b) - 0xc6120001u;
		return (num_be32(a->b) & 0xfffe0000u) == 0xc6120000u;
	}
	if (a->family != 6 || memcmp(a->b, range6, sizeof(range6)) != 0)
		return false;
	*ret_offset = num_be64(a->b + 8) - 1;
	return true;
}

bool
synth_is_address(const struct addr *a)
{
	uint64_t offset;

	return address_offset(a, &offset);
}

struct addr
synth_address(uint16_t slot, uint8_t family)
{
	struct addr a = { .family = family };
	uint32_t n = slot + 1u;

	need(slot < SYNTH_SLOTS && (family == 4 || family == 6));
	if (family == 4) {
		a.b[0] = 198;
		a.b[1] = 18;
		a.b[2] = (uint8_t)(n >> 8);
		a.b[3] = (uint8_t)n;
	} else {
		memcpy(a.b, range6, sizeof(range6));
		a.b[14] = (uint8_t)(n >> 8);
		a.b[15] = (uint8_t)n;
	}
	return a;
}

static uint64_t
id_hash(struct str id)
{
	uint64_t h = num_hash(id, 0);

	return h > GROUP_GONE ? h : h + 2;
}

static bool
group_is(const struct group *g, uint64_t hash, struct str id)
{
	return __atomic_load_n(&g->hash, __ATOMIC_RELAXED) == hash &&
	       g->id_len == id.n && memcmp(g->id, id.p, id.n) == 0;
}

/* The group of this id; NULL with the first place for a new one (which may be NULL). */
static struct group *
group_find(const struct synth *s, struct str id, struct group **ret_place)
{
	uint64_t hash = id_hash(id);
	size_t place = SYNTH_SANDBOXES;
	struct group *groups = s->t->groups, *found = NULL;

	for (size_t i = 0; i < SYNTH_SANDBOXES && !found; i++) {
		size_t at = (hash + i) % SYNTH_SANDBOXES;
		uint64_t h = __atomic_load_n(&groups[at].hash, __ATOMIC_RELAXED);

		if (place == SYNTH_SANDBOXES && h <= GROUP_GONE)
			place = at;
		if (h == GROUP_FREE)
			break;
		if (group_is(&groups[at], hash, id))
			found = &groups[at];
	}
	if (ret_place)
		*ret_place = place < SYNTH_SANDBOXES ? &groups[place] : NULL;
	return found;
}

static void
group_take(struct group *g, struct str id)
{
	version_step(g);
	memcpy(g->id, id.p, id.n);
	g->id_len = (uint8_t)id.n;
	g->used = 1; /* slot 0 */
	__atomic_store_n(&g->hash, id_hash(id), __ATOMIC_RELAXED);
	version_step(g);
}

static bool
slot_is(const struct slot *slot, struct str name)
{
	return slot->name_len == name.n && memcmp(slot->name, name.p, name.n) == 0;
}

static enum status
slot_assign(struct synth *s, struct group *g, struct str name, uint16_t *ret_slot)
{
	struct slot *slots = slots_of(s, g);
	uint64_t hash = num_hash(name, 0);

	for (size_t i = 0; i < SYNTH_SLOTS - 1; i++) {
		uint16_t n = (uint16_t)(1 + (hash + i) % (SYNTH_SLOTS - 1));

		if (slots[n].name_len == 0) {
			memcpy(slots[n].name, name.p, name.n);
			__atomic_store_n(&slots[n].name_len, (uint8_t)name.n,
					 __ATOMIC_RELEASE);
			g->used++;
		}
		if (slot_is(&slots[n], name)) {
			*ret_slot = n;
			return ST_OK;
		}
	}
	return ST_TOO_BIG;
}

enum status
synth_assign(struct synth *s, struct str sandbox, struct str name, uint16_t *ret_slot)
{
	struct group *g, *place;

	need(s->writable);
	if (sandbox.n == 0 || sandbox.n > SYNTH_ID_MAX || name.n == 0 ||
	    name.n > SYNTH_NAME_MAX)
		return ST_TOO_BIG;
	if (str_eq(name, STR(SYNTH_PAGES_NAME))) {
		*ret_slot = 0;
		return ST_OK;
	}
	g = group_find(s, sandbox, &place);
	if (!g && !place)
		return ST_TOO_BIG;
	if (!g) {
		g = place;
		group_take(g, sandbox);
	}
	return slot_assign(s, g, name, ret_slot);
}

void
synth_forget(struct synth *s, struct str sandbox)
{
	struct group *g = group_find(s, sandbox, NULL);

	need(s->writable);
	if (g)
		group_clear(s, g);
}

bool
synth_next(const struct synth *s, size_t *at, struct str *ret_sandbox)
{
	for (; *at < SYNTH_SANDBOXES; (*at)++) {
		const struct group *g = &s->t->groups[*at];

		if (g->hash > GROUP_GONE) {
			*ret_sandbox = str_of(g->id, g->id_len);
			(*at)++;
			return true;
		}
	}
	return false;
}

/* Copy the name out; its length, or 0. */
static size_t
slot_copy(const struct slot *slot, char *space)
{
	size_t n = __atomic_load_n(&slot->name_len, __ATOMIC_ACQUIRE);

	if (n > SYNTH_NAME_MAX)
		return 0;
	memcpy(space, slot->name, n);
	return n;
}

enum status
synth_find(const struct synth *s, struct str sandbox, const struct addr *a, char *space,
	   struct str *ret_name)
{
	const struct group *g;
	uint32_t version;
	uint64_t offset;
	size_t n;

	if (!address_offset(a, &offset) || offset >= SYNTH_SLOTS)
		return ST_NOT_FOUND;
	if (offset == 0) {
		*ret_name = STR(SYNTH_PAGES_NAME);
		return ST_OK;
	}
	g = group_find(s, sandbox, NULL);
	if (!g)
		return ST_NOT_FOUND;
	version = __atomic_load_n(&g->version, __ATOMIC_ACQUIRE);
	if (version % 2 != 0 || !group_is(g, id_hash(sandbox), sandbox))
		return ST_NOT_FOUND;
	n = slot_copy(&slots_of(s, g)[offset], space);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (n == 0 || __atomic_load_n(&g->version, __ATOMIC_RELAXED) != version)
		return ST_NOT_FOUND;
	*ret_name = str_of(space, n);
	return ST_OK;
}
