#ifndef CONF_BUILD_EXEC_H
#define CONF_BUILD_EXEC_H
/* build_exec: the parts of `exec`.  Private to conf/. */
#include "conf/build_connector.h"

enum { EXEC_GLOB_MAX = 256 };

/* Reports what is wrong with key and value and returns false. */
typedef bool (*build_pair_fn)(struct build *b, const struct node *n);
/* A mapping to words, a key and its value by turns. */
void build_pairs(struct build *b, const struct node *map, build_pair_fn fn,
		 uint32_t *ret_first, uint32_t *ret_n);
bool build_label(struct build *b, const struct node *n); /* a build_pair_fn */

/* A glob without blanks, as a word; a build_field_fn, as is the next: any text. */
void build_glob(struct build *b, const struct node *n, void *ctx);
void build_text(struct build *b, const struct node *n, void *ctx);

/* A connector that the gateway calls for itself; false when something was reported. */
bool build_own_connector(struct build *b, const struct node *n, uint32_t *ret_index);
/* No server is of this tier: that is told. */
void build_tier_check(struct build *b, const struct node *n, uint8_t tier);

void build_placements(struct build *b, const struct node *n);
void build_warms(struct build *b, const struct node *n);
void build_jwts(struct build *b, const struct node *n);

#endif
