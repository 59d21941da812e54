#ifndef PROXY_CLI_DEVICES_H
#define PROXY_CLI_DEVICES_H
/*
 * devices: a /dev of the box's own.  It holds what every program expects (null, zero,
 * full, random, urandom, tty), terminals and shared memory of its own, and nothing
 * else: what the host has there, now or plugged in later, are disks, consoles, serial
 * lines, input devices and message queues, and root needs no capability to open them.
 */
#include "proxy/base/buf.h"

/* In a mount namespace of our own, whose mounts are private. */
enum status devices_make(struct buf *why) MUSTCHECK;

#endif
