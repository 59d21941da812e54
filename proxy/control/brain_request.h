#ifndef PROXY_CONTROL_BRAIN_REQUEST_H
#define PROXY_CONTROL_BRAIN_REQUEST_H
/*
 * brain_request: a caller's CreateSandboxRequest, read once.  What comes out is what a server
 * is sent and what the rest of the brain decides by; nobody reads the caller's text again.
 *
 * Fields that we don't know pass.  But servers also take a field by another spelling
 * (network_policy for networkPolicy): a name that differs from one that counts only in case,
 * '_' or '-' is refused, and volumes hold known fields only.
 *
 * Pure: asks nobody but the image, knows no server.
 */
#include <jansson.h>

#include "conf/exec.h"
#include "proxy/base/buf.h"

enum request_source { REQUEST_IMAGE, REQUEST_SNAPSHOT, REQUEST_POOL, REQUEST_TEMPLATE };

enum {
	REQUEST_TIMEOUT_MIN_S = 60,
	REQUEST_LIST_MAX = 256, /* of entrypoint, env */
	REQUEST_VOLUMES_MAX = 32,
	REQUEST_SHAPE = 64, /* hex digits */
};

/* By which our authority is mounted at EXEC_CA_INSIDE: no caller's name. */
#define REQUEST_CA_VOLUME "sandgate-ca"

struct request {
	json_t *body; /* for a server: without metadata, networkPolicy, credentialProxy */
	json_t *metadata; /* the caller's labels; an object */
	json_t *policy;   /* networkPolicy as sent, or NULL */
	json_t *proxy;    /* credentialProxy as sent, or NULL */
	json_t *commands; /* what would run, array of arrays of texts: entrypoint, hooks */
	json_t *mounts;   /* array of texts: a path, or "pvc:" and a name */
	json_t *stripped; /* names of variables that were taken out; an array */
	enum request_source source;
	struct str
		name; /* of the image, snapshot, pool or template; a view into body */
	struct str
		reuse;  /* extensions["sandgate.reuse"], or empty; a view into extras */
	json_t *extras; /* extensions that are ours */
	uint64_t timeout_s;
	uint64_t memory, cpu_milli; /* of resourceLimits; 0: none said */
};

/* ST_BAD_PARAMETER: not of the form; ST_EXEC_REFUSED: the configuration refuses it; why says what,
 * in words for the caller. */
enum status request_read(const struct image *im, struct str text, struct request *ret_r,
			 struct buf *why) MUSTCHECK;
void request_done(struct request *r);

struct request_counts {
	bool policy; /* networkPolicy and credentialProxy too */
	bool ca;     /* it gets our authority */
};

/* What two sandboxes must have in common to be the same kind: SHA-256, in hex, over all that
 * a server would be sent. */
void request_put_shape(struct buf *b, const struct request *r,
		       const struct request_counts *counts);

/* brain_request_part.c */
enum status request_env(const struct image *im, struct request *r,
			struct buf *why) MUSTCHECK;
enum status request_volumes(const struct image *im, struct request *r,
			    struct buf *why) MUSTCHECK;
enum status request_limits(struct request *r, struct buf *why) MUSTCHECK;
enum status request_commands(struct request *r, struct buf *why) MUSTCHECK;
/* "512Mi" in bytes; with milli, "500m" or "1.5" in thousandths. */
bool request_quantity(struct str text, bool milli, uint64_t *ret_v) MUSTCHECK;
/* Is some other name of the object read as this one by some reader? */
bool request_has_twin(const json_t *object, const char *name);

#endif
