#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proxy/io/state_dir.h"
#include "proxy/super/super.h"

enum { LEDGER_TRIES = 250, LEDGER_TRY_NS = 20000000 };

/* Others may pass through to what is theirs (roles have a user of their own when we are
 * root), but not look around. */
static mode_t
dir_mode(void)
{
	return geteuid() == 0 ? 0711 : 0700;
}

/* mkdir -p: parents as the umask of services has them. */
static bool
make_path(char *path)
{
	for (char *p = path + 1; *p != '\0'; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		bool ok = mkdir(path, 0755) == 0 || errno == EEXIST;
		*p = '/';
		if (!ok)
			return false;
	}
	return mkdir(path, dir_mode()) == 0 || errno == EEXIST;
}

static bool
is_ours(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	errno = EPERM;
	return st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

static enum status
failed(struct super *s, struct buf *why, const char *what)
{
	buf_putf(why, "state_dir %s: %s: %s", buf_cstr(&s->state_dir), what,
		 strerror(errno));
	return ST_SYSTEM;
}

enum status
state_open(struct super *s, struct buf *why)
{
	struct str text = image_text(s->policy.image, OPT_STATE_DIR);
	CLEANUP(buf_done) struct buf path = { 0 };

	buf_init(&s->state_dir, 4096);
	buf_init(&path, 4096);
	if (state_dir_put(&s->state_dir, text) != ST_OK ||
	    buf_cstr(&s->state_dir) == NULL) {
		buf_putf(why, "state_dir: give an absolute path");
		return ST_BAD_CONFIG;
	}
	buf_put(&path, str_of(s->state_dir.p, s->state_dir.len));
	if (buf_cstr(&path) == NULL)
		return ST_NOMEM;
	mode_t mask = umask(0);
	bool made = make_path(path.p);
	(void)umask(mask);
	if (!made)
		return failed(s, why, "cannot be made");
	s->state_fd = open(path.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->state_fd < 0 || !is_ours(s->state_fd))
		return failed(s, why, "must belong to this user, writable by no other");
	if (fchmod(s->state_fd, dir_mode()) < 0)
		return failed(s, why, "chmod");
	s->lock_fd = openat(s->state_fd, "lock",
			    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0 || flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return failed(s, why, "another gateway uses it");
	return ST_OK;
}

enum status
state_open_for(struct super *s, enum role r, int *ret_fd)
{
	const struct slot *slot = slot_of(s, r);
	struct stat st;
	int fd;

	if (mkdirat(s->state_fd, slot->name, 0700) < 0 && errno != EEXIST)
		return ST_SYSTEM;
	fd = openat(s->state_fd, slot->name,
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return ST_SYSTEM;
	/* EINVAL: a user namespace without that id, where roles keep ours. */
	if (fstat(fd, &st) < 0 || (geteuid() == 0 && st.st_uid != s->uid &&
				   fchown(fd, s->uid, s->gid) < 0 && errno != EINVAL)) {
		(void)close(fd);
		return ST_SYSTEM;
	}
	/* Who may write there may put older files in place of ours. */
	if ((st.st_mode & 022) != 0 && fchmod(fd, st.st_mode & 0755) < 0) {
		(void)close(fd);
		return ST_SYSTEM;
	}
	*ret_fd = fd;
	return ST_OK;
}

/* Its ledger holds the lock of its directory as long as it runs (give_state()).  Nobody
 * is served yet, so nobody is kept waiting. */
enum status
state_await_ledger(struct super *s, struct buf *why)
{
	const struct timespec pause = { 0, LEDGER_TRY_NS };
	int fd, tries = 0;
	enum status st = state_open_for(s, ROLE_LEDGER, &fd);

	if (st != ST_OK)
		return failed(s, why, "ledger");
	while (flock(fd, LOCK_EX | LOCK_NB) < 0 && ++tries < LEDGER_TRIES) {
		if (tries == 1)
			log_info(&s->log, "the ledger of the gateway that ended still "
					  "stores rows: waiting");
		(void)nanosleep(&pause, NULL);
	}
	if (tries == LEDGER_TRIES)
		st = failed(s, why,
			    "the ledger of the gateway that ended still stores rows");
	(void)close(fd);
	return st;
}
