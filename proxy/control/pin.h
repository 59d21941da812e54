#ifndef PROXY_CONTROL_PIN_H
#define PROXY_CONTROL_PIN_H
/*
 * pin: asks of the locator (proxy/locator/locator.h): where the container of a sandbox is,
 * that what was found, and only that, may send, and how much memory it holds.
 *
 * Pins end with the line to the locator: a new locator has none, and who wants one pins
 * anew.  Until then its sandbox reaches nothing.
 */
#include "proxy/base/addr.h"
#include "proxy/control/control.h"

struct pin; /* an open ask */

enum { PIN_ADDRS = 2 };

struct pin_found {
	struct addr of[PIN_ADDRS]; /* of pin_locate() */
	size_t n;
	uint64_t octets; /* of pin_measure() */
};

/* Comes once, never from inside. */
typedef void (*pin_fn)(void *ctx, enum status st, const struct pin_found *found);

struct pin_wish {
	struct str id;       /* ours */
	struct str upstream; /* its server's; not of pin_add() */
	struct str network;  /* docker's name of the network; of pin_locate() */
	pin_fn fn;
	void *ctx;
};

/* Does the configuration name a docker? */
bool pin_is_on(const struct control *c);
/* ST_NO_LOCATOR: there is none now. */
enum status pin_locate(struct control *c, const struct pin_wish *w,
		       struct pin **ret_pin) MUSTCHECK;
enum status pin_add(struct control *c, const struct pin_wish *w,
		    struct pin **ret_pin) MUSTCHECK;
/* What its container holds just now.  ST_NO_LOCATOR: also where no docker is named. */
enum status pin_measure(struct control *c, const struct pin_wish *w,
			struct pin **ret_pin) MUSTCHECK;
void pin_cancel(struct pin *p); /* NULL is fine; fn comes no more */
void pin_remove(struct control *c, struct str id);
bool pin_is_there(const struct control *c, struct str id);

/* The line to a locator came or went: nothing is pinned any more. */
void pin_forget_all(struct control *c);

#endif
