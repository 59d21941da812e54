#ifndef CONNECTORS_AUTH_PART_H
#define CONNECTORS_AUTH_PART_H
/* auth_part: what one kind is made of, for the table in auth.c and the kinds' own files. */
#include "connectors/auth.h"

struct auth_class {
	unsigned needs;           /* bits of parts beside the secret */
	bool keeps_authorization; /* the slot is elsewhere and may stand beside it */
	enum status (*refuses)(const struct auth_job *j); /* NULL: nothing */
	enum auth_body (*body)(const struct auth_job *j); /* NULL: streamed */
	void (*strip)(struct auth_job *j);                /* beside credential fields */
	enum status (*write)(struct auth_job *j);
};

/* What is shown: the token of an exchange, else the secret. */
struct str auth_value(const struct auth_job *j);
/* Text that may stand in a field: visible ASCII and inner spaces.  ST_BAD_SECRET. */
enum status auth_check_text(struct str value) MUSTCHECK;
/* One more field, whose value is what space holds since mark.  ST_NOMEM, ST_TOO_BIG. */
enum status auth_last(struct auth_job *j, struct str name, size_t mark) MUSTCHECK;

enum status auth_write_bearer(struct auth_job *j);
enum status auth_write_basic(struct auth_job *j);
enum status auth_write_header(struct auth_job *j);
void auth_strip_header(struct auth_job *j);

void auth_strip_query(struct auth_job *j);
enum status auth_write_query(struct auth_job *j);
enum status auth_refuses_path(const struct auth_job *j);
enum status auth_write_path(struct auth_job *j);
enum status auth_refuses_form(const struct auth_job *j);
enum auth_body auth_body_form(const struct auth_job *j);
enum status auth_write_form(struct auth_job *j);

enum status auth_refuses_sigv4(const struct auth_job *j);
enum auth_body auth_body_sigv4(const struct auth_job *j);
void auth_strip_sigv4(struct auth_job *j);
enum status auth_write_sigv4(struct auth_job *j);

enum auth_body auth_body_hmac(const struct auth_job *j);
void auth_strip_hmac(struct auth_job *j);
enum status auth_write_hmac(struct auth_job *j);

#endif
