/* The certificates that sandboxes of a docker server trust, at the place where its docker
 * mounts them from (`ca_file`): written here, since no role may write there.  The text is the
 * keeper's by way of control; what isn't certificates is refused, and so is any other place
 * than one of the configuration's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/super/super.h"

enum { TEXT_MAX = 32768, LINE_MAX_HERE = 64 };

static bool
is_base64(struct str line)
{
	for (size_t i = 0; i < line.n; i++) {
		char c = line.p[i];

		if (!ascii_is_alpha(c) && !ascii_is_digit(c) && c != '+' && c != '/' &&
		    c != '=')
			return false;
	}
	return line.n > 0 && line.n <= LINE_MAX_HERE;
}

/* Whole certificates in the form of RFC 7468, and nothing else. */
static bool
is_certificates(struct str text)
{
	bool is_inside = false;
	size_t lines = 0; /* since the last edge */

	if (text.n == 0 || text.n > TEXT_MAX || text.p[text.n - 1] != '\n')
		return false;
	for (struct str rest = str_head(text, text.n - 1); rest.p != NULL;) {
		struct str line = str_cut(&rest, '\n');
		bool is_edge =
			str_eq(line, is_inside ? STR("-----END CERTIFICATE-----")
					       : STR("-----BEGIN CERTIFICATE-----"));

		if (is_edge ? is_inside && lines == 0 : !is_inside || !is_base64(line))
			return false;
		is_inside = is_inside != is_edge;
		lines = is_edge ? 0 : lines + 1;
	}
	return !is_inside;
}

/* A place in no folder is none, whatever made the image. */
static bool
is_of_policy(const struct image *im, struct str path)
{
	size_t n;
	const struct image_exec_server *of = image_exec_servers(im, &n);

	for (size_t i = 0; i < n; i++)
		if (str_starts(path, STR("/")) &&
		    str_eq(image_str(im, of[i].ca_file), path))
			return true;
	return false;
}

/* The directory of path, which must be nobody's else: who may write there could give
 * sandboxes another authority.  path is cut after it. */
static int
open_folder(char *path, const char **ret_name)
{
	char *slash = strrchr(path, '/');
	struct stat info;

	*ret_name = slash + 1;
	*slash = '\0';
	const char *folder = slash == path ? "/" : path;
	if (mkdir(folder, 0755) < 0 && errno != EEXIST)
		return -1;
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &info) == 0 && (info.st_mode & 022) == 0 &&
	    (info.st_uid == geteuid() || info.st_uid == 0))
		return fd;
	(void)close(fd);
	errno = EPERM;
	return -1;
}

/* A link is another file than ours, whatever it leads to. */
static bool
says(int folder, const char *name, struct str text)
{
	char there[TEXT_MAX + 1];
	struct stat info;
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return false;
	ssize_t n = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
				    (info.st_mode & 0777) == 0644
			    ? read(fd, there, sizeof there)
			    : -1;
	(void)close(fd);
	return n >= 0 && str_eq(str_of(there, (size_t)n), text);
}

static bool
write_whole(int fd, struct str text)
{
	return fchmod(fd, 0644) == 0 && write(fd, text.p, text.n) == (ssize_t)text.n &&
	       fsync(fd) == 0;
}

/* Sandboxes that are there keep the file that they were started with. */
static bool
replace(int folder, const char *name, struct str text)
{
	CLEANUP(buf_done) struct buf next = { 0 };
	int fd = -1;

	buf_init(&next, 1024);
	buf_putf(&next, ".%s.new", name);
	if (buf_cstr(&next) != NULL) {
		(void)unlinkat(folder, buf_cstr(&next), 0);
		fd = openat(folder, buf_cstr(&next),
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	}
	if (fd < 0)
		return false;
	bool is_done = write_whole(fd, text);
	(void)close(fd);
	return is_done && renameat(folder, buf_cstr(&next), folder, name) == 0;
}

static enum status
publish(struct super *s, struct str where, struct str text)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	const char *name;

	if (!is_of_policy(s->policy.image, where))
		return ST_NOT_FOUND;
	buf_init(&path, 1024);
	buf_put(&path, where);
	if (!is_certificates(text) || buf_cstr(&path) == NULL)
		return ST_BAD_PARAMETER;
	int folder = open_folder(path.p, &name);
	bool is_done = folder >= 0 &&
		       (says(folder, name, text) || replace(folder, name, text));
	if (!is_done)
		log_error(&s->log, "ca_file %.*s: %s%s", STR_ARG(where),
			  strerror(errno),
			  folder < 0 && errno == EPERM
				  ? ": its folder must be root's or this user's, and "
				    "writable by nobody else"
				  : "");
	if (folder >= 0)
		(void)close(folder);
	return is_done ? ST_OK : ST_SYSTEM;
}

void
publish_heard(struct slot *control, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct super *s = control->super;
	struct wire w = wire_from(m->body);
	struct str where = wire_str(&w), text = wire_str(&w);
	enum status st =
		wire_end(&w) == ST_OK ? publish(s, where, text) : ST_BAD_PARAMETER;

	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	st = b.st == ST_OK ? ask_answer(control->line, ASK_PUBLISH, m->seq,
					str_of(b.p, b.len), NULL, 0)
			   : b.st;
	if (st != ST_OK)
		log_error(&s->log, "PUBLISH: the answer is lost: %s", status_code(st));
}
