#include "proxy/cli/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Addresses that the kernel uses as source; nothing routes to them from outside. */
#define NS_SOURCE4 "198.18.0.2"
#define NS_SOURCE6 "fd53:616e:6467::2"
#define NS_NET4    "198.18.0.2/32"
#define NS_NET6    "fd53:616e:6467::2/128"

void
ns_put_rules(struct buf *b)
{
	buf_put(b, STR("table inet sandgate {\n"
		       "\tchain capture {\n"
		       "\t\ttype nat hook output priority -100; policy accept;\n"));
	/* On loopback too: that is where resolv.conf of many hosts points. */
	buf_putf(b, "\t\ttcp dport 53 redirect to :%d\n", NS_DNS_PORT);
	buf_putf(b, "\t\tudp dport 53 redirect to :%d\n", NS_DNS_PORT);
	buf_put(b, STR("\t\tip daddr 127.0.0.0/8 return\n"
		       "\t\tip6 daddr ::1 return\n"));
	buf_putf(b, "\t\tip daddr 198.18.0.1 tcp dport %d return\n", NS_PROXY_PORT);
	buf_putf(b, "\t\tmeta l4proto tcp redirect to :%d\n\t}\n", NS_TCP_PORT);
	buf_put(b, STR("\tchain silence {\n"
		       "\t\ttype filter hook output priority 0; policy accept;\n"
		       "\t\tip daddr != 127.0.0.0/8 icmp type echo-request drop\n"
		       "\t\tip6 daddr != ::1 icmpv6 type echo-request drop\n"
		       "\t}\n}\n"));
}

/* The child's side of ns_tool(). */
static void
become(const char *const argv[], int input, bool quiet)
{
	static const char *const dirs[] = { "/usr/sbin/", "/usr/bin/", "/sbin/",
					    "/bin/" };
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
					   "LC_ALL=C", NULL };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)dup2(input >= 0 ? input : null, STDIN_FILENO);
	if (quiet) {
		(void)dup2(null, STDOUT_FILENO);
		(void)dup2(null, STDERR_FILENO);
	}
	for (size_t i = 0; i < COUNT_OF(dirs); i++) {
		CLEANUP(buf_done) struct buf path = { 0 };
		buf_init(&path, 256);
		buf_putf(&path, "%s%s", dirs[i], argv[0]);
		const char *p = buf_cstr(&path);
		if (p != NULL)
			(void)execve(p, (char *const *)(uintptr_t)argv,
				     (char *const *)(uintptr_t)env);
	}
	_exit(127);
}

int
ns_tool(const char *const argv[], struct str input, bool quiet)
{
	int ends[2] = { -1, -1 }, code = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0)
		become(argv, ends[0], quiet);
	(void)close(ends[0]);
	/* Rules are far below a pipe's capacity, so this can't block on the child. */
	ssize_t put = pid > 0 && input.n > 0 ? write(ends[1], input.p, input.n) : 0;
	(void)close(ends[1]);
	if (pid < 0 || put < 0 || (size_t)put != input.n)
		return -1;
	while (waitpid(pid, &code, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

static bool
is_up(const char *name)
{
	struct ifreq ask = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)memccpy(ask.ifr_name, name, '\0', sizeof ask.ifr_name - 1);
	bool up = fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ask) < 0 ||
		  (ask.ifr_flags & IFF_UP) != 0;
	if (fd >= 0)
		(void)close(fd);
	return up;
}

/* Fallback devices of tunnel modules appear by themselves.  Down they are inert, and
 * up they would only wrap what then goes to lo.  Any other that is down could be set up
 * by root inside. */
static bool
is_harmless(const char *name)
{
	static const char *const fallback[] = {
		"tunl0",   "gre0",    "gretap0", "erspan0",  "ip_vti0",
		"ip6tnl0", "ip6gre0", "sit0",    "ip6_vti0",
	};

	if (strcmp(name, "lo") == 0)
		return true;
	for (size_t i = 0; i < COUNT_OF(fallback); i++)
		if (strcmp(name, fallback[i]) == 0)
			return !is_up(name);
	return false;
}

/* Every interface but lo: removed if `take`, else named in why. */
static enum status
lo_alone(bool take, struct buf *why)
{
	struct if_nameindex *all = if_nameindex();
	enum status st = all == NULL ? ST_SYSTEM : ST_OK;

	for (struct if_nameindex *i = all; i != NULL && i->if_index != 0; i++) {
		if (is_harmless(i->if_name))
			continue;
		const char *const del[] = {
			"ip", "link", "del", "dev", i->if_name, NULL
		};
		/* One end of a pair goes with the other. */
		if (take && (ns_tool(del, STR(""), true) == 0 ||
			     if_nametoindex(i->if_name) == 0))
			continue;
		buf_putf(why,
			 "the namespace has the interface %s; only lo may be there "
			 "(--take removes it)",
			 i->if_name);
		st = ST_CONFLICT;
		break;
	}
	if (all != NULL)
		if_freenameindex(all);
	return st;
}

