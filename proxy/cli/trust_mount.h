#ifndef PROXY_CLI_TRUST_MOUNT_H
#define PROXY_CLI_TRUST_MOUNT_H
/*
 * trust_mount: the files of trust where programs look for them.  They lie on a small
 * file system of their own, read-only once they are written.
 */
#include <stdio.h>

#include "proxy/cli/trust.h"

/* In a box's mount namespace, whose /run is its own: TRUST_DIR, and the bundle over
 * those of the system. */
enum status trust_mount(const struct trust *t, struct buf *why) MUSTCHECK;

/* In the mount namespace of a process that exists, whose /proc/PID/mountinfo this is:
 * over its bundles, made of what they were and ours.  *why says what is in the way;
 * ret_path: the bundle. */
enum status trust_mount_over(struct str ours, FILE *mountinfo, struct buf *why,
			     const char **ret_path) MUSTCHECK;

#endif
