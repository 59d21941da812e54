#ifndef PROXY_CONTROL_BRAIN_LABEL_H
#define PROXY_CONTROL_BRAIN_LABEL_H
/*
 * brain_label: what `metadata` of a sandbox may hold, and what this gateway writes there.
 *
 * Servers hold metadata to the syntax of Kubernetes' labels.  Names below `sandgate/` are
 * ours: callers can neither write nor see them.  Names below `opensandbox.io/` are the
 * server's: it refuses them itself, and so do we.
 */
#include <jansson.h>

#include "proxy/base/buf.h"

enum { LABEL_MAX = 63, LABELS_MAX = 64 };

bool label_key_is_good(struct str key);
bool label_value_is_good(struct str value);
bool label_is_reserved(struct str key); /* ours or the server's */

/* The text, if it can be a label's value; else "h-" and 32 hex digits of its SHA-256. */
void label_put_value(struct buf *b, struct str text);
/* "u-" and 32 hex digits: whose it is, without telling the name to who can read labels of
 * the engine. */
void label_put_user(struct buf *b, struct str tenant, struct str user);

/* Sets key to value in the object; empty values set nothing.  False: no memory. */
bool label_set(json_t *labels, const char *key, struct str value) MUSTCHECK;
/* Takes ours out of an object of labels. */
void label_hide(json_t *labels);

/* A caller's labels: an object of good names that are not reserved and good values; of a
 * patch, a value may be null.  Else why says what is wrong. */
enum status label_check(const json_t *labels, bool is_patch, struct buf *why) MUSTCHECK;

#endif