enum { ROUTE_TRIES = 20, ROUTE_PAUSE_US = 20000 };

static enum status
addresses(struct buf *why, bool *ret_has_v6)
{
	static const char *const up[] = { "ip", "link", "set", "lo", "up", NULL };
	static const char *const a4[] = { "ip",  "addr", "replace", NS_NET4,
					  "dev", "lo",   NULL };
	static const char *const r4[] = { "ip",       "route", "replace", "local",
					  "default",  "dev",   "lo",      "src",
					  NS_SOURCE4, NULL };
	static const char *const a6[] = { "ip",  "addr", "replace", NS_NET6,
					  "dev", "lo",   NULL };
	static const char *const r6[] = { "ip",    "-6",       "route", "replace",
					  "local", "default",  "dev",   "lo",
					  "src",   NS_SOURCE6, NULL };
	int code = ns_tool(up, STR(""), false);

	if (code == 127) {
		buf_put(why, STR("the tool ip is not there; install iproute2"));
		return ST_NOT_FOUND;
	}
	if (code != 0 || ns_tool(a4, STR(""), false) != 0 ||
	    ns_tool(r4, STR(""), false) != 0) {
		buf_put(why, STR("lo could not be set up; CAP_NET_ADMIN in the "
				 "namespace is needed"));
		return ST_SYSTEM;
	}
	/* A kernel without IPv6 has nothing to capture there.  With it, a fresh address may
	 * need a moment before a route takes it for its source. */
	*ret_has_v6 = ns_tool(a6, STR(""), true) == 0;
	bool routed = false;
	for (int i = 0; *ret_has_v6 && !routed && i < ROUTE_TRIES; i++) {
		routed = ns_tool(r6, STR(""), true) == 0;
		if (!routed)
			(void)usleep(ROUTE_PAUSE_US);
	}
	if (*ret_has_v6 && !routed) {
		buf_put(why, STR("lo got an IPv6 address, but no route for it"));
		return ST_SYSTEM;
	}
	return ST_OK;
}

static bool
rules(void)
{
	static const char *const flush[] = { "nft",  "delete",   "table",
					     "inet", "sandgate", NULL };
	static const char *const load[] = { "nft", "-f", "-", NULL };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;

	buf_init(&b, 4096);
	ns_put_rules(&b);
	(void)ns_tool(flush, STR(""), true); /* there on a second attach only */
	return buf_finish(&b, &text) == ST_OK && ns_tool(load, text, true) == 0;
}

static int
listening(bool v6, int type, uint16_t port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
	const struct sockaddr *sa = v6 ? (const void *)&six : (const void *)&four;
	socklen_t len = v6 ? sizeof six : sizeof four;
	int off = 0, on = 1;
	int fd =
		socket(v6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	bool ok =
		!v6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
	if (type == SOCK_STREAM)
		ok = ok &&
		     setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
		     setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
	else /* the answer must leave from where the query came to */
		ok = ok &&
		     (v6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on,
				      sizeof on)
			 : setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on)) == 0;
	ok = ok && bind(fd, sa, len) == 0 &&
	     (type != SOCK_STREAM || listen(fd, 1024) == 0);
	if (!ok) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static enum status
add(struct ns_sockets *s, const char *text, int fd, struct buf *why)
{
	if (fd < 0 || s->n >= NS_SOCKETS_MAX) {
		buf_putf(
			why,
			"a listening socket (%s) could not be made inside the "
			"namespace: %s%s",
			text, strerror(errno),
			errno == EADDRINUSE
				? ": it is attached already, or something in it "
				  "listens there; `sandgate sandboxes` tells what is "
				  "attached, `sandgate detach --sandbox ID` lets go of "
				  "it"
				: "");
		return ST_SYSTEM;
	}
	s->fds[s->n] = fd;
	s->texts[s->n++] = text;
	return ST_OK;
}

