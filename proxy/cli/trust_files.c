#include "proxy/cli/trust_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const trust_bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",                /* Debian, Arch, Alpine */
	"/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, before its... */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* ...and since */
	"/etc/ssl/ca-bundle.pem",                            /* SUSE */
	"/etc/ssl/cert.pem",                                 /* Alpine's OpenSSL */
	NULL,
};

const char *const trust_stores[] = {
	"/etc/ssl/certs/java/cacerts",
	"/etc/pki/ca-trust/extracted/java/cacerts",
	"/etc/pki/java/cacerts",
	NULL,
};

static bool
has_certificate(struct str text)
{
	const struct str begin = STR("-----BEGIN CERTIFICATE-----");

	while (text.n > 0)
		if (str_starts(str_cut(&text, '\n'), begin))
			return true;
	return false;
}

static enum status
read_all(int fd, struct buf *b)
{
	char space[16384];
	ssize_t n;

	while ((n = read(fd, space, sizeof space)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ST_SYSTEM;
		buf_put(b, str_of(space, (size_t)n));
		if (b->st != ST_OK)
			return b->st;
	}
	return ST_OK;
}

enum status
trust_read(const char *path, struct buf *b)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	/* What lies there may be another's: a pipe would never end. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat at;
	enum status st = ST_NOT_FOUND;

	buf_init(&text, TRUST_FILE_MAX);
	if (fd >= 0 && fstat(fd, &at) == 0 && S_ISREG(at.st_mode))
		st = read_all(fd, &text);
	if (fd >= 0)
		(void)close(fd);
	if (st != ST_OK || !has_certificate(str_of(text.p, text.len)))
		return ST_NOT_FOUND;
	buf_put(b, str_of(text.p, text.len));
	if (text.p[text.len - 1] != '\n')
		buf_putc(b, '\n');
	return b->st;
}

enum status
trust_read_system(struct buf *b)
{
	enum status st = ST_NOT_FOUND;

	for (size_t i = 0; st == ST_NOT_FOUND && trust_bundles[i] != NULL; i++)
		st = trust_read(trust_bundles[i], b);
	return st;
}

enum status
trust_write(const char *path, struct str text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
	enum status st = fd < 0 ? ST_SYSTEM : ST_OK;

	while (st == ST_OK && text.n > 0) {
		ssize_t n = write(fd, text.p, text.n);
		if (n > 0)
			text = str_skip(text, (size_t)n);
		else if (n == 0 || errno != EINTR)
			st = ST_SYSTEM;
	}
	/* Whatever the caller's umask is, the command may run as another user. */
	if (st == ST_OK && fchmod(fd, 0444) < 0)
		st = ST_SYSTEM;
	if (fd >= 0)
		(void)close(fd);
	return st;
}
