#include "proxy/http/hello.h"

#include <string.h>

#include "proxy/base/num.h"

enum {
	CONTENT_HANDSHAKE = 22,
	RECORD_HEADER = 5,
	RECORD_MAX = 16384,
	CLIENT_HELLO = 1,
	MESSAGE_HEADER = 4,
	RANDOM = 32,
	SESSION_ID_MAX = 32,
	EXTENSIONS_MAX = 128, /* browsers send about 20 */
	NAME_MAX_BYTES = 255,
	TLS12 = 0x0303,
	TLS13 = 0x0304,
};

enum {
	EXT_SERVER_NAME = 0,
	EXT_ALPN = 16,
	EXT_PRE_SHARED_KEY = 41,
	EXT_EARLY_DATA = 42,
	EXT_SUPPORTED_VERSIONS = 43,
	EXT_ECH_FIRST = 0xfe08, /* drafts; what is deployed is 0xfe0d */
	EXT_ECH_LAST = 0xfe0d,
	EXT_ESNI = 0xffce, /* the drafts' forerunner of ECH */
};

/* A part of the message with a sticky failure: taking more than is there empties it. */
struct part {
	struct str rest;
	bool is_bad;
};

static struct str
part_take(struct part *p, size_t n)
{
	struct str got = str_head(p->rest, n);

	if (p->is_bad || n > p->rest.n) {
		*p = (struct part){ .is_bad = true };
		return (struct str){ 0 };
	}
	p->rest = str_skip(p->rest, n);
	return got;
}

/* A big-endian number of 1 to 3 bytes; 0 after a failure. */
static size_t
part_number(struct part *p, size_t bytes)
{
	struct str s = part_take(p, bytes);
	size_t v = 0;

	for (size_t i = 0; i < s.n; i++)
		v = v << 8 | (uint8_t)s.p[i];
	return v;
}

/* A vector whose length stands in front in so many bytes. */
static struct str
part_vector(struct part *p, size_t length_bytes)
{
	return part_take(p, part_number(p, length_bytes));
}

static bool
part_is_done(const struct part *p)
{
	return !p->is_bad && p->rest.n == 0;
}

bool
hello_could_be(struct str first)
{
	if (first.n > 0 && first.p[0] != CONTENT_HANDSHAKE)
		return false;
	return first.n < 2 || first.p[1] == 3;
}

/* How the message lies in the records. */
struct span {
	size_t records, empty;
	size_t size;      /* of the message with its header, once known; else 0 */
	size_t got;       /* of these bytes, in the records so far */
	size_t wire;      /* where the next record begins */
	struct str first; /* content of the first record that has one */
	uint8_t head[MESSAGE_HEADER];
};

static enum status
span_head(struct span *s, struct str content)
{
	for (size_t i = 0; i < content.n && s->got + i < MESSAGE_HEADER; i++)
		s->head[s->got + i] = (uint8_t)content.p[i];
	/* Refused at the first wrong byte: another message is not worth waiting for. */
	if (content.n > 0 && s->head[0] != CLIENT_HELLO)
		return ST_HELLO_BAD;
	if (s->got + content.n >= MESSAGE_HEADER && s->size == 0)
		s->size = MESSAGE_HEADER + (num_be32(s->head) & 0xffffff);
	return s->size > HELLO_MAX ? ST_HELLO_TOO_LARGE : ST_OK;
}

/* Count one record in; content may still be incomplete. */
static enum status
span_add(struct span *s, struct str content, size_t length)
{
	enum status st = span_head(s, content);

	if (st != ST_OK)
		return st;
	if (s->first.n == 0)
		s->first = content;
	if (content.n < length)
		return ST_AGAIN;
	s->got += length;
	s->wire += RECORD_HEADER + length;
	if (s->size == 0 || s->got < s->size)
		return ST_OK;
	/* A client has nothing to say in the same record before we answered; OpenSSL
	 * refuses it for TLS 1.3 and two parsers could see two messages. */
	return s->got == s->size ? ST_END : ST_HELLO_BAD;
}

