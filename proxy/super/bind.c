#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/super/super.h"

enum { BACKLOG = 4096, ADMIN_BACKLOG = 64 };

struct want { /* one socket to be made */
	const struct listening *l;
	int type;
	bool is_shared; /* one of several at this address */
};

static bool
set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

static bool
set_all(int fd, const struct want *w)
{
	bool is_v6 = w->l->addr.family == 6, ok = true;

	/* "0.0.0.0" and "[::]" are two listeners, each with its own family. */
	if (is_v6)
		ok = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (w->type == SOCK_STREAM)
		ok = ok && set(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
		     set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	else if (is_v6)
		ok = ok && set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	else
		ok = ok && set(fd, IPPROTO_IP, IP_PKTINFO, 1);
	if (w->is_shared)
		ok = ok && set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	/* What it accepts has the mark as well. */
	if (w->l->mark != 0)
		ok = ok && set(fd, SOL_SOCKET, SO_MARK, (int)w->l->mark);
	if (w->l->tproxy)
		ok = ok && (is_v6 ? set(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
				  : set(fd, IPPROTO_IP, IP_TRANSPARENT, 1));
	return ok;
}

/* -1 with errno set. */
static int
open_one(const struct want *w, bool listens)
{
	struct sockaddr_storage sa;
	uint32_t n = addr_to_sockaddr(&w->l->addr, w->l->port, &sa);
	int fd = socket(sa.ss_family, w->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why;

	if (fd < 0)
		return -1;
	if (set_all(fd, w) && bind(fd, (struct sockaddr *)&sa, n) == 0 &&
	    (!listens || w->type != SOCK_STREAM || listen(fd, BACKLOG) == 0))
		return fd;
	why = errno;
	(void)close(fd);
	errno = why;
	return -1;
}

/*
 * Which socket of the group gets a connection: the source address, folded, modulo their
 * number.  So all connections of one sandbox meet in one worker.  The offsets are those
 * of the source in the IPv4 and the IPv6 header.
 */
static bool
select_by_source(int fd, uint8_t family, uint32_t workers)
{
	const uint32_t at = family == 4 ? 12 : 8, words = family == 4 ? 1 : 4;
	struct sock_filter code[24];
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_IMM, 0);
	for (uint32_t i = 0; i < words; i++) {
		code[n++] = (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TAX, 0);
		code[n++] = (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + at + 4 * i);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TAX, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 16);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, workers);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0);
	struct sock_fprog program = { n, code };
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
			  sizeof program) == 0;
}

/* With SO_REUSEPORT a second gateway of the same user could bind the same address and
 * take half of the connections: a socket without it finds out first. */
static bool
is_free(const struct want *shared)
{
	struct want alone = *shared;

	alone.is_shared = false;
	int fd = open_one(&alone, true);
	if (fd < 0)
		return false;
	(void)close(fd);
	return true;
}

static bool
open_workers(struct listening *l, size_t workers)
{
	struct want w = { l, SOCK_STREAM, workers > 1 };

	if (w.is_shared && !is_free(&w))
		return false;
	for (size_t i = 0; i < workers; i++) {
		int fd = open_one(&w, true);
		if (fd < 0)
			return false;
		l->fds[l->fds_n++] = fd;
	}
	return !w.is_shared ||
	       select_by_source(l->fds[0], l->addr.family, (uint32_t)workers);
}

static bool
open_dns(struct listening *l)
{
	static const int types[] = { SOCK_DGRAM, SOCK_STREAM };

	for (size_t i = 0; i < COUNT_OF(types); i++) {
		struct want w = { l, types[i], false };
		int fd = open_one(&w, true);
		if (fd < 0)
			return false;
		l->fds[l->fds_n++] = fd;
	}
	return true;
}

static struct listening *
find_same(struct listeners *in, const struct listening *l)
{
	for (size_t i = 0; in != NULL && i < in->n; i++) {
		struct listening *o = &in->of[i];
		if (o->kind == l->kind && o->port == l->port &&
		    o->tproxy == l->tproxy && addr_eq(&o->addr, &l->addr))
			return o;
	}
	return NULL;
}

static void
close_one(struct listening *l)
{
	for (size_t i = 0; i < l->fds_n; i++)
		(void)close(l->fds[i]);
	l->fds_n = 0;
}

void
bind_close(struct listeners *l)
{
	for (size_t i = 0; i < l->n; i++) {
		if (!l->of[i].is_kept)
			close_one(&l->of[i]);
	}
	l->n = 0;
}

static bool
open_or_share(struct super *s, struct listeners *old, struct listening *l)
{
	struct listening *same = find_same(old, l);

	if (same != NULL) {
		*l = *same;
		l->is_kept = same->is_kept = true;
		return true;
	}
	return l->kind == LISTENER_DNS ? open_dns(l) : open_workers(l, s->workers_n);
}

