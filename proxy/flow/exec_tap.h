#ifndef PROXY_FLOW_EXEC_TAP_H
#define PROXY_FLOW_EXEC_TAP_H
/*
 * exec_tap: reads along with the event stream of execd (commands, code, sessions) and
 * keeps what the audit wants: which execution it was, how it ended, and how much and
 * what came out, as octets and SHA-256 of the texts that a client gets.
 *
 * It only looks: the stream is never copied, held up, changed or failed.  An event is one
 * line, as the clients read it: a JSON object, bare or behind "data:"; lines of server-
 * sent events that carry none (comments, event, id, retry) and blank ones are read over.
 * A line that is anything else is counted as unreadable; reading goes on with the next.
 * The memory is that of the struct and of at most four digests, whatever a peer sends;
 * an event may be of any length.  However the stream is cut, the result is the same.
 *
 * Of several init, error or execution_complete the last counts, as with the clients.
 * stdout and stderr count what was read, also of an event that breaks off later.
 */
#include "proxy/base/held.h"
#include "proxy/base/jpick.h"
#include "proxy/flow/tally.h"

enum exec_out { EXEC_STDOUT, EXEC_STDERR, EXEC_OUTS };
enum { EXEC_TAP_KINDS = 32, EXEC_TAP_KINDS_ROOM = 512, EXEC_TAP_PREFIX = 6 };

/* One event, until its line is over. */
struct exec_event {
	struct held type, text, ename, evalue, ms;
	bool is_early;  /* text came before type */
	bool is_forked; /* and is in `early` */
};

struct exec_tap {
	/* What was found, at any time. */
	struct tally out[EXEC_OUTS]; /* texts: events with one */
	uint64_t events, unreadable; /* lines that are events; that are nothing */
	bool is_complete;            /* execution_complete was seen */
	bool has_ms, has_error, has_code;
	uint64_t ms; /* execution_time */
	int64_t code;
	struct held id, ename;
	bool is_kinds_cut; /* there were more kinds of results, or longer ones */

	/* Its own. */
	uint8_t state, prefix_n, kinds_count;
	uint16_t kinds_n;
	char prefix[EXEC_TAP_PREFIX];
	char kinds[EXEC_TAP_KINDS_ROOM]; /* each behind its length */
	struct jpick pick;
	struct exec_event now;
	struct tally early[EXEC_OUTS];
};

enum status exec_tap_init(struct exec_tap *t) MUSTCHECK;
void exec_tap_done(struct exec_tap *t); /* safe on a zeroed one */
void exec_tap_put(struct exec_tap *t, struct str in);
/* The stream is over; a last line without its end counts. */
void exec_tap_end(struct exec_tap *t);

/* The exit code: what the error says, 0 after execution_complete; false: not known. */
bool exec_tap_exit(const struct exec_tap *t, int64_t *ret_code) MUSTCHECK;
/* Kinds of results (names of MIME types), each once, in order; false behind the last. */
bool exec_tap_kind(const struct exec_tap *t, size_t i, struct str *ret_kind) MUSTCHECK;

#endif