/* The header of the record at s->wire: its length, checked as far as it is there. */
static enum status
span_record(struct span *s, struct str rest, size_t *ret_length)
{
	size_t length;

	if (!hello_could_be(rest))
		return ST_HELLO_BAD;
	if (rest.n >= 3 && (uint8_t)rest.p[2] > 4)
		return ST_HELLO_BAD;
	if (rest.n < RECORD_HEADER)
		return ST_AGAIN;
	length = num_be16(rest.p + 3);
	if (length > RECORD_MAX)
		return ST_HELLO_BAD;
	if (++s->records > HELLO_RECORDS_MAX)
		return ST_HELLO_TOO_LARGE;
	if (length == 0 && ++s->empty > HELLO_EMPTY_MAX)
		return ST_HELLO_TOO_LARGE;
	*ret_length = length;
	return ST_OK;
}

/* ST_OK: complete. */
static enum status
span_walk(struct str bytes, struct span *s)
{
	enum status st = ST_OK;

	while (st == ST_OK) {
		struct str rest = str_skip(bytes, s->wire);
		size_t length = 0;

		st = span_record(s, rest, &length);
		if (st == ST_OK)
			st = span_add(s,
				      str_head(str_skip(rest, RECORD_HEADER), length),
				      length);
	}
	return st == ST_END ? ST_OK : st;
}

/* Put the records' contents together. */
static enum status
span_join(struct str bytes, const struct span *s, struct buf *scratch,
	  struct str *ret_message)
{
	size_t at = 0;

	buf_clear(scratch);
	while (at < s->wire) {
		size_t length = num_be16(bytes.p + at + 3);

		buf_put(scratch, str_of(bytes.p + at + RECORD_HEADER, length));
		at += RECORD_HEADER + length;
	}
	return buf_finish(scratch, ret_message);
}

/* RFC 6066 section 3: a list, and exactly one host_name in it. */
static bool
read_name(struct str data, struct hello *h)
{
	struct part ext = { .rest = data };
	struct part list = { .rest = part_vector(&ext, 2) };
	size_t type = part_number(&list, 1);
	struct str name = part_vector(&list, 2);

	if (!part_is_done(&ext) || !part_is_done(&list) || type != 0)
		return false;
	if (name.n == 0 || name.n > NAME_MAX_BYTES || str_has(name, '\0'))
		return false;
	h->name = name;
	h->has_name = true;
	return true;
}

bool
hello_alpn_next(struct str *list, struct str *ret_name)
{
	struct part p = { .rest = *list };
	struct str name = part_vector(&p, 1);

	if (p.is_bad || name.n == 0)
		return false;
	*list = p.rest;
	*ret_name = name;
	return true;
}

/* RFC 7301 section 3.1: no empty list, no empty name. */
static bool
read_alpn(struct str data, struct hello *h)
{
	struct part ext = { .rest = data };
	struct str list = part_vector(&ext, 2), rest = list, name;

	if (!part_is_done(&ext) || list.n == 0)
		return false;
	while (hello_alpn_next(&rest, &name))
		;
	if (rest.n > 0)
		return false;
	h->alpn = list;
	h->has_alpn = true;
	return true;
}

/* RFC 8446 section 4.2.1; TLS 1.2 is the oldest that anyone still should speak. */
static bool
read_versions(struct str data, struct hello *h)
{
	struct part ext = { .rest = data };
	struct part list = { .rest = part_vector(&ext, 1) };
	bool has_good = false;

	if (!part_is_done(&ext) || list.rest.n == 0 || list.rest.n % 2 != 0)
		return false;
	while (list.rest.n > 0) {
		size_t version = part_number(&list, 2);

		has_good = has_good || version == TLS12 || version == TLS13;
		h->offers_tls13 = h->offers_tls13 || version == TLS13;
	}
	return has_good;
}

