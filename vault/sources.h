#ifndef VAULT_SOURCES_H
#define VAULT_SOURCES_H
/*
 * sources: secrets that somebody else keeps and super hands over: files that Kubernetes
 * mounts, under files/NAME, and variables of the gateway's environment, under env/NAME.
 * They need no vault and no grant: who writes the configuration names them there.  They
 * are given anew at each reload; a value that differs is another version.
 */
#include "vault/secret.h"
#include "vault/value.h"

enum { SOURCES_MAX = 256 };

struct source {
	char name[80];
	uint32_t version;
	struct secret value;
};

struct sources {
	struct source *now, *next; /* SOURCES_MAX each; next is being given */
	size_t now_n, next_n;
};

enum status sources_init(struct sources *s) MUSTCHECK;
void sources_done(struct sources *s); /* wipes */

bool sources_is_name(struct str secret);
/* fd stays the caller's.  ST_BAD_SECRET: neither a text nor a key in lines; a line feed
 * at its end is not part of a text. */
enum status sources_add(struct sources *s, struct str name, int fd) MUSTCHECK;
void sources_settle(struct sources *s); /* what was added since is all there is */
/* NULL: not there.  Until sources_settle(). */
const struct source *sources_find(const struct sources *s, struct str name);

#endif
