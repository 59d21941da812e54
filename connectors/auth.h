#ifndef CONNECTORS_AUTH_H
#define CONNECTORS_AUTH_H
/*
 * auth: how a request is given its credential.  Pure: a job in, fields and places out; no
 * socket, no clock, no vault.  The order is always
 *
 *	auth_refuses   nothing leased yet: forms that this kind does not make
 *	auth_body      how the body is needed
 *	auth_strip     the client's own value leaves the slot, in every spelling
 *	auth_write     the credential is made: the last thing that happens to the request
 *
 * What is made lies in job->space and is wiped with it: fields in job->last, which go
 * behind all others and are never indexed; a target in *job->uri; a body in job->body.
 * job->head never holds a credential.
 *
 * Kinds with an exchange (auth_exchange(), exchange.h) show the token that it brought.
 */
#include "conf/image.h"
#include "connectors/cred.h"
#include "proxy/http/uri.h"

/* What may be leased for a request; bits of auth_needs(). */
enum auth_part {
	AUTH_PART_SECRET,
	AUTH_PART_CLIENT_SECRET,
	AUTH_PART_SESSION_TOKEN,
	AUTH_PART_CERTIFICATE,
	AUTH_PARTS
};

/* The texts of a connector's auth; views into its image. */
struct auth_conf {
	enum auth_kind kind;
	enum auth_algorithm algorithm;
	enum auth_encoding encoding;
	enum auth_style style;
	enum auth_exchange exchange;
	bool is_delegated;            /* each user has one of their own */
	struct str vault[AUTH_PARTS]; /* names of the parts; empty: not given */
	struct str user, name, prefix;
	struct str token_url, client_id, audience, issuer, subject, key_id, scopes;
	struct str region, service, assume_role, external_id, session_name;
	struct str message, timestamp;
};

/* A token as an exchange brings it. */
struct auth_token {
	struct str value;
	struct str id, session; /* of sigv4 */
};

enum auth_body {
	AUTH_BODY_STREAM, /* not looked at */
	AUTH_BODY_WHOLE,  /* read in auth_write(): gather it, to AUTH_BODY_MAX */
};

enum {
	AUTH_BODY_MAX = 1 << 20,
	AUTH_LAST_MAX = 4,
	AUTH_VALUE_MAX = 8192 /* of a secret that is shown; longer ones are keys */
};

struct auth_job {
	/* given */
	const struct auth_conf *conf;
	struct str parts[AUTH_PARTS];   /* leased; empty where not needed */
	const struct auth_token *token; /* of kinds with an exchange */
	uint64_t now_s;
	bool is_tls;
	/* given, and changed */
	struct head *head;
	struct uri *uri; /* dest: the upstream */
	struct str body; /* AUTH_BODY_WHOLE only */
	/* made */
	struct cred space;
	struct field last[AUTH_LAST_MAX];
	size_t last_n;
	bool target_is_secret;
};

void auth_conf_from(const struct image *im, const struct image_auth *a,
		    struct auth_conf *ret_conf);

/* The texts copied into a, so that they outlive the image.  ST_NOMEM. */
enum status auth_conf_keep(struct auth_conf *c, struct arena *a) MUSTCHECK;
bool auth_conf_same(const struct auth_conf *a, const struct auth_conf *b);

unsigned auth_needs(const struct auth_conf *c); /* bits 1 << AUTH_PART_x */
/* Of those, the ones that each request reads; the others only an exchange does. */
unsigned auth_reads(const struct auth_conf *c);
bool auth_has_exchange(const struct auth_conf *c);

/* j->space is made; auth_job_done() wipes it. */
void auth_job_init(struct auth_job *j, const struct auth_conf *c);
void auth_job_done(struct auth_job *j);

enum status auth_refuses(const struct auth_job *j) MUSTCHECK;
enum auth_body auth_body(const struct auth_job *j);
void auth_strip(struct auth_job *j);
enum status auth_write(struct auth_job *j) MUSTCHECK;

#endif
