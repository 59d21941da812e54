#include "proxy/cli/mask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/cli/devices.h"

static const char *const directories[] = {
	"/run",
	"/var/run",
	"/tmp/.X11-unix",
	"/tmp/.ICE-unix",
};

static const char *const variables[] = {
	"SSH_AUTH_SOCK",
	"SSH_AGENT_PID",
	"DBUS_SESSION_BUS_ADDRESS",
	"DBUS_SYSTEM_BUS_ADDRESS",
	"DISPLAY",
	"WAYLAND_DISPLAY",
	"XAUTHORITY",
	"XDG_RUNTIME_DIR",
	"GPG_AGENT_INFO",
	"DOCKER_HOST",
	"CONTAINER_HOST",
	"GNOME_KEYRING_CONTROL",
	"NOTIFY_SOCKET",
	"LISTEN_FDS",
	"LISTEN_PID",
	"TMUX",
	"STY",
	"VSCODE_IPC_HOOK_CLI",
};

bool
mask_is_variable(struct str assignment)
{
	struct str name = str_cut(&assignment, '=');

	for (size_t i = 0; i < COUNT_OF(variables); i++)
		if (str_eq(name, str_from(variables[i])))
			return true;
	return false;
}

static enum status
fail(struct buf *why, const char *what, const char *path)
{
	buf_putf(why, "%s %s: %s", what, path, strerror(errno));
	return ST_SYSTEM;
}

/* An empty, small directory over another.  A path that isn't there needs no mask. */
static enum status
cover_directory(const char *path, struct buf *why)
{
	struct stat at;

	if (lstat(path, &at) < 0 || !S_ISDIR(at.st_mode))
		return ST_OK;
	if (mount("sandgate", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755") <
	    0)
		return fail(why, "could not mask", path);
	return ST_OK;
}

/* /dev/null over a socket: connect() then says that it isn't one. */
static enum status
cover_file(const char *with, const char *path, struct buf *why)
{
	struct stat at;

	if (stat(path, &at) < 0)
		return ST_OK;
	if (mount(with, path, NULL, MS_BIND, NULL) < 0)
		return fail(why, "could not mask", path);
	return ST_OK;
}

/* Every socket with a path: the last column of /proc/net/unix of the host's namespace.
 */
static enum status
cover_sockets(FILE *list, struct buf *why)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	char line[512];
	enum status st = ST_OK;

	buf_init(&path, 512);
	while (st == ST_OK && fgets(line, sizeof line, list) != NULL) {
		const char *at = strchr(line, '/');
		if (at == NULL)
			continue;
		buf_clear(&path);
		buf_put(&path, str_of(at, strcspn(at, "\n")));
		const char *p = buf_cstr(&path);
		struct stat is;
		if (p != NULL && stat(p, &is) == 0 && S_ISSOCK(is.st_mode))
			st = cover_file("/dev/null", p, why);
	}
	return st;
}

static enum status
cover_named(const char *variable, bool is_socket, struct buf *why)
{
	const char *path = getenv(variable);

	if (path == NULL || path[0] != '/')
		return ST_OK;
	return is_socket ? cover_file("/dev/null", path, why)
			 : cover_directory(path, why);
}

static bool
write_file(const char *path, struct str text)
{
	int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	bool ok = fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n;

	if (fd >= 0)
		(void)close(fd);
	return ok;
}

/* A file of ours over one of /etc.  Where that is a link (into /run, often), what it
 * points at may just have been masked: it is made anew. */
