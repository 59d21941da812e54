#ifndef PROXY_IO_JAIL_H
#define PROXY_IO_JAIL_H
/*
 * jail: what a role may still ask of the kernel once it has started.  A table
 * (jail.def) lists the system calls of each role, with constraints on arguments; all
 * else kills the process (returns EPERM or EACCES for the few that libc falls back
 * from).  Landlock forbids every path and every bind and connect that the role does
 * not need, where the kernel has it.
 */
#include "proxy/io/ask.h"

struct jail_report { /* what is in force, for doctor and the log */
	bool no_new_privs, seccomp, landlock;
	int landlock_abi; /* 0: the kernel has none */
};

/* The version of Landlock that this kernel has, 0: none.  Not inside a jail. */
int jail_landlock_abi(void);
/* First thing in main(): no core dumps, not dumpable, umask, no new privileges,
 * capabilities dropped (those in keep stay: bits of 1 << CAP_*), limits. */
enum status jail_early(enum role r, uint64_t keep) MUSTCHECK;
/* Last thing before the first byte of a peer.  writable: directory that the role may
 * still write below, or NULL. */
enum status jail_enter(enum role r, const char *writable,
		       struct jail_report *ret_report) MUSTCHECK;

#endif
