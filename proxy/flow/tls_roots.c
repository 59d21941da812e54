#include "proxy/flow/tls_roots.h"

#include <unistd.h>

static void
drop_next(struct tls_roots *t)
{
	if (!t->is_same)
		tls_client_free(t->next);
	t->next = NULL;
	t->is_same = false;
}

static bool
is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static enum status
load(struct tls_roots *t, int fd)
{
	if (fstat(fd, &t->next_file) == -1)
		return ST_SYSTEM;
	t->is_same = t->client != NULL && is_same_file(&t->file, &t->next_file);
	if (t->is_same) {
		t->next = t->client;
		return ST_OK;
	}
	return tls_client_read(fd, &t->next);
}

/* Its place among the descriptors: conf/compile.h. */
static size_t
place_of(const struct image *im)
{
	size_t at = 1;

	at += image_text(im, OPT_GEO_COUNTRY).n > 0;
	at += image_text(im, OPT_GEO_ASN).n > 0;
	return at;
}

enum status
tls_roots_prepare(struct tls_roots *t, const struct image *im, struct ask_msg *m)
{
	int fd = ask_msg_take(m, place_of(im));
	enum status st = ST_OK;

	drop_next(t);
	if (fd >= 0) {
		st = load(t, fd);
		(void)close(fd);
	} else if (image_text(im, OPT_UPSTREAM_CA).n > 0)
		st = m->lost_fds ? ST_NO_FILES : ST_BAD_CONFIG;
	return st;
}

bool
tls_roots_commit(struct tls_roots *t)
{
	struct tls_client *old = t->client;
	bool is_other = !t->is_same;

	t->client = t->next;
	t->file = t->next_file;
	t->next = NULL;
	t->is_same = false;
	if (is_other)
		tls_client_free(old);
	return is_other;
}

void
tls_roots_done(struct tls_roots *t)
{
	drop_next(t);
	tls_client_free(t->client);
	t->client = NULL;
}
