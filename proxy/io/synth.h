#ifndef PROXY_IO_SYNTH_H
#define PROXY_IO_SYNTH_H
/*
 * synth: synthetic addresses.  A name that a `protocol: tcp` rule covers is answered
 * with an address of that sandbox's own, so that the original destination of the
 * connection that follows says which name was meant.
 *
 * One table in a memfd that super makes: the dns role writes, workers read, nobody asks
 * anybody.  Keyed by the sandbox's id, for handles change their meaning with a reload;
 * two sandboxes may have the same address for different names.
 *
 *	slot 0            the gateway's own pages, sandgate.internal, of every sandbox
 *	slot 1 .. SLOTS-1 names, placed by hash: the same name gets the same address
 *	address of slot n 198.18.0.1 + n  and  fd5a:6761:7465::1 + n
 *
 * A name stays until its sandbox is forgotten; a full sandbox gets no more names.
 * Readers trust nothing: they copy, check the length, and check that the sandbox's part
 * did not change meanwhile.  What they find is only a name: policy judges it like any.
 */
#include "proxy/base/addr.h"

enum {
	SYNTH_SANDBOXES = 4096, /* that may use tcp names at one time */
	SYNTH_SLOTS = 512,      /* of one sandbox */
	SYNTH_ID_MAX = 231,     /* bytes of a sandbox id */
	SYNTH_NAME_MAX = 253,
};
#define SYNTH_PAGES_NAME "sandgate.internal"

struct synth; /* opaque: a mapping */

/* Super.  dns gets the one that writes; workers get the other, which can't be mapped
 * for writing: a worker taken over can't rename another sandbox's addresses. */
enum status synth_create(int *ret_write_fd, int *ret_read_fd) MUSTCHECK;
/* The descriptor stays the caller's.  One writer; opening as writer mends what a killed
 * one left half done. */
enum status synth_open(int memfd, bool writable, struct synth **ret_s) MUSTCHECK;
void synth_close(struct synth *s);

/* In one of the two ranges, whether given out or not. */
bool synth_is_address(const struct addr *a);
struct addr synth_address(uint16_t slot, uint8_t family); /* family 4 or 6 */

/* Writer.  The slot of this name, new or old.  ST_TOO_BIG: no room. */
enum status synth_assign(struct synth *s, struct str sandbox, struct str name,
			 uint16_t *ret_slot) MUSTCHECK;
void synth_forget(struct synth *s, struct str sandbox);
/* Writer: visit the ids that hold names: start with *at = 0; false at the end.  The
 * view is valid until that sandbox is forgotten, which may happen in between. */
bool synth_next(const struct synth *s, size_t *at, struct str *ret_sandbox);

/* Reader.  ST_NOT_FOUND: never given out to this sandbox.  space: SYNTH_NAME_MAX bytes,
 * which the view points into. */
enum status synth_find(const struct synth *s, struct str sandbox, const struct addr *a,
		       char *space, struct str *ret_name) MUSTCHECK;

#endif
