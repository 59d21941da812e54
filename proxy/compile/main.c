/*
 * sandgate-compile: reads the configuration, writes one sealed image, tells its parent,
 * ends.  The only process that parses YAML, and it can do nothing but read files.  See
 * conf/compile.h for what it says.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/compile.h"
#include "conf/conf.h"
#include "conf/image.h"
#include "proxy/io/jail.h"

enum { FDS_MAX = 4, PATH_MAX_LEN = 8192 };

struct outcome {
	enum status st;
	int fds[FDS_MAX]; /* image, then databases, then roots */
	size_t fds_n;
};

/* A path in the file is meant from where the file lies. */
static int
open_beside(const char *config, struct str path)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const char *slash = strrchr(config, '/');

	buf_init(&b, PATH_MAX_LEN);
	if (!str_starts(path, STR("/")) && slash != NULL)
		buf_put(&b, str_of(config, (size_t)(slash - config) + 1));
	buf_put(&b, path);
	const char *full = buf_cstr(&b);
	return full == NULL ? -1 : open(full, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static void
add_file(struct outcome *o, struct report *r, const char *config, struct str path)
{
	if (path.n == 0 || o->st != ST_OK)
		return;
	int fd = open_beside(config, path);
	if (fd < 0) {
		report_error(r, (struct place){ path, 0, 0 }, "%s", strerror(errno));
		o->st = ST_BAD_CONFIG;
		return;
	}
	o->fds[o->fds_n++] = fd;
}

/* Where distributions keep the authorities that they trust.  A system without any reaches
 * no host by TLS of ours, and its tunnels go on. */
static void
add_roots(struct outcome *o, struct report *r, const char *config, struct str path)
{
	static const char *const usual[] = {
		"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem",
		"/etc/ssl/cert.pem",
	};
	int fd = -1;

	if (path.n > 0) {
		add_file(o, r, config, path);
		return;
	}
	for (size_t i = 0; i < COUNT_OF(usual) && fd < 0 && o->st == ST_OK; i++)
		fd = open_beside(config, str_from(usual[i]));
	if (fd >= 0)
		o->fds[o->fds_n++] = fd;
}

/* What the compiler wrote is opened once as every role will, so that an image that does
 * not open is found here and not in the middle of a reload. */
static void
add_files(struct outcome *o, struct report *r, const char *config)
{
	struct image *im;

	o->st = image_open(o->fds[0], &im);
	if (o->st != ST_OK)
		return;
	add_file(o, r, config, image_text(im, OPT_GEO_COUNTRY));
	add_file(o, r, config, image_text(im, OPT_GEO_ASN));
	add_roots(o, r, config, image_text(im, OPT_UPSTREAM_CA));
	image_close(im);
}

static void
compile(struct outcome *o, struct report *r, const char *config)
{
	struct jail_report jail;

	o->st = jail_early(ROLE_COMPILE, 0);
	if (o->st == ST_OK)
		o->st = jail_enter(ROLE_COMPILE, NULL, &jail);
	if (o->st != ST_OK) {
		report_error(r, (struct place){ STR("sandgate-compile"), 0, 0 },
			     "the kernel refuses the jail: %s", strerror(errno));
		return;
	}
	o->st = conf_load(config, r, &o->fds[0]);
	if (o->st != ST_OK)
		return;
	o->fds_n = 1;
	add_files(o, r, config);
}

static bool
tell(const struct outcome *o, struct report *r)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * FDS_MAX)];
	} control = { .bytes = { 0 } };
	size_t fds_n = o->st == ST_OK ? o->fds_n : 0;

	buf_init(&b, COMPILE_PACKET_MAX);
	buf_put_u16(&b, (uint16_t)o->st);
	report_put(&b, r);
	struct iovec iov = { b.p, b.len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	if (fds_n > 0) {
		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * fds_n);
		struct cmsghdr *h = CMSG_FIRSTHDR(&mh);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int) * fds_n);
		memcpy(CMSG_DATA(h), o->fds, sizeof(int) * fds_n);
	}
	return sendmsg(COMPILE_FD, &mh, MSG_NOSIGNAL) == (ssize_t)b.len;
}

int
main(int argc, char **argv)
{
	struct outcome o = { ST_INTERNAL, { -1, -1, -1, -1 }, 0 };
	CLEANUP(report_done) struct report r = { 0 };

	if (argc != 2 || report_init(&r) != ST_OK) {
		(void)fprintf(stderr, "sandgate-compile is started by sandgate\n");
		return 2;
	}
	compile(&o, &r, argv[1]);
	return tell(&o, &r) && o.st == ST_OK ? 0 : 1;
}
