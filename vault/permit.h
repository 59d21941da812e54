#ifndef VAULT_PERMIT_H
#define VAULT_PERMIT_H
/*
 * permit: may this connector have this secret, for this sandbox?  All of it must hold:
 *
 *	the policy in force has the connector, in the group of the process that asks, and
 *	the connector names the secret
 *	the sandbox is who the kernel says its socket is, and its policy lists the
 *	connector, for its tenant and user
 *	the vault grants the secret to the connector, for that user
 *
 * Without a sandbox it is the connector's own business, such as a new access token: then
 * the secret may not be one of a user's.
 */
#include "conf/policy.h"
#include "conf/who.h"
#include "vault/table.h"

struct permit_wish {
	struct str group;             /* of the process that asks */
	struct str connector, secret; /* secret as the configuration has it */
	const struct who *who;        /* NULL: the connector's own business */
};

struct permit {
	const struct image_connector *connector;
	char name[VAULT_NAME_MAX + STR_NAME_MAX]; /* with the user put in */
	size_t name_n;
	const struct table_entry *entry;
};

/* All but the grant: which secret is meant.  ST_OK, ST_SECRET_DENIED. */
enum status permit_judge(const struct image *im, const struct permit_wish *w,
			 struct permit *ret_p) MUSTCHECK;
/* Finds its entry, and the grant.  ST_OK, ST_SECRET_DENIED, ST_NO_SECRET. */
enum status permit_grant(const struct image *im, const struct table *t,
			 const struct permit_wish *w, struct permit *p) MUSTCHECK;

/* Visit the secrets that a connector declares: i from 0; false: no more. */
bool permit_declares(const struct image *im, const struct image_connector *c, size_t i,
		     struct str *ret_secret);
/* With {user} replaced.  False: no name of a secret, or there is no user to put in. */
bool permit_name(struct str secret, struct str user, struct permit *ret_p) MUSTCHECK;
/* Is name what secret stands for, for some user?  ret_user: who, empty without {user}. */
bool permit_covers(struct str secret, struct str name, struct str *ret_user);
/* May some policy let this host out over TLS?  Others need no leaf. */
bool permit_host(const struct image *im, struct str host) MUSTCHECK;

#endif
