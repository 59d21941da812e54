/*
 * What placeholders are drawn from (proxy/base/shape.h): a key that lies in the state
 * directory, so that a sandbox keeps its placeholders when the gateway starts again.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "proxy/base/enc.h"
#include "proxy/super/super.h"

static bool
draw(int fd, struct sip_key *key)
{
	const ssize_t n = (ssize_t)sizeof(key->bytes);

	return getrandom(key->bytes, sizeof(key->bytes), 0) == n &&
	       pwrite(fd, key->bytes, sizeof(key->bytes), 0) == n;
}

enum status
shapes_open(struct super *s, struct buf *why)
{
	int fd = openat(s->state_fd, "shapes",
			O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	ssize_t n = -1;

	if (fd >= 0)
		n = pread(fd, s->shapes.bytes, sizeof(s->shapes.bytes), 0);
	/* A short one is what a crash left of the first start. */
	bool ok = n == (ssize_t)sizeof(s->shapes.bytes) ||
		  (n >= 0 && draw(fd, &s->shapes));
	if (!ok)
		buf_putf(why, "state_dir %s: shapes: %s", buf_cstr(&s->state_dir),
			 strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	return ok ? ST_OK : ST_SYSTEM;
}

enum status
shapes_give(struct slot *slot)
{
	CLEANUP(buf_done) struct buf hex = { 0 };

	if (slot->role != ROLE_WORKER && slot->role != ROLE_CONNECTOR &&
	    slot->role != ROLE_CONTROL)
		return ST_OK;
	buf_init(&hex, 64);
	enc_put_hex(&hex, str_of(slot->super->shapes.bytes,
				 sizeof(slot->super->shapes.bytes)));
	return buf_cstr(&hex) == NULL
		       ? ST_NOMEM
		       : give(slot, GIVE_SHAPES, 0, buf_cstr(&hex), NULL, 0);
}
