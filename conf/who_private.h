#ifndef CONF_WHO_PRIVATE_H
#define CONF_WHO_PRIVATE_H
/* who_private: the table, for who.c (statics, grants, questions) and who_attached.c (those
 * that come while the gateway runs). */
#include "conf/who.h"
#include "proxy/base/map.h"

struct attached {
	struct who who; /* its strings lie in text */
	struct str policy;
	struct addr sources[WHO_SOURCES];
	struct narrow *narrow; /* NULL: nothing is narrowed */
	char *text;
};

struct grant {
	uint64_t cookie;
	uint32_t handle;
};

struct who_table {
	const struct image *image;
	struct who *statics; /* one per sandbox of the image */
	size_t statics_n;
	struct map by_handle, by_cookie,
		by_source;    /* struct attached; by_handle owns */
	struct map granted;   /* socket cookie to its grant */
	struct grant *grants; /* a ring of GRANTS_MAX */
	size_t grants_next;
	uint64_t own_netns; /* 0: the kernel doesn't tell */
};

static inline struct str
who_key(const void *p, size_t n)
{
	return str_of(p, n);
}

void who_attached_free(struct attached *a);
/* The one that has this source address; NULL: none.  Static ones go before. */
const struct attached *who_attached_at(const struct who_table *t, const struct addr *a);

#endif
