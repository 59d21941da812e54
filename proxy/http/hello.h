#ifndef PROXY_HTTP_HELLO_H
#define PROXY_HTTP_HELLO_H
/*
 * hello: what a TLS ClientHello tells before a byte goes on (RFC 8446 section 4.1.2,
 * RFC 6066 section 3, RFC 7301).  Nothing is decrypted and nothing is changed.
 *
 *	record header | part of the message | record header | rest | early data ...
 *	 <------------------- hello->wire_size ------------------->
 *
 * The message may be cut anywhere by TCP segments and by records.  In what says
 * where the connection goes (framing, list of extensions, server name, ALPN,
 * versions) there is one form only: every length fits to the byte, no extension comes
 * twice, the list of names holds one.  Keys and groups are the two ends' business.
 * What does not parse is refused, never taken for another protocol.
 *
 * Until the message is complete a call costs a walk over the record headers, so that
 * byte-wise arrival is cheap.  A hello in one record is parsed where it lies; else its
 * parts are put together in the caller's scratch.
 */
#include "proxy/base/buf.h"

enum {
	HELLO_MAX = 65536,       /* handshake message with its header */
	HELLO_RECORDS_MAX = 256, /* records that it may be cut into, empty ones too */
	HELLO_EMPTY_MAX = 8,     /* of these, without content */
	HELLO_WIRE_MAX =
		HELLO_MAX + 5 * HELLO_RECORDS_MAX, /* no hello needs more bytes */
};

struct hello { /* views into the bytes or the scratch, whichever held the message */
	struct str name;     /* as sent; for dest_from_host().  Never empty... */
	bool has_name;       /* ...when this is set; NUL-free, at most 255 bytes */
	bool has_alpn;       /* the extension is there */
	bool has_ech;        /* Encrypted Client Hello, real or GREASE, or ESNI */
	bool has_early_data; /* 0-RTT data follows: hold it back */
	bool offers_tls13;
	struct str alpn;  /* ProtocolNameList: one length byte before each name */
	size_t wire_size; /* bytes of the input up to the end of the hello's last record
			   */
};

/* May these first bytes be a TLS record with a handshake?  False for other protocols;
 * true for an empty view: nothing speaks against it yet. */
bool hello_could_be(struct str first);

/*
 * bytes: everything received so far.  scratch: made by the caller with max >=
 * HELLO_MAX; written (and memory taken) only when the message lies in more than one
 * record. ST_AGAIN: incomplete.  ST_HELLO_BAD, ST_HELLO_TOO_LARGE, ST_NOMEM: refuse.
 */
enum status hello_peek(struct str bytes, struct buf *scratch,
		       struct hello *ret_h) MUSTCHECK;

/* ST_OK when a tunnel may carry what the client offers: no ALPN, or only h2,
 * http/1.1, http/1.0 and GREASE, and not GREASE alone.  Else ST_ALPN. */
enum status hello_alpn_check(const struct hello *h) MUSTCHECK;

/* Take the next protocol name from *list (a copy of h->alpn); false at the end. */
bool hello_alpn_next(struct str *list, struct str *ret_name);

#endif
