#ifndef PROXY_HTTP_SOCKS_H
#define PROXY_HTTP_SOCKS_H
/*
 * socks: SOCKS5 (RFC 1928) with user and password (RFC 1929), the server's side.
 *
 *	client: greeting    -> us: socks_put_method()
 *	client: login       -> us: socks_put_login()     if SOCKS_PASSWORD was chosen
 *	client: request     -> us: socks_put_reply()
 *
 * Each reader gets all bytes from the start of its message.  ST_AGAIN: more is needed.
 * A wrong byte is refused as soon as it is there, so the outcome does not depend on how
 * the bytes were split.  On ST_OK ret->size bytes are used up; what follows belongs to
 * the next message (after the request: to the tunnel, held until the verdict).
 * Views point into the input.
 */
#include "proxy/base/addr.h"

enum { SOCKS_NONE = 0x00, SOCKS_PASSWORD = 0x02, SOCKS_NO_METHOD = 0xff };
enum { SOCKS_GREETING_MAX = 257, SOCKS_LOGIN_MAX = 513, SOCKS_REQUEST_MAX = 262 };

struct socks_greeting {
	size_t size;
	bool offers_none, offers_password;
};

struct socks_login {
	size_t size;
	struct str user, password; /* any bytes; may be empty */
};

struct socks_request { /* always CONNECT */
	size_t size;
	struct addr addr; /* family 0: a name */
	struct str name;  /* raw bytes, 1 to 255: for dest_from_host() */
	uint16_t port;    /* not 0 */
};

/* ST_BAD_SOCKS: another version (SOCKS4 too), or no methods. */
enum status socks_read_greeting(struct str bytes,
				struct socks_greeting *ret_g) MUSTCHECK;
enum status socks_read_login(struct str bytes, struct socks_login *ret_l) MUSTCHECK;
/* ST_BAD_SOCKS, ST_SOCKS_COMMAND (BIND, UDP), ST_SOCKS_ADDRESS (reserved byte or
 * address type), ST_BAD_HOST (empty name), ST_BAD_PORT (0). */
enum status socks_read_request(struct str bytes, struct socks_request *ret_r) MUSTCHECK;

void socks_put_method(struct buf *b, uint8_t method);
void socks_put_login(struct buf *b, bool is_good);
/* ST_OK: connected.  The bound address is told as 0.0.0.0:0: it is nobody's business.
 */
void socks_put_reply(struct buf *b, enum status st);

#endif