enum status
bind_listeners(struct super *s, const struct image *im, struct listeners *old,
	       struct buf *why, struct listeners *ret_new)
{
	static const char *const kinds[] = { "transparent", "proxy", "dns",
					     "opensandbox" };
	struct listeners made = { .n = 0 };
	size_t n;
	const struct image_listener *in = image_listeners(im, &n);
	uint32_t mark = (uint32_t)image_number(im, OPT_EGRESS_MARK);

	if (n > SUPER_LISTENERS)
		return ST_TOO_BIG;
	for (size_t i = 0; old != NULL && i < old->n; i++)
		old->of[i].is_kept = false;
	for (size_t i = 0; i < n; i++) {
		made.of[i] = (struct listening){ .addr = in[i].addr,
						 .port = in[i].port,
						 .kind = in[i].kind,
						 .tproxy = in[i].tproxy,
						 .mark = mark };
		made.n = i + 1;
		if (open_or_share(s, old, &made.of[i]))
			continue;
		int error = errno;
		buf_putf(why, "listener %.*s (%s, port %u): %s%s",
			 STR_ARG(image_str(im, in[i].name)), kinds[in[i].kind & 3],
			 in[i].port, strerror(error),
			 mark != 0 && error == EPERM
				 ? ": egress_mark needs CAP_NET_ADMIN"
				 : "");
		bind_close(&made);
		return ST_SYSTEM;
	}
	*ret_new = made;
	return ST_OK;
}

/* Where operators connect. */

/* Long paths reach the socket by the descriptor of their directory. */
static bool
unix_address(struct super *s, struct str name, struct sockaddr_un *ret_sa)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const char *path;

	buf_init(&b, sizeof ret_sa->sun_path - 1);
	buf_putf(&b, "%s/%.*s", buf_cstr(&s->state_dir), STR_ARG(name));
	if (buf_cstr(&b) == NULL) {
		buf_clear(&b);
		buf_putf(&b, "/proc/self/fd/%d/%.*s", s->state_fd, STR_ARG(name));
	}
	path = buf_cstr(&b);
	if (path == NULL)
		return false;
	*ret_sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret_sa->sun_path, path, b.len);
	return true;
}

/* Others come only where admin.roles has some, and control closes on the rest. */
static mode_t
socket_mode(const struct super *s)
{
	size_t n;
	const struct image_admin *a = image_admins(s->policy.image, &n);

	for (size_t i = 0; i < n; i++)
		if (a[i].has_uid && a[i].uid != 0 && a[i].uid != geteuid())
			return 0666;
	return 0600;
}

static int
open_unix(struct super *s, struct str name)
{
	struct sockaddr_un sa;
	int fd;

	if (name.n == 0 || str_has(name, '/') || !unix_address(s, name, &sa))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The lock on the directory says that whoever bound it before is gone. */
	if (fd >= 0 && unlink(sa.sun_path) < 0 && errno != ENOENT) {
		(void)close(fd);
		return -1;
	}
	if (fd >= 0 &&
	    (bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 ||
	     chmod(sa.sun_path, socket_mode(s)) < 0 || listen(fd, ADMIN_BACKLOG) < 0)) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static int
open_tcp(struct str host, struct str port)
{
	struct listening l = { .kind = LISTENER_PROXY };
	struct want w = { &l, SOCK_STREAM, false };
	uint64_t number;

	if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = str_head(str_skip(host, 1), host.n - 2);
	errno = EINVAL;
	if (!addr_parse(host, &l.addr) || addr_classify(&l.addr) != ADDR_LOOPBACK ||
	    !num_parse_strict(port, 65535, &number))
		return -1;
	l.port = (uint16_t)number;
	return open_one(&w, true);
}

static bool
has_token(const struct image *im)
{
	size_t n;
	const struct image_admin *a = image_admins(im, &n);

	for (size_t i = 0; i < n; i++)
		if (!a[i].has_uid)
			return true;
	return false;
}

enum status
bind_admin(struct super *s, struct buf *why)
{
	struct str text = image_text(s->policy.image, OPT_ADMIN_ADDRESS), host = text;

	s->admin_is_unix = str_starts(text, STR("unix:"));
	if (s->admin_is_unix) {
		s->admin_fd = open_unix(s, str_skip(text, 5));
	} else {
		while (host.n > 0 && host.p[host.n - 1] != ':')
			host.n--;
		struct str port = str_skip(text, host.n);
		host.n -= host.n > 0;
		/* Anyone on this machine can connect: without a token nobody may ask.
		 */
		if (image_text(s->policy.image, OPT_ADMIN_TOKEN_SHA256).n != 64 &&
		    !has_token(s->policy.image)) {
			buf_putf(why, "admin.address: a port needs admin.token_sha256");
			return ST_BAD_CONFIG;
		}
		s->admin_fd = open_tcp(host, port);
	}
	if (s->admin_fd >= 0)
		return ST_OK;
	buf_putf(why, "admin.address %.*s: %s", STR_ARG(text), strerror(errno));
	return ST_SYSTEM;
}
