#ifndef PROXY_DIALER_CHANNEL_H
#define PROXY_DIALER_CHANNEL_H
/*
 * channel: one c-ares channel in the loop: one query at a time, to one server, by UDP
 * and, when the answer says that it was cut, by TCP.  c-ares checks the server's
 * address and the id; the caller checks the question.
 *
 * With c-ares 1.18 a UDP socket, and with it the source port, serves at most
 * CHANNEL_QUESTIONS questions in CHANNEL_AGE_MS; later versions open one for each.
 *
 * The id is the one in the query where c-ares keeps it (1.18), else c-ares' own.
 */
#include "conf/image.h"
#include "proxy/dialer/packet.h"
#include "proxy/io/loop.h"

struct channel;

enum { CHANNEL_QUESTIONS = 16, CHANNEL_AGE_MS = 1000 };

/* st ST_OK: the packet, a view that ends with the call.  ST_DNS_FAILED: none came;
 * ST_NO_FILES: no socket could be made. */
typedef void (*channel_fn)(void *ctx, enum status st, struct str packet);

/* Before the jail: c-ares reads its configuration and its randomness here. */
enum status channel_new(struct loop *l, struct channel **ret_c) MUSTCHECK;
void channel_free(struct channel *c);

/* The channel is idle.  fn is called once, never before this returns. */
enum status channel_ask(struct channel *c, const struct image_server *server,
			const struct packet_query *q, channel_fn fn,
			void *ctx) MUSTCHECK;
/* Idle again; fn is not called. */
void channel_cancel(struct channel *c);
/* SO_MARK of the sockets that are opened from now on, the next question's among them; 0:
 * none. */
void channel_mark(struct channel *c, uint32_t mark);
/* The next question leaves from a new port. */
void channel_renew(struct channel *c);

#endif