static bool
read_extension(size_t type, struct str data, struct hello *h)
{
	if (type == EXT_SERVER_NAME)
		return read_name(data, h);
	if (type == EXT_ALPN)
		return read_alpn(data, h);
	if (type == EXT_SUPPORTED_VERSIONS)
		return read_versions(data, h);
	if (type == EXT_EARLY_DATA) {
		h->has_early_data = true;
		return data.n == 0;
	}
	if ((type >= EXT_ECH_FIRST && type <= EXT_ECH_LAST) || type == EXT_ESNI)
		h->has_ech = true;
	return true;
}

struct seen { /* which extensions were there */
	uint16_t types[EXTENSIONS_MAX];
	size_t n;
};

/* False when it was there before (RFC 8446 section 4.2) or there are too many. */
static bool
seen_add(struct seen *s, size_t type)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->types[i] == type)
			return false;
	if (s->n == EXTENSIONS_MAX)
		return false;
	s->types[s->n++] = (uint16_t)type;
	return true;
}

static bool
seen_has(const struct seen *s, size_t type)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->types[i] == type)
			return true;
	return false;
}

static bool
read_extensions(struct str block, size_t legacy_version, struct hello *h)
{
	struct part list = { .rest = block };
	struct seen seen;

	seen.n = 0;
	while (list.rest.n > 0) {
		size_t type = part_number(&list, 2);
		struct str data = part_vector(&list, 2);

		if (list.is_bad || !seen_add(&seen, type) ||
		    !read_extension(type, data, h))
			return false;
		/* RFC 8446 section 4.2.11: it signs what stands before it. */
		if (type == EXT_PRE_SHARED_KEY && list.rest.n > 0)
			return false;
	}
	return !list.is_bad &&
	       (seen_has(&seen, EXT_SUPPORTED_VERSIONS) || legacy_version >= TLS12);
}

static bool
read_message(struct str message, struct hello *h)
{
	struct part m = { .rest = str_skip(message, MESSAGE_HEADER) };
	size_t version = part_number(&m, 2);
	struct str session, suites, compression, extensions = { 0 };

	part_take(&m, RANDOM);
	session = part_vector(&m, 1);
	suites = part_vector(&m, 2);
	compression = part_vector(&m, 1);
	if (m.is_bad || version >> 8 != 3 || session.n > SESSION_ID_MAX)
		return false;
	if (suites.n == 0 || suites.n % 2 != 0 || !str_has(compression, '\0'))
		return false;
	if (m.rest.n > 0) /* without any it may end here: TLS 1.2 and no name */
		extensions = part_vector(&m, 2);
	return part_is_done(&m) && read_extensions(extensions, version, h);
}

enum status
hello_peek(struct str bytes, struct buf *scratch, struct hello *ret_h)
{
	struct span span = { 0 };
	struct hello h = { 0 };
	struct str message;
	enum status st = span_walk(bytes, &span);

	if (st != ST_OK)
		return st;
	message = span.first;
	if (span.first.n < span.size)
		st = span_join(bytes, &span, scratch, &message);
	if (st != ST_OK)
		return st;
	if (!read_message(message, &h))
		return ST_HELLO_BAD;
	h.wire_size = span.wire;
	*ret_h = h;
	return ST_OK;
}

/* RFC 8701: two equal bytes 0x?A. */
static bool
is_grease(struct str name)
{
	return name.n == 2 && name.p[0] == name.p[1] && (name.p[0] & 0x0f) == 0x0a;
}

enum status
hello_alpn_check(const struct hello *h)
{
	struct str list = h->alpn, name;
	bool has_good = false;

	if (!h->has_alpn)
		return ST_OK;
	while (hello_alpn_next(&list, &name)) {
		bool is_http = str_eq(name, STR("h2")) ||
			       str_eq(name, STR("http/1.1")) ||
			       str_eq(name, STR("http/1.0")); /* curl -0 says so */

		if (!is_http && !is_grease(name))
			return ST_ALPN;
		has_good = has_good || is_http;
	}
	return has_good ? ST_OK : ST_ALPN;
}
