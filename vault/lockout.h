#ifndef VAULT_LOCKOUT_H
#define VAULT_LOCKOUT_H
/*
 * lockout: five wrong passphrases, then none is taken for fifteen minutes.
 *
 * Each try is counted on disk before it is made, so killing the keeper in the middle buys
 * nothing.  Time is counted by the clock that nobody can set while the machine runs
 * (CLOCK_BOOTTIME); after a reboot by the wall clock, and one that was set back starts
 * the fifteen minutes anew.
 */
#include "proxy/base/str.h"

enum { LOCKOUT_TRIES = 5, LOCKOUT_MS = 15 * 60 * 1000, LOCKOUT_BOOT = 36 };

struct lockout_now {
	char boot[LOCKOUT_BOOT]; /* the kernel's name for this boot */
	uint64_t boot_ms, wall_ms;
};

struct lockout {
	int dir; /* the caller's */
	uint32_t failures;
	struct lockout_now at; /* of the last failure */
};

/* boot: of the kernel, at least LOCKOUT_BOOT bytes, or empty where it is not to be had. */
struct lockout_now lockout_now(struct str boot);
enum status lockout_open(int dir, struct lockout *ret_l) MUSTCHECK;
/* 0: a try may be made. */
uint64_t lockout_left_ms(struct lockout *l, const struct lockout_now *now);
/* Counts a failure before it is one.  ST_VAULT_LOCKED: don't try. */
enum status lockout_try(struct lockout *l, const struct lockout_now *now) MUSTCHECK;
enum status lockout_succeeded(struct lockout *l) MUSTCHECK;

#endif