static enum status
sockets(const struct ns_wish *w, bool v6, struct ns_sockets *s, struct buf *why)
{
	uint16_t dns = s->has_nft ? NS_DNS_PORT : 53;
	enum status st =
		add(s, "proxy", listening(v6, SOCK_STREAM, NS_PROXY_PORT), why);

	if (st == ST_OK)
		st = add(s, "dns-udp", listening(v6, SOCK_DGRAM, dns), why);
	if (st == ST_OK)
		st = add(s, "dns-tcp", listening(v6, SOCK_STREAM, dns), why);
	if (st == ST_OK && s->has_nft)
		st = add(s, "tcp", listening(v6, SOCK_STREAM, NS_TCP_PORT), why);
	/* Without nft the kernel refuses every port but these, which is as safe. */
	for (size_t i = 0; st == ST_OK && !s->has_nft && i < w->ports_n; i++)
		if (w->ports[i] != 53 && w->ports[i] != NS_PROXY_PORT)
			st = add(s, "tcp", listening(v6, SOCK_STREAM, w->ports[i]),
				 why);
	return st;
}

/* Connections that were made over what is gone now: their ends are told, not left to
 * time-outs.  A kernel that can't do it leaves them without a route, which is as safe. */
static void
kill_foreign(void)
{
	static const char *const kill[] = { "ss",  "-K",          "-t",          "-u",
					    "-n",  "state",       "established", "not",
					    "dst", "127.0.0.0/8", "and",         "not",
					    "dst", "[::1]",       NULL };

	(void)ns_tool(kill, STR(""), true);
}

enum status
ns_make(const struct ns_wish *w, struct buf *why, struct ns_sockets *ret_s)
{
	struct ns_sockets s = { .n = 0 };
	bool v6 = false;
	enum status st = lo_alone(w->take, why);

	if (st == ST_OK && w->take)
		kill_foreign();

	if (st == ST_OK)
		st = addresses(why, &v6);
	if (st != ST_OK)
		return st;
	s.has_nft = !w->without_nft && rules();
	st = sockets(w, v6, &s, why);
	if (st == ST_OK)
		st = lo_alone(false, why);
	if (st != ST_OK) {
		ns_close(&s);
		return st;
	}
	*ret_s = s;
	return ST_OK;
}

void
ns_close(struct ns_sockets *s)
{
	for (size_t i = 0; i < s->n; i++)
		(void)close(s->fds[i]);
	s->n = 0;
}

enum status
ns_verify(bool with_nft, struct buf *why)
{
	static const char *const have[] = { "nft",  "list",     "table",
					    "inet", "sandgate", NULL };
	enum status st = lo_alone(false, why);

	if (st == ST_OK && with_nft && ns_tool(have, STR(""), true) != 0) {
		buf_put(why, STR("the nft table is gone"));
		st = ST_CONFLICT;
	}
	return st;
}

/* One packet: a letter per socket, the descriptors beside it. */
static const char *const letters[] = { "tcp", "proxy", "dns-udp", "dns-tcp" };

enum status
ns_send(int line, const struct ns_sockets *s)
{
	char text[NS_SOCKETS_MAX + 1] = { s->has_nft ? 'n' : '-' };
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int) * NS_SOCKETS_MAX)];
	} control = { 0 };
	struct iovec io = { text, s->n + 1 };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = control.room };

	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; k < COUNT_OF(letters); k++)
			if (strcmp(letters[k], s->texts[i]) == 0)
				text[i + 1] = (char)('0' + k);
	m.msg_controllen = CMSG_SPACE(sizeof(int) * s->n);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS,
			       .cmsg_len = CMSG_LEN(sizeof(int) * s->n) };
	memcpy(CMSG_DATA(c), s->fds, sizeof(int) * s->n);
	return sendmsg(line, &m, MSG_NOSIGNAL) < 0 ? ST_SYSTEM : ST_OK;
}

enum status
ns_receive(int line, struct buf *why, struct ns_sockets *ret_s)
{
	char text[1024];
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int) * NS_SOCKETS_MAX)];
	} control = { 0 };
	struct iovec io = { text, sizeof text };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = control.room,
			    .msg_controllen = sizeof control.room };
	struct ns_sockets s = { .n = 0 };
	ssize_t n = recvmsg(line, &m, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

	if (c == NULL || c->cmsg_type != SCM_RIGHTS) {
		buf_put(why, n > 0 ? str_of(text, (size_t)n)
				   : STR("the namespace could not be made"));
		return ST_SYSTEM;
	}
	s.n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(s.fds, CMSG_DATA(c), sizeof(int) * s.n);
	s.has_nft = text[0] == 'n';
	for (size_t i = 0; i < s.n; i++) {
		size_t k = (size_t)n > i + 1 ? (size_t)(unsigned char)text[i + 1] - '0'
					     : SIZE_MAX;
		s.texts[i] = k < COUNT_OF(letters) ? letters[k] : letters[0];
	}
	*ret_s = s;
	return ST_OK;
}
