#ifndef PROXY_WORKER_EXEC_H
#define PROXY_WORKER_EXEC_H
/*
 * exec: what is different about a turn of a listener of kind opensandbox.  Whoever asks
 * there is no sandbox: control says who it is and where the request goes (PLACE,
 * proxy/io/place.h), so the chain of filters is not run.
 *
 *	head ─> GATHER ─> PLACE ─┬─> answered by control, or refused
 *	       (JSON only)       └─> HOLD ─> REACH ─> FORWARD ─> over
 *	                         (sensitive only)
 *
 * GATHER to REACH are the turn's OPEN.  A JSON body is read whole before anybody is
 * asked; every other is streamed.  A request whose answer is a stream of events and that
 * a person has to allow is answered at once, as execd would: init, and pings until the
 * decision (proxy/flow/exec_tap.h tells the form).
 *
 * A route that control gave is a ticket: LEFT tells when it is over, or that nobody waits
 * any more for what was asked.
 *
 * These are the hooks of turn*.c.  On other listeners they do nothing and say no, but
 * for those whose name tells that the request is known to be one of these.
 */
#include "proxy/worker/turn_in.h"

bool turn_is_exec(const struct turn *t);

/* The head is there: instead of the chain's request phase. */
void exec_begin(struct turn *t);
/* Is the body still being gathered?  Then it, and its end, are for these. */
bool exec_gathers(const struct turn *t);
void exec_gather(struct turn *t, struct str piece);
void exec_gathered(struct turn *t);
/* A connection to the endpoint; as turn_leg.c's make(). */
enum status exec_dial(struct turn *t, dial_fn fn) MUSTCHECK;
/* The leg is there: record, then send head and gathered body. */
void exec_forward(struct turn *t);
/* The response's head is there. */
void exec_respond(struct turn *t);
/* A response that becomes a tunnel. */
void exec_accept(struct turn *t, struct head *h);
/* What may go on of trailers; NULL: nothing. */
const struct head *exec_trailers(struct turn *t, bool is_response,
				 const struct head *trailers);
/* Bytes on their way.  ST_TOO_BIG: of a file that is uploaded. */
enum status exec_watch(struct turn *t, bool is_response, struct str piece) MUSTCHECK;
/* What a request may carry at most; 0: no limit. */
uint64_t exec_body_max(const struct turn *t);
/* 1xx: may it go on?  Of an endpoint only a plain 100, and none behind a begun answer. */
bool exec_interim(struct turn *t, struct head *h) MUSTCHECK;
/* The answer was begun before the endpoint's came. */
bool exec_is_streaming(const struct turn *t);

/* There is another control: it is told what the one before gave routes for. */
void exec_keep(struct worker *w);
/* A ticket of the control that there is now is over. */
void exec_left(struct worker *w, uint64_t ticket);
/* With each tick: control is told what has ended, as far as it couldn't be told at once. */
void exec_pay(struct worker *w);

void exec_tick(struct turn *t);
/* In place of turn_refuse(). */
void exec_refuse(struct turn *t, enum status why);
/* How it ended, once. */
void exec_ended(struct turn *t, enum status why);
/* All that is held. */
void exec_over(struct turn *t);

#endif
