#ifndef CONF_DRAFT_H
#define CONF_DRAFT_H
/*
 * draft: an image while it is being written: one growing table per section, strings
 * stored once.  Failures stick (a table at its limit, no memory) and show at
 * draft_seal(); until then a caller adds straight through.
 */
#include "conf/image_format.h"
#include "proxy/base/map.h"

struct draft {
	struct buf table[IMAGE_SECTIONS];
	struct map strings; /* to 1 + offset, as a pointer */
};

void draft_init(struct draft *d);
void draft_done(struct draft *d);

struct image_ref draft_str(struct draft *d, struct str s);
/* Adds one record of the section's size; returns its index. */
uint32_t draft_add(struct draft *d, enum image_section s, const void *record);
/* As many as there are now: the index that the next one gets. */
uint32_t draft_count(const struct draft *d, enum image_section s);
/* The records; valid until the next draft_add() to the same section. */
void *draft_table(struct draft *d, enum image_section s);

/*
 * Build the indexes, write everything into a memfd and seal it.  The rules of a policy
 * must stand together, loose ones first; SANDBOXES, POLICIES and NAMES sorted by name.
 */
enum status draft_seal(struct draft *d, int *ret_memfd) MUSTCHECK;
/* As above, but only the bytes. */
enum status draft_write(struct draft *d, struct buf *b) MUSTCHECK;

#endif
