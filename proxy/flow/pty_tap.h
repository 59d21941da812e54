#ifndef PROXY_FLOW_PTY_TAP_H
#define PROXY_FLOW_PTY_TAP_H
/*
 * pty_tap: reads along with a terminal of execd, both ways of its WebSocket: binary
 * messages with one octet of channel (0 stdin, 1 stdout, 2 stderr, 3 what was missed, with
 * its place in 8 octets), and JSON messages, of which "stdin" and "exit" count.  It keeps
 * octets and SHA-256 of each channel, and the exit code.
 *
 * It only looks.  A message that can't be read, or a channel that this side has not, is
 * counted as unreadable; frames that can't be told apart (also: an extension that the
 * caller has let through, as compression) end the reading of their side: is_blind.
 *
 * What a client sends and another reader might take for something typed is told by is_hidden:
 * JSON that can't be read, or that has data before it says that it is something else than
 * stdin; a channel that clients have not; and what is behind the end of reading.
 */
#include "proxy/base/held.h"
#include "proxy/base/jpick.h"
#include "proxy/flow/tally.h"
#include "proxy/http/ws_frame.h"

enum pty_side { PTY_CLIENT, PTY_SERVER, PTY_SIDES };
enum pty_channel { PTY_STDIN, PTY_STDOUT, PTY_STDERR, PTY_REPLAY, PTY_CHANNELS };

/* Octets that are typed, in their order; NULL: nobody wants them.  Those of a JSON message
 * whose type comes behind its data are told before it is known that they are: if not,
 * is_hidden. */
typedef void (*pty_typed_fn)(void *ctx, struct str octets);

struct pty_side_tap {
	uint64_t messages, unreadable;
	bool is_blind, is_closed;
	bool is_hidden; /* of the client */

	/* Its own: the message that is open. */
	bool is_early;
	uint8_t state, skip; /* skip: octets of a replay's place still to come */
	uint8_t channel;
	struct held type, number, mode;
	struct jpick pick;
	struct ws_frame frames;
};

struct pty_tap {
	/* texts: messages that carried any of it.  Of a replay only octets are counted:
	 * it passed before. */
	struct tally channels[PTY_CHANNELS];
	bool has_code;
	bool is_tty; /* the server said that there is a terminal, and not only pipes */
	int64_t code;
	struct pty_side_tap sides[PTY_SIDES];
	struct tally early;
	pty_typed_fn typed; /* the caller's, to set after init */
	void *ctx;
};

enum status pty_tap_init(struct pty_tap *t) MUSTCHECK;
void pty_tap_done(struct pty_tap *t); /* safe on a zeroed one */
void pty_tap_put(struct pty_tap *t, enum pty_side from, struct str in);

#endif
