#ifndef CONF_WHO_H
#define CONF_WHO_H
/*
 * who: which sandbox is at the other end of this socket.  The kernel says so: the
 * namespace cookie of an attached socket, else the source address, else (for token
 * identities) a grant that control made for this very socket.  Nothing that a
 * message claims is looked at.
 *
 * Static sandboxes come from the image, attached ones from super: they are known by the
 * cookie of their namespace, or by their source addresses.  An address that a static sandbox
 * has, or comes to have, is the static one's.  A handle is 1 + index for static ones (stable
 * within a generation) and HANDLE_ATTACHED + n for attached ones.  Pointers are valid until
 * the next who_set_image/who_detach; who_attach of the same handle changes what is behind
 * them.
 */
#include "conf/image.h"
#include "conf/narrow.h"

enum { HANDLE_NONE = 0, HANDLE_ATTACHED = 1u << 24, WHO_SOURCES = 8 };

struct who {
	uint32_t handle;
	struct mandate may; /* in the current image */
	uint32_t limits;    /* index for image_limits() */
	struct str id, user, agent, session;
	uint64_t netns_cookie; /* attached: its namespace; else 0 */
	bool trusts_ca;
	/* Attached: where it connects from, if that is how it is known. */
	const struct addr *sources;
	size_t sources_n;
	uint32_t revision; /* another one with each who_attach of its handle */
};

/* One that comes while the gateway runs. */
struct who_entry {
	uint32_t handle;
	uint64_t netns_cookie; /* 0: known by its sources */
	struct str id, user, agent, session, policy;
	bool trusts_ca;
	const struct addr *sources; /* at most WHO_SOURCES */
	size_t sources_n;
	const struct str
		*narrow; /* a text of conf/narrow.h; NULL: nothing is narrowed */
};

struct who_table;
struct sockaddr_storage;

enum status who_new(struct who_table **ret_t) MUSTCHECK;
void who_free(struct who_table *t);
/* Static sandboxes and the policies' indices are read from im from now on; the image
 * before it is still open.  Grants stay with their sandbox, unless its token changed or
 * it is gone. */
enum status who_set_image(struct who_table *t, const struct image *im) MUSTCHECK;

/* Copies.  One that has the handle is changed.  ST_CONFLICT: another has the namespace or an
 * address.  Unless ST_OK one that had the handle stands, but no socket is known for its. */
enum status who_attach(struct who_table *t, const struct who_entry *e) MUSTCHECK;
void who_detach(struct who_table *t, uint32_t handle);

/* Grants for token identities, by socket cookie; at most 65,536, oldest out first, as far
 * as that may be found quickly the same sandbox's own. */
enum status who_grant(struct who_table *t, uint64_t socket_cookie,
		      uint32_t handle) MUSTCHECK;

/* An accepted, connected socket.  NULL: unknown. */
const struct who *who_by_socket(struct who_table *t, int fd);
/* The same where the kernel has told the peer's address already; NULL: it has not. */
const struct who *who_by_peer(struct who_table *t, int fd,
			      const struct sockaddr_storage *peer);
/* A datagram: the namespace cookie of the socket it came to and its source. */
const struct who *who_by_source(struct who_table *t, int fd, const struct addr *source);
/* Whose source address it is; NULL: nobody's. */
const struct who *who_by_addr(struct who_table *t, const struct addr *a);
const struct who *who_by_handle(struct who_table *t, uint32_t handle);
const struct who *who_by_id(struct who_table *t, struct str id);
/* Visit all: start with *at = 0; NULL at the end. */
const struct who *who_next(struct who_table *t, size_t *at);

#endif
