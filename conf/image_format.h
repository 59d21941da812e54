#ifndef CONF_IMAGE_FORMAT_H
#define CONF_IMAGE_FORMAT_H
/*
 * image_format: the bytes of an image, known to conf/ alone.
 *
 *	header | section 0 | section 1 | ...      each section starts at a multiple of 8
 *
 * Written and read by processes of one build on one machine, so records are the
 * structs themselves in host order; the size of each record is in the header, and an
 * image of another build does not open.
 *
 * SLOTS is a hash table over (policy, name, exact or wild): a question costs one probe
 * per label of the name, however many rules there are.  Its number is a power of two
 * and at most half of the slots are used.
 */
#include "conf/image.h"

struct image_option {
	uint64_t number;
	struct image_ref text;
};

struct image_source { /* whose an address is; sorted by address, each there once */
	struct addr addr;
	uint8_t gap[3];
	uint32_t sandbox;
};

struct image_name { /* resolver.hosts, sorted by name */
	struct image_ref name;
	uint32_t addrs, addrs_n;
};

struct image_pattern { /* one of a rule's hosts; "*." is cut off and is_wild set */
	struct image_ref name;
	uint8_t is_wild;
	uint8_t end[3];
};

struct image_ports {
	uint16_t low, high;
};

struct image_country {
	char code[4]; /* two letters, then NULs */
};

#define COND(name, key, help) COND_##name,
enum image_cond {
#include "conf/risk_conds.def"
	IMAGE_CONDS
};
#undef COND

/* A pattern's positions are bits of one word while it is matched. */
enum { RISK_PATTERN_MAX = 60 };

struct image_risk { /* a rule of `risk` */
	struct image_ref why, file;
	uint32_t line, column;
	uint8_t level; /* enum risk_level */
	uint8_t end[3];
	struct { /* words; none: the rule has no such condition */
		uint32_t first, n;
	} cond[IMAGE_CONDS];
};

enum { SLOT_EMPTY, SLOT_EXACT, SLOT_WILD };

struct image_slot {
	uint8_t state;
	uint8_t gap[3];
	uint32_t policy;
	struct image_ref name;
	uint32_t first, n; /* postings: rules, deny rules first */
};

#define SECTION(name, type, max) IMAGE_##name,
enum image_section {
#include "conf/sections.def"
	IMAGE_SECTIONS
};
#undef SECTION

enum { IMAGE_VERSION = 1 };
#define IMAGE_MAGIC "SGIMAGE1"

struct image_extent {
	uint64_t offset;
	uint32_t count, each;
};

struct image_header {
	char magic[8];
	uint32_t version, sections;
	uint64_t size;
	struct image_extent section[IMAGE_SECTIONS];
};

/* Size of one record of a section, and the most records. */
size_t image_record_size(enum image_section s);
size_t image_record_max(enum image_section s);

/* Records of a section; *ret_n how many. */
const void *image_table(const struct image *im, enum image_section s, size_t *ret_n);

/*
 * The hash of a name from its last byte to its first, so that the hash of each parent
 * domain falls off on the way: start with image_hash_start(), feed bytes right to left,
 * end with image_hash_end().
 */
uint64_t image_hash_start(uint32_t policy);
uint64_t image_hash_feed(uint64_t h, char c);
uint64_t image_hash_end(uint64_t h, uint8_t state);

/* The slot of (policy, name, state) given its hash, or NULL. */
const struct image_slot *image_find_slot(const struct image *im, uint64_t hash,
					 uint32_t policy, struct str name,
					 uint8_t state);

/* Every reference, range and number of a mapped image lies where it must. */
enum status image_check(const struct image *im) MUSTCHECK;

#endif
