#include "proxy/dialer/geo.h"

#include <errno.h>
#include <maxminddb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	FILE_MAX = 1 << 30,
	METADATA_MAX = 128 * 1024, /* it begins within the last 128 KiB of the file */
	SEPARATOR = 16,            /* zero octets between tree and data */
	DATA_MIN = 3, /* the library reads a control word before it checks */
};

struct geo {
	void *map;
	size_t size;
	MMDB_s db;
};

static enum status
read_whole(int fd, void *to, size_t size)
{
	size_t got = 0;

	while (got < size) {
		ssize_t n = pread(fd, (char *)to + got, size - got, (off_t)got);
		if (n == -1 && errno == EINTR)
			continue;
		if (n <= 0)
			return ST_SYSTEM;
		got += (size_t)n;
	}
	return ST_OK;
}

static enum status
load(struct geo *g, int fd)
{
	struct stat sb;

	if (fstat(fd, &sb) == -1)
		return ST_SYSTEM;
	if (sb.st_size <= SEPARATOR || sb.st_size > FILE_MAX)
		return ST_BAD_CONFIG;
	void *map = mmap(NULL, (size_t)sb.st_size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return ST_NOMEM;
	g->map = map;
	g->size = (size_t)sb.st_size;
	return read_whole(fd, g->map, g->size);
}

/* Behind the last marker near the end of the file. */
static bool
find_metadata(const struct geo *g, struct str *ret_metadata)
{
	static const char marker[] = "\xab\xcd\xef"
				     "MaxMind.com";
	size_t marker_n = sizeof(marker) - 1;
	struct str tail = str_of(g->map, g->size);

	if (tail.n > METADATA_MAX)
		tail = str_skip(tail, tail.n - METADATA_MAX);
	if (tail.n < marker_n)
		return false;
	for (size_t at = tail.n - marker_n + 1; at-- > 0;) {
		if (memcmp(tail.p + at, marker, marker_n) != 0)
			continue;
		*ret_metadata = str_skip(tail, at + marker_n);
		return ret_metadata->n >= DATA_MIN;
	}
	return false;
}

static bool
read_number(MMDB_s *db, const char *key, uint64_t *ret_v)
{
	MMDB_entry_s start = { .mmdb = db, .offset = 0 };
	MMDB_entry_data_s data;
	const char *const path[] = { key, NULL };

	if (MMDB_aget_value(&start, &data, path) != MMDB_SUCCESS || !data.has_data)
		return false;
	switch (data.type) {
	case MMDB_DATA_TYPE_UINT16:
		*ret_v = data.uint16;
		return true;
	case MMDB_DATA_TYPE_UINT32:
		*ret_v = data.uint32;
		return true;
	case MMDB_DATA_TYPE_UINT64:
		*ret_v = data.uint64;
		return true;
	default:
		return false;
	}
}

/* The tree must lie inside the file, with room for data behind it. */
static bool
place_sections(struct geo *g, uint64_t nodes, uint64_t record_bits)
{
	uint64_t tree = nodes * (record_bits / 4);

	if (nodes > UINT32_MAX || g->size < SEPARATOR + DATA_MIN ||
	    tree > g->size - SEPARATOR - DATA_MIN)
		return false;
	g->db.metadata.node_count = (uint32_t)nodes;
	g->db.metadata.record_size = (uint16_t)record_bits;
	g->db.full_record_byte_size = (uint16_t)(record_bits / 4);
	g->db.data_section = g->db.file_content + tree + SEPARATOR;
	g->db.data_section_size = (uint32_t)(g->size - tree - SEPARATOR);
	return true;
}

static bool
read_metadata(struct geo *g)
{
	struct str metadata;
	uint64_t nodes = 0, bits = 0, version = 0, major = 0;

	if (!find_metadata(g, &metadata))
		return false;
	/* Metadata is one map, coded like the data: read it as a data section. */
	MMDB_s fake = {
		.data_section = (const uint8_t *)metadata.p,
		.data_section_size = (uint32_t)metadata.n,
	};
	if (!read_number(&fake, "node_count", &nodes) ||
	    !read_number(&fake, "record_size", &bits) ||
	    !read_number(&fake, "ip_version", &version) ||
	    !read_number(&fake, "binary_format_major_version", &major))
		return false;
	if (major != 2 || (bits != 24 && bits != 28 && bits != 32) ||
	    (version != 4 && version != 6))
		return false;
	g->db.file_content = g->map;
	g->db.file_size = (ssize_t)g->size;
	g->db.metadata_section = (const uint8_t *)metadata.p;
	g->db.metadata_section_size = (uint32_t)metadata.n;
	g->db.metadata.ip_version = (uint16_t)version;
	g->db.metadata.binary_format_major_version = 2;
	g->db.depth = version == 4 ? 32 : 128;
	return place_sections(g, nodes, bits);
}

enum status
geo_open(int fd, struct geo **ret_g)
{
	struct geo *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return ST_NOMEM;
	enum status st = load(g, fd);
	if (st == ST_OK && !read_metadata(g))
		st = ST_BAD_CONFIG;
	if (st != ST_OK) {
		geo_close(g);
		return st;
	}
	*ret_g = g;
	return ST_OK;
}

void
geo_close(struct geo *g)
{
	if (g == NULL)
		return;
	if (g->map != NULL)
		(void)munmap(g->map, g->size);
	free(g);
}

static bool
look_up(const struct geo *g, const struct addr *a, MMDB_entry_s *ret_entry)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };
	const struct sockaddr *sa = (const struct sockaddr *)&sin6;
	int error = MMDB_SUCCESS;

	if (g->db.metadata.ip_version == 4) {
		if (a->family != 4)
			return false;
		memcpy(&sin.sin_addr, a->b, 4);
		sa = (const struct sockaddr *)&sin;
	} else if (a->family == 4) {
		/* IPv4 lies at ::/96 of the tree: walked from the root, no start node
		 * need be known. */
		memcpy(sin6.sin6_addr.s6_addr + 12, a->b, 4);
	} else {
		memcpy(sin6.sin6_addr.s6_addr, a->b, 16);
	}
	MMDB_lookup_result_s found = MMDB_lookup_sockaddr(&g->db, sa, &error);
	if (error != MMDB_SUCCESS || !found.found_entry)
		return false;
	*ret_entry = found.entry;
	return true;
}

void
geo_country(const struct geo *g, const struct addr *a, char ret_code[3])
{
	static const char *const path[] = { "country", "iso_code", NULL };
	MMDB_entry_s entry;
	MMDB_entry_data_s data;

	ret_code[0] = ret_code[1] = ret_code[2] = '\0';
	if (g == NULL || !look_up(g, a, &entry) ||
	    MMDB_aget_value(&entry, &data, path) != MMDB_SUCCESS || !data.has_data ||
	    data.type != MMDB_DATA_TYPE_UTF8_STRING || data.data_size != 2)
		return;
	if (ascii_is_alpha(data.utf8_string[0]) && ascii_is_alpha(data.utf8_string[1]))
		memcpy(ret_code, data.utf8_string, 2);
}

uint32_t
geo_asn(const struct geo *g, const struct addr *a)
{
	static const char *const path[] = { "autonomous_system_number", NULL };
	MMDB_entry_s entry;
	MMDB_entry_data_s data;

	if (g == NULL || !look_up(g, a, &entry) ||
	    MMDB_aget_value(&entry, &data, path) != MMDB_SUCCESS || !data.has_data ||
	    data.type != MMDB_DATA_TYPE_UINT32)
		return 0;
	return data.uint32;
}
