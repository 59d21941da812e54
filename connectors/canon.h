#ifndef CONNECTORS_CANON_H
#define CONNECTORS_CANON_H
/*
 * canon: the canonical request of AWS Signature Version 4, as the service makes it anew
 * from what it received; one octet of difference and the signature is worth nothing.
 *
 *	METHOD \n path \n query \n (name:value\n)... \n names;joined \n payload hash
 *
 * Path: S3 decodes the path and encodes it once, and an empty segment is a segment;
 * every other service takes dot segments and empty segments out and encodes the path
 * as it stands on the wire, so a triplet is encoded twice.  Query: decoded ('+' is a
 * space), encoded strictly, sorted by name, then by value.  Fields: names in lower
 * case, sorted; values trimmed, runs of spaces made one; several of one name joined
 * with commas in their order.
 */
#include "connectors/cred.h"
#include "proxy/http/head.h"

enum { CANON_PARAMS_MAX = 512, CANON_FIELDS_MAX = 128 };

struct canon {
	struct str method;
	struct str path, query;     /* as sent; query without '?' */
	const struct field *fields; /* all of them are signed */
	size_t fields_n;
	struct str payload; /* its hash, or the word that stands for it */
	bool is_s3;
};

/* The most bytes that canon_put() writes. */
size_t canon_bound(const struct canon *r);
void canon_put(struct cred *out, const struct canon *r);
/* "content-type;host;x-amz-date" */
void canon_put_names(struct cred *out, const struct canon *r);

void canon_put_path(struct cred *out, struct str path, bool is_s3);
void canon_put_query(struct cred *out, struct str query);

#endif
