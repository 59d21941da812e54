#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/super/super.h"

/* Secrets that somebody else keeps: files that Kubernetes mounts, variables that a
 * container was started with.  Opened here, since the keeper has no way to them, and not
 * read: GIVE_SOURCE. */

enum { AGAIN_MS = 10000, SOURCES_MAX = 256, TEXT_MAX = 128, BYTES_MAX = 65536 };

struct giving {
	struct slot *keeper;
	size_t n;
	enum status st;
};

static void
give_one(struct giving *g, const char *kind, struct str name, int fd)
{
	CLEANUP(buf_done) struct buf text = { 0 };

	buf_init(&text, TEXT_MAX);
	buf_putf(&text, "%s/", kind);
	buf_put(&text, name);
	if (g->st == ST_OK)
		g->st = buf_cstr(&text) == NULL || ++g->n > SOURCES_MAX
				? ST_TOO_BIG
				: give(g->keeper, GIVE_SOURCE, 0, buf_cstr(&text), &fd,
				       1);
	(void)close(fd);
}

/* Kubernetes' names are links to links: they are followed.  Anything but a plain file of
 * a plain name is passed over. */
static void
give_file(struct giving *g, int dir, const char *name)
{
	struct stat info;

	if (name[0] == '.' || !str_is_name(str_from(name)))
		return;
	int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
		give_one(g, "files", str_from(name), fd);
	else
		(void)close(fd);
}

static void
give_files(struct giving *g, const struct image *im)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	struct str text = image_text(im, OPT_VAULT_FILES);

	if (text.n == 0)
		return;
	buf_init(&path, 4096);
	buf_put(&path, text);
	DIR *dir = buf_cstr(&path) == NULL ? NULL : opendir(buf_cstr(&path));
	if (dir == NULL) {
		log_error(&g->keeper->super->log, "vault.files %.*s: %s", STR_ARG(text),
			  strerror(errno));
		return;
	}
	const struct dirent *entry;
	while ((entry = readdir(dir)) != NULL)
		give_file(g, dirfd(dir), entry->d_name);
	(void)closedir(dir);
}

static void
give_variable(struct giving *g, struct str name)
{
	CLEANUP(buf_done) struct buf key = { 0 };

	buf_init(&key, TEXT_MAX);
	buf_put(&key, name);
	const char *value = buf_cstr(&key) == NULL ? NULL : getenv(buf_cstr(&key));
	if (value == NULL || !str_is_name(name)) {
		log_error(&g->keeper->super->log, "vault.environment: no variable %.*s",
			  STR_ARG(name));
		return;
	}
	size_t n = strnlen(value, BYTES_MAX);
	int fd = memfd_create("variable", MFD_CLOEXEC);
	if (fd < 0 || write(fd, value, n) != (ssize_t)n) {
		g->st = ST_SYSTEM;
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	give_one(g, "env", name, fd);
}

static void
give_variables(struct giving *g, const struct image *im)
{
	struct str names = image_text(im, OPT_VAULT_ENVIRONMENT);

	while (names.n > 0)
		give_variable(g, str_trim(str_cut(&names, ',')));
}

enum status
sources_give(struct slot *keeper, const struct image *im)
{
	struct giving g = { .keeper = keeper, .st = ST_OK };

	give_files(&g, im);
	give_variables(&g, im);
	return g.st == ST_OK ? give(keeper, GIVE_SOURCE, 1, "", NULL, 0) : g.st;
}

/* The token of a pod's account is replaced under us; the keeper takes what differs for
 * another version. */
static void
on_again(void *ctx)
{
	struct super *s = ctx;

	loop_timer_set(&s->sources, AGAIN_MS);
	if (image_text(s->policy.image, OPT_VAULT_FILES).n == 0)
		return;
	for (size_t i = 1; i < s->slots_n; i++) {
		struct slot *slot = &s->slots[i];
		if (slot->role == ROLE_KEEPER && slot->state == SLOT_SERVING &&
		    sources_give(slot, s->policy.image) != ST_OK)
			spawn_kill(slot);
	}
}

void
sources_watch(struct super *s)
{
	loop_timer_init(&s->sources, s->loop, on_again, s);
	loop_timer_set(&s->sources, AGAIN_MS);
}
