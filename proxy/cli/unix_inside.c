#include "proxy/cli/unix_inside.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/base/str.h"

enum { ANSWER_MAX = 32768, MINOR_BITS = 20 };

/* As the kernel counts them.  stat() would not do: overlay and btrfs tell other
 * numbers there than the ones in the list. */
struct place {
	uint64_t inode, mount;
	uint32_t device;
};

static bool
field(struct str line, struct str name, uint64_t *ret_v)
{
	return str_starts(line, name) &&
	       num_parse_strict(str_trim(str_skip(line, name.n)), UINT64_MAX, ret_v);
}

/* "mnt_id:" and "ino:" of /proc/self/fdinfo (Linux 5.14). */
static bool
read_fdinfo(int fd, struct place *p)
{
	char path[64], line[256];
	bool has_inode = false, has_mount = false;

	(void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	FILE *f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		struct str s = str_of(line, strcspn(line, "\n"));
		has_inode = has_inode || field(s, STR("ino:"), &p->inode);
		has_mount = has_mount || field(s, STR("mnt_id:"), &p->mount);
	}
	if (f != NULL)
		(void)fclose(f);
	return has_inode && has_mount;
}

/* A line: mount, parent, major:minor, ... */
static bool
is_line_of(struct str line, struct place *p)
{
	struct str mount = str_cut(&line, ' ');
	uint64_t id, major = 0, minor = 0;

	if (!num_parse_strict(mount, UINT64_MAX, &id) || id != p->mount)
		return false;
	(void)str_cut(&line, ' ');
	struct str device = str_cut(&line, ' ');
	if (!num_parse_strict(str_cut(&device, ':'), UINT32_MAX, &major) ||
	    !num_parse_strict(device, UINT32_MAX, &minor))
		return false;
	p->device = (uint32_t)(major << MINOR_BITS | minor);
	return true;
}

static bool
read_mounts(pid_t viewer, struct place *p)
{
	char path[64], *line = NULL;
	size_t room = 0;
	bool found = false;
	ssize_t n;

	(void)snprintf(path, sizeof path, "/proc/%d/mountinfo", (int)viewer);
	FILE *f = fopen(path, "re");
	while (f != NULL && !found && (n = getline(&line, &room, f)) > 0)
		found = is_line_of(str_of(line, (size_t)n), p);
	free(line);
	if (f != NULL)
		(void)fclose(f);
	return found;
}

/* The kernel's list. */

static bool
ask(int fd)
{
	struct {
		struct nlmsghdr head;
		struct unix_diag_req body;
	} m = {
		.head = { .nlmsg_len = sizeof m,
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.body = { .sdiag_family = AF_UNIX,
			  .udiag_states = UINT32_MAX,
			  .udiag_show = UDIAG_SHOW_VFS },
	};

	return send(fd, &m, sizeof m, 0) == (ssize_t)sizeof m;
}

static size_t
aligned(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

static bool
is_it(const struct nlmsghdr *h, const struct place *p)
{
	const char *at = (const char *)h + aligned(sizeof *h) +
			 aligned(sizeof(struct unix_diag_msg));
	const char *end = (const char *)h + h->nlmsg_len;
	struct nlattr a;
	struct unix_diag_vfs vfs;

	while (at < end && (size_t)(end - at) >= sizeof a) {
		memcpy(&a, at, sizeof a);
		if (a.nla_len < sizeof a || a.nla_len > end - at)
			return false;
		if (a.nla_type == UNIX_DIAG_VFS &&
		    a.nla_len >= aligned(sizeof a) + sizeof vfs) {
			memcpy(&vfs, at + aligned(sizeof a), sizeof vfs);
			return vfs.udiag_vfs_ino == (uint32_t)p->inode &&
			       vfs.udiag_vfs_dev == p->device;
		}
		at += aligned(a.nla_len);
	}
	return false;
}

enum list { LIST_GOES_ON, LIST_HAS_IT, LIST_ENDS };

static enum list
read_part(int fd, const struct place *p)
{
	_Alignas(struct nlmsghdr) char room[ANSWER_MAX];
	ssize_t got = recv(fd, room, sizeof room, 0);
	size_t n = got > 0 ? (size_t)got : 0;

	if (n == 0)
		return LIST_ENDS;
	for (size_t at = 0; n - at >= sizeof(struct nlmsghdr);) {
		const struct nlmsghdr *h = (const void *)(room + at);
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR ||
		    h->nlmsg_len < sizeof *h || h->nlmsg_len > n - at)
			return LIST_ENDS;
		if (is_it(h, p))
			return LIST_HAS_IT;
		at += num_min(aligned(h->nlmsg_len), n - at);
	}
	return LIST_GOES_ON;
}

bool
unix_inside(int fd, pid_t viewer)
{
	struct place p = { 0 };
	enum list at = LIST_GOES_ON;

	if (!read_fdinfo(fd, &p) || !read_mounts(viewer, &p))
		return false;
	int list = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (list < 0 || !ask(list))
		at = LIST_ENDS;
	while (at == LIST_GOES_ON)
		at = read_part(list, &p);
	if (list >= 0)
		(void)close(list);
	return at == LIST_HAS_IT;
}
