#ifndef PROXY_HTTP_MULTIPART_H
#define PROXY_HTTP_MULTIPART_H
/*
 * multipart: a multipart/form-data body (RFC 7578, RFC 2046 section 5.1) taken apart as it
 * comes: parts by their names, their content as views of the input.  Nothing is kept of a
 * part but what its head says.
 *
 * Stricter than the readers behind us, which differ: line ends are CRLF, nothing stands
 * before the first delimiter, a delimiter is followed by blanks and CRLF or by "--", each
 * part has one Content-Disposition with one name and no transfer encoding that changes
 * content, parameters come once and not in the form of RFC 2231 for what is read here.
 * What would be read differently elsewhere is MULTIPART_BAD, for good.
 */
#include "proxy/base/held.h"

enum { MULTIPART_BOUNDARY = 70, MULTIPART_LINE = 1024, MULTIPART_HEAD = 8192 };

enum multipart_event {
	MULTIPART_AGAIN,    /* all of the input was taken */
	MULTIPART_PART,     /* a part begins: name, has_filename */
	MULTIPART_DATA,     /* a piece of its content, not empty */
	MULTIPART_PART_END, /* it is whole */
	MULTIPART_OVER, /* the last delimiter was read; what follows is of no account */
	MULTIPART_BAD,
};

struct multipart {
	/* Of the part that is open. */
	struct held name;
	bool has_filename; /* and it is not empty */

	uint8_t state, mark_n, matched;
	uint8_t before;           /* octets of what is matched that are no content */
	bool has_name, is_return; /* a CR was the last octet */
	uint16_t line_n, head_n;
	char mark[4 + MULTIPART_BOUNDARY]; /* CRLF "--" boundary */
	char line[MULTIPART_LINE];
};

/* ST_BAD_HEADER: no multipart/form-data, or not with exactly one plain boundary. */
enum status multipart_init(struct multipart *m, struct str content_type) MUSTCHECK;
/* Takes from *in; *ret_data is set for MULTIPART_DATA only. */
enum multipart_event multipart_next(struct multipart *m, struct str *in,
				    struct str *ret_data) MUSTCHECK;
/* May the body end here? */
bool multipart_is_over(const struct multipart *m);

#endif
