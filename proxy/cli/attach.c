/*
 * sandgate attach --pid PID --sandbox ID --policy P [--take]: the same for a process or
 * container that exists.  Its network namespace may have lo only.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/base/num.h"
#include "proxy/cli/args.h"
#include "proxy/cli/attached.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/trust_files.h"
#include "proxy/cli/trust_mount.h"
#include "proxy/cli/where.h"

struct attach {
	const char *config, *pid;
	struct attached_as as;
	struct ns_wish ns;
};

static const char usage[] =
	"usage: sandgate attach [-c FILE] --pid PID --sandbox ID --policy P [--take]\n"
	"                       [--user U] [--agent A] [--session S] [--without-nft]\n"
	"                       [--trusts-ca]\n";

static bool
read_options(int argc, char **argv, struct attach *a)
{
	static const struct option known[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "pid", required_argument, NULL, 'P' },
		{ "sandbox", required_argument, NULL, 'i' },
		{ "policy", required_argument, NULL, 'p' },
		{ "user", required_argument, NULL, 'u' },
		{ "agent", required_argument, NULL, 'g' },
		{ "session", required_argument, NULL, 's' },
		{ "take", no_argument, NULL, 't' },
		{ "without-nft", no_argument, NULL, 'n' },
		{ "trusts-ca", no_argument, NULL, 'T' },
		{ NULL, 0, NULL, 0 },
	};
	struct {
		int letter;
		const char **to;
	} texts[] = {
		{ 'c', &a->config },     { 'P', &a->pid },     { 'i', &a->as.id },
		{ 'p', &a->as.policy },  { 'u', &a->as.user }, { 'g', &a->as.agent },
		{ 's', &a->as.session },
	};
	int letter;

	optind = 0;
	while ((letter = getopt_long(argc, argv, "c:", known, NULL)) != -1) {
		a->ns.take = a->ns.take || letter == 't';
		a->ns.without_nft = a->ns.without_nft || letter == 'n';
		a->as.trusts_ca = a->as.trusts_ca || letter == 'T';
		for (size_t i = 0; i < COUNT_OF(texts); i++)
			if (texts[i].letter == letter)
				*texts[i].to = optarg;
		if (letter == '?')
			return false;
	}
	return optind == argc && args_need("attach", "--pid PID", a->pid != NULL) &&
	       args_need("attach", "--sandbox ID", a->as.id != NULL) &&
	       args_need("attach", "--policy P", a->as.policy != NULL);
}

static int
open_ns(const char *pid, const char *kind)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, kind);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Two descriptors of one namespace have one inode. */
static bool
is_own(int fd, const char *kind)
{
	struct stat theirs, ours;
	int own = open_ns("self", kind);
	bool same = own >= 0 && fstat(own, &ours) == 0 && fstat(fd, &theirs) == 0 &&
		    ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;

	if (own >= 0)
		(void)close(own);
	return same;
}

/* Its namespaces are where the kernel asks for ptrace's rights. */
static void
put_no_process(struct buf *why, const char *pid)
{
	bool is_forbidden = errno == EACCES || errno == EPERM;

	buf_putf(why, "process %s: %s%s", pid, strerror(errno),
		 is_forbidden ? "; only its own user may do this, or root with "
				"CAP_SYS_PTRACE"
			      : "");
}

static enum status
enter(const char *pid, struct buf *why)
{
	int net = open_ns(pid, "net"), user = open_ns(pid, "user");

	if (net < 0 || user < 0) {
		put_no_process(why, pid);
		return ST_NOT_FOUND;
	}
	if (is_own(net, "net")) {
		buf_putf(why,
			 "process %s has no network namespace of its own: to take this "
			 "one "
			 "would cut off the host",
			 pid);
		return ST_CONFLICT;
	}
	/* Without it an ordinary user has no say over the namespace; root may not need
	 * it. */
	bool in_user = is_own(user, "user") || setns(user, CLONE_NEWUSER) == 0;
	if (setns(net, CLONE_NEWNET) < 0) {
		buf_putf(why,
			 "the network namespace of process %s can't be entered: %s%s",
			 pid, strerror(errno),
			 in_user ? "" : " (nor its user namespace)");
		return ST_SYSTEM;
	}
	return ST_OK;
}

/* Again, once the gateway has the sandbox: an interface may have come meanwhile. */
static bool
verify(const struct attach *a, bool with_nft)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		CLEANUP(buf_done) struct buf why = { 0 };
		buf_init(&why, 4096);
		if (enter(a->pid, &why) == ST_OK && ns_verify(with_nft, &why) == ST_OK)
			_exit(0);
		(void)fprintf(stderr, "sandgate attach: %s\n", buf_cstr(&why));
		_exit(1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* A process of its own does it: this one must come back. */
NORETURN static void
be_maker(const struct attach *a, int line)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	struct ns_sockets s;

	buf_init(&why, 4096);
	if (enter(a->pid, &why) == ST_OK && ns_make(&a->ns, &why, &s) == ST_OK &&
	    ns_send(line, &s) == ST_OK)
		_exit(0);
	const char *text = buf_cstr(&why);
	if (text != NULL)
		(void)send(line, text, strlen(text), MSG_NOSIGNAL);
	_exit(1);
}