static enum status
replace_file(const char *path, const char *ours, struct str text, struct buf *why)
{
	char real[PATH_MAX];
	struct stat at;

	if (lstat(path, &at) < 0)
		return ST_OK;
	if (!write_file(ours, text))
		return fail(why, "could not write", ours);
	if (!S_ISLNK(at.st_mode))
		return cover_file(ours, path, why);
	if (realpath(path, real) != NULL)
		return cover_file(ours, real, why);
	ssize_t n = readlink(path, real, sizeof real - 1);
	if (n < 0)
		return fail(why, "could not read the link", path);
	real[n] = '\0';
	/* Relative links of /etc start with ../run, masked by an empty /run. */
	const char *target = strncmp(real, "..", 2) == 0 ? real + 2 : real;
	CLEANUP(buf_done) struct buf dir = { 0 };
	buf_init(&dir, PATH_MAX);
	for (const char *slash = strchr(target + 1, '/'); slash != NULL;
	     slash = strchr(slash + 1, '/')) {
		buf_clear(&dir);
		buf_put(&dir, str_of(target, (size_t)(slash - target)));
		const char *d = buf_cstr(&dir);
		if (d == NULL || (mkdir(d, 0755) < 0 && errno != EEXIST))
			return fail(why, "could not make a directory for", target);
	}
	return write_file(target, text) ? ST_OK : fail(why, "could not write", target);
}

static enum status
resolver(struct buf *why)
{
	enum status st =
		replace_file("/etc/resolv.conf", "/run/sandgate.resolv",
			     STR("# sandgate answers\nnameserver 198.18.0.1\n"), why);

	if (st == ST_OK)
		st = replace_file(
			"/etc/nsswitch.conf", "/run/sandgate.nsswitch",
			STR("passwd: files\ngroup: files\nshadow: files\n"
			    "hosts: files dns\nnetworks: files\nprotocols: files\n"
			    "services: files\nethers: files\nrpc: files\n"),
			why);
	return st;
}

enum status
mask_all(FILE *unix_list, const char *state_dir, struct buf *why)
{
	enum status st = ST_OK;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		st = fail(why, "could not make mounts private below", "/");
	if (st == ST_OK)
		st = cover_sockets(unix_list, why);
	if (st == ST_OK)
		st = cover_named("SSH_AUTH_SOCK", true, why);
	if (st == ST_OK)
		st = cover_named("XDG_RUNTIME_DIR", false, why);
	if (st == ST_OK && state_dir != NULL)
		st = cover_directory(state_dir, why);
	for (size_t i = 0; st == ST_OK && i < COUNT_OF(directories); i++)
		st = cover_directory(directories[i], why);
	return st == ST_OK ? resolver(why) : st;
}

/* After /proc is ours. */

static enum status
make_read_only(const char *path, bool is_tree, struct buf *why)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	struct stat at;

	if (lstat(path, &at) < 0)
		return ST_OK;
	if (!is_tree && mount(path, path, NULL, MS_BIND, NULL) < 0)
		return fail(why, "could not mask", path);
	if (mount_setattr(AT_FDCWD, path, is_tree ? AT_RECURSIVE : 0, &attr,
			  sizeof attr) < 0)
		return fail(why, "could not make read-only", path);
	return ST_OK;
}

/* Whoever has a cgroup namespace may mount cgroup file systems; those of root can be
 * written by root of any user namespace: neighbours could be frozen or killed. */
static enum status
forbid_cgroups(struct buf *why)
{
	static const char path[] = "/proc/sys/user/max_cgroup_namespaces";
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return ST_OK; /* a kernel without them */
	bool ok = fd >= 0 && write(fd, "0", 1) == 1;
	enum status st = ok ? ST_OK : fail(why, "could not write", path);
	if (fd >= 0)
		(void)close(fd);
	return st;
}

enum status
mask_kernel(struct buf *why)
{
	/* Their files ask only whether the writer is root, of whichever namespace:
	 * core_pattern or a cgroup's release_agent would run a program outside. */
	static const char *const trees[] = { "/sys" };
	static const char *const files[] = { "/proc/sys", "/proc/sysrq-trigger",
					     "/proc/irq", "/proc/bus",
					     "/proc/fs",  "/proc/acpi" };
	enum status st = devices_make(why);

	if (st == ST_OK)
		st = forbid_cgroups(why);
	for (size_t i = 0; st == ST_OK && i < COUNT_OF(trees); i++)
		st = make_read_only(trees[i], true, why);
	for (size_t i = 0; st == ST_OK && i < COUNT_OF(files); i++)
		st = make_read_only(files[i], false, why);
	return st;
}
