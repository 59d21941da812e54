#ifndef PROXY_FLOW_MULTIPART_TAP_H
#define PROXY_FLOW_MULTIPART_TAP_H
/*
 * multipart_tap: reads along with an upload of files to execd: pairs of parts called
 * "metadata" (JSON: path, owner, group, mode) and "file", the nth of one with the nth of
 * the other.  It keeps where each file was to go, its octets and their SHA-256.
 *
 * It only looks.  What is malformed, or would be read differently elsewhere, makes
 * is_unreadable: nothing behind it is read, and what was found till then is not all.  A
 * list that is full (MULTIPART_TAP_ROOM) makes is_cut; files and octets count on.
 */
#include "proxy/base/arena.h"
#include "proxy/base/jpick.h"
#include "proxy/flow/tally.h"
#include "proxy/http/multipart.h"

enum { MULTIPART_TAP_ROOM = 256 * 1024, MULTIPART_TAP_PATH = 4096 };

struct upload {
	struct upload *next;
	struct str path, owner,
		group; /* in the arena; decoded, perhaps with any octet */
	bool has_meta, has_file, has_mode;
	uint16_t mode; /* decimal digits that are meant as octal: 755 */
	uint64_t octets;
	uint8_t hash[TALLY_HASH];
};

struct multipart_tap {
	/* What was found. */
	struct upload *first; /* in the order of the parts */
	uint64_t files, octets;
	uint64_t largest; /* octets of one file, also of the one that still comes */
	uint64_t others;  /* parts of other names, which execd reads over */
	bool is_unreadable, is_cut;

	/* Its own. */
	struct upload *last, *meta_next, *file_next; /* NULL: a new one */
	struct arena arena;
	struct multipart parts;
	struct tally tally;
	uint8_t part;
	bool is_pick_over;
	struct jpick pick;
	size_t path_n;
	struct held owner, group, mode;
	char path[MULTIPART_TAP_PATH];
};

/* ST_BAD_HEADER: the type tells no boundary; nothing to be done then. */
enum status multipart_tap_init(struct multipart_tap *t,
			       struct str content_type) MUSTCHECK;
void multipart_tap_done(struct multipart_tap *t); /* safe on a zeroed one */
void multipart_tap_put(struct multipart_tap *t, struct str in);
/* The body is over; one that is cut, or files and places that don't pair, are told. */
void multipart_tap_end(struct multipart_tap *t);

#endif