static enum status
make(const struct attach *a, struct buf *why, struct ns_sockets *ret_s)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return ST_SYSTEM;
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(ends[0]);
		be_maker(a, ends[1]);
	}
	(void)close(ends[1]);
	enum status st = pid < 0 ? ST_SYSTEM : ns_receive(ends[0], why, ret_s);
	(void)close(ends[0]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	return st;
}

/* Its mount namespace, in which our CA is put over its bundles of roots. */

static bool
enter_files(const char *pid, struct buf *why, FILE **ret_mountinfo)
{
	char path[64];
	int mounts = open_ns(pid, "mnt"), user = open_ns(pid, "user");

	(void)snprintf(path, sizeof path, "/proc/%s/mountinfo", pid);
	*ret_mountinfo = fopen(path, "re");
	if (mounts < 0 || user < 0 || *ret_mountinfo == NULL) {
		put_no_process(why, pid);
		return false;
	}
	if (is_own(mounts, "mnt")) {
		buf_putf(why, "its files are the host's");
		return false;
	}
	/* As for the network: root may not need to be in its user namespace. */
	if (!is_own(user, "user"))
		(void)!setns(user, CLONE_NEWUSER);
	if (setns(mounts, CLONE_NEWNS) == 0)
		return true;
	buf_putf(why, "its mount namespace can't be entered: %s", strerror(errno));
	return false;
}

NORETURN static void
be_truster(const struct attach *a, struct str ours)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	const char *path = "";
	FILE *mountinfo = NULL;

	buf_init(&why, 4096);
	if (enter_files(a->pid, &why, &mountinfo) &&
	    trust_mount_over(ours, mountinfo, &why, &path) == ST_OK) {
		(void)printf(
			"%s has the gateway's CA; programs with roots of their own "
			"need the variables of `sandgate ca env %s`\n",
			path, path);
		_exit(fflush(stdout) == 0 ? 0 : 1);
	}
	(void)fprintf(stderr,
		      "sandgate attach: the gateway's CA was not installed: %s; see "
		      "`sandgate ca export` and --trusts-ca\n",
		      buf_cstr(&why));
	_exit(1);
}

static bool
install_trust(const struct attach *a, const struct admin_where *where)
{
	CLEANUP(buf_done) struct buf ours = { 0 };
	int status = 0;

	buf_init(&ours, TRUST_FILE_MAX);
	if (trust_fetch(where, &ours) != ST_OK)
		return false;
	(void)fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		be_truster(a, str_of(ours.p, ours.len));
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Its environment is its own: what clients that insist on a credential should show has
 * to be set by whoever starts it. */
static void
print_variables(const struct attach *a, const struct admin_where *where)
{
	json_t *all = attached_variables(where, &a->as), *value;
	const char *name;

	json_object_foreach(all, name, value)(void)
		printf("placeholder %s=%s\n", name, json_string_value(value));
	json_decref(all);
}

int
cmd_attach(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	CLEANUP(buf_done) struct buf config = { 0 };
	struct attach a = { .config = NULL };
	struct ns_sockets s;
	uint64_t pid;

	buf_init(&why, 4096);
	buf_init(&config, 4096);
	args_help(argc, argv, usage);
	if (!read_options(argc, argv, &a) ||
	    !num_parse_strict(str_from(a.pid), INT32_MAX, &pid)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	/* Before anything is changed there. */
	struct admin_where where = { .config = a.config };
	if (!attached_is_free(&where, a.as.id))
		return 1;
	if (where_config(a.config, &config) == ST_OK)
		a.ns.ports_n = attached_ports(buf_cstr(&config), a.as.policy,
					      a.ns.ports, NS_PORTS_MAX);
	if (make(&a, &why, &s) != ST_OK) {
		(void)fprintf(stderr, "sandgate attach: %s\n", buf_cstr(&why));
		return 1;
	}
	a.as.trusts_ca = a.as.trusts_ca || install_trust(&a, &where);
	if (attached_add(&where, &a.as, &s) != ST_OK) {
		ns_close(&s);
		return 1;
	}
	if (!verify(&a, s.has_nft)) {
		attached_remove(&where, a.as.id);
		ns_close(&s);
		return 1;
	}
	(void)printf("attached %s to process %s: %zu sockets, %s nft\n", a.as.id, a.pid,
		     s.n, s.has_nft ? "with" : "without");
	print_variables(&a, &where);
	ns_close(&s);
	return 0;
}
