/* Connections to docker's socket for the locator, which can make none: so it can't have
 * another socket than the one that the configuration names, and finds docker again after
 * docker was started anew. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy/super/super.h"

static enum status
connect_docker(struct super *s, int *ret_fd)
{
	struct str path = image_text(s->policy.image, OPT_EXEC_DOCKER);
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd;

	if (path.n == 0 || path.n >= sizeof to.sun_path || path.p[0] != '/')
		return ST_BAD_CONFIG;
	memcpy(to.sun_path, path.p, path.n);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return ST_SYSTEM;
	/* Without waiting: one whose backlog is full says EAGAIN. */
	if (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0) {
		log_error(&s->log, "exec.docker %.*s: %s", STR_ARG(path),
			  strerror(errno));
		(void)close(fd);
		return ST_UPSTREAM_UNAVAILABLE;
	}
	*ret_fd = fd;
	return ST_OK;
}

void
docker_heard(struct slot *locator, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct super *s = locator->super;
	int fd = -1;
	enum status st = connect_docker(s, &fd);

	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	st = b.st == ST_OK ? ask_answer(locator->line, ASK_DOCKER, m->seq,
					str_of(b.p, b.len), &fd, fd < 0 ? 0 : 1)
			   : b.st;
	if (st != ST_OK)
		log_error(&s->log, "DOCKER: the answer is lost: %s", status_code(st));
	if (fd >= 0)
		(void)close(fd);
}
