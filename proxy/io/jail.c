#include "proxy/io/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/base/num.h"

/* Before anything else. */

static enum status
drop_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	/* EINVAL ends the row of capabilities that this kernel knows; EPERM means that
	 * we have none to add, so the bound does not matter. */
	for (unsigned long cap = 0; cap < 64; cap++) {
		if (!(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			break;
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return ST_SYSTEM;
	for (size_t i = 0; i < 2; i++) {
		uint32_t bits = (uint32_t)(keep >> (32 * i));
		data[i] = (struct __user_cap_data_struct){ bits, bits, 0 };
	}
	if (syscall(SYS_capset, &head, data) == 0)
		return ST_OK;
	/* Not privileged enough to keep what was asked for: keep nothing. */
	data[0] = data[1] = (struct __user_cap_data_struct){ 0, 0, 0 };
	return syscall(SYS_capset, &head, data) < 0 ? ST_SYSTEM : ST_OK;
}

static enum status
set_limits(void)
{
	struct rlimit none = { 0, 0 }, files;

	if (setrlimit(RLIMIT_CORE, &none) < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
		return ST_SYSTEM;
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) < 0 ? ST_SYSTEM : ST_OK;
}

enum status
jail_early(enum role r, uint64_t keep)
{
	need(r < ROLE_COUNT);
	(void)umask(077);
	if (set_limits() != ST_OK || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    drop_capabilities(keep) != ST_OK)
		return ST_SYSTEM;
	/* Last: what comes before may make the process dumpable again. */
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? ST_SYSTEM : ST_OK;
}

/* Landlock: by number, since the headers of Debian 12 know ABI 2 only. */

enum { LL_CREATE = 444, LL_ADD = 445, LL_RESTRICT = 446 };
enum { LL_VERSION = 1, LL_PATH_BENEATH = 1 };
enum {
	LL_FS_EXECUTE = 1,
	LL_FS_READ = 1 << 2 | 1 << 3,
	LL_NET_BIND = 1,
	LL_NET_CONNECT = 2
};

struct ll_ruleset {
	uint64_t fs, net, scoped;
};

struct ll_beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

/* Every right on files that this ABI can forbid. */
static uint64_t
ll_fs_rights(long abi)
{
	static const uint8_t bits[] = { 0, 13, 14, 15, 15, 16 };

	return (1ULL << bits[num_min((size_t)abi, COUNT_OF(bits) - 1)]) - 1;
}

static size_t
ll_size(long abi)
{
	return abi < 4 ? 8 : abi < 6 ? 16 : 24;
}

/* All that is handled and has no rule is forbidden.  Scoped: abstract Unix sockets and
 * signals to processes outside. */
static struct ll_ruleset
ll_ruleset_for(enum role r, long abi)
{
	struct ll_ruleset rules = { ll_fs_rights(abi), LL_NET_BIND | LL_NET_CONNECT,
				    3 };

	if (r == ROLE_DIALER)
		rules.net = LL_NET_BIND;
	if (r == ROLE_COMPILE)
		rules.fs &= ~(uint64_t)LL_FS_READ;
	return rules;
}

static enum status
ll_allow_below(int ruleset, const char *path, uint64_t rights)
{
	struct ll_beneath rule = { rights & ~(uint64_t)LL_FS_EXECUTE, -1 };
	long rc;

	rule.parent = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (rule.parent < 0)
		return ST_SYSTEM;
	rc = syscall(LL_ADD, ruleset, LL_PATH_BENEATH, &rule, 0);
	(void)close(rule.parent);
	return rc < 0 ? ST_SYSTEM : ST_OK;
}

int
jail_landlock_abi(void)
{
	long abi = syscall(LL_CREATE, NULL, 0, LL_VERSION);

	return abi > 0 ? (int)abi : 0;
}

static enum status
enter_landlock(enum role r, const char *writable, int *ret_abi)
{
	int abi = jail_landlock_abi();
	struct ll_ruleset rules;
	enum status st = ST_OK;
	int fd;

	if (abi == 0) {
		*ret_abi = 0; /* the kernel has none: seccomp and the user id stay */
		return ST_OK;
	}
	rules = ll_ruleset_for(r, abi);
	fd = (int)syscall(LL_CREATE, &rules, ll_size(abi), 0);
	if (fd < 0)
		return ST_SYSTEM;
	if (writable != NULL)
		st = ll_allow_below(fd, writable, rules.fs);
	if (st == ST_OK && syscall(LL_RESTRICT, fd, 0) < 0)
		st = ST_SYSTEM;
	(void)close(fd);
	if (st == ST_OK)
		*ret_abi = abi;
	return st;
}

/* Seccomp. */

#ifdef SG_SANITIZED
/* The sanitizers' runtime maps, opens and forks as it likes. */
static enum status
enter_seccomp(enum role r, bool *ret_on)
{
	(void)r;
	*ret_on = false;
	return ST_OK;
}
#else

enum constraint {
	ANY,
	NO_EXEC,
	NO_NAME,
	NO_FASTOPEN_2,
	NO_FASTOPEN_3,
	INET,
	READ_ONLY_1,
	READ_ONLY_2,
	EMPTY_PATH,
	QUERY,
	SELF,
	IOCTL_COUNT,
	SOCKET_OPTION,
	MARK,
	FCNTL,
	LINGER,
	FORK,
	REFUSE_TERMINAL,
	REFUSE_PERM,
	REFUSE_ACCESS,
	REFUSE_ABSENT,
	REFUSE_NOSYS,
};

#define ROLE(name, exe, max, what) JAIL_##name,
enum jail_role {
#include "proxy/io/roles.def"
	JAIL_COMMON
};
#undef ROLE

struct jail_row {
	enum jail_role role;
	int call;
	enum constraint constraint;
};

#define JAIL(role, call, constraint) { JAIL_##role, SCMP_SYS(call), constraint },
static const struct jail_row rows[] = {
#include "proxy/io/jail.def"
};
#undef JAIL

/* One way in which a constraint holds: all of its comparisons.  Several rows of the
 * same constraint are alternatives.  error 0: allowed. */
struct jail_shape {
	enum constraint constraint;
	uint16_t error;
	uint8_t args_n;
	struct scmp_arg_cmp args[3];
};

#define IS(arg, value)                                                                 \
	{                                                                              \
		(arg), SCMP_CMP_EQ, (value), 0                                         \
	}
#define BITS(arg, mask, value)                                                         \
	{                                                                              \
		(arg), SCMP_CMP_MASKED_EQ, (mask), (value)                             \
	}
#define BELOW(arg, value)                                                              \
	{                                                                              \
		(arg), SCMP_CMP_LT, (value), 0                                         \
	}

enum { WRITING = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND };
/* SOCK_CLOEXEC and SOCK_NONBLOCK stand above these bits. */
enum { SOCK_KIND = 0xf };

static const struct jail_shape shapes[] = {
	{ ANY, 0, 0, { { 0 } } },
	{ NO_EXEC, 0, 1, { BITS(2, PROT_EXEC, 0) } },
	{ NO_NAME, 0, 2, { BITS(3, MSG_FASTOPEN, 0), IS(4, 0) } },
	{ NO_FASTOPEN_2, 0, 1, { BITS(2, MSG_FASTOPEN, 0) } },
	{ NO_FASTOPEN_3, 0, 1, { BITS(3, MSG_FASTOPEN, 0) } },
	{ INET, 0, 2, { IS(0, AF_INET), BITS(1, SOCK_KIND, SOCK_STREAM) } },
	{ INET, 0, 2, { IS(0, AF_INET), BITS(1, SOCK_KIND, SOCK_DGRAM) } },
	{ INET, 0, 2, { IS(0, AF_INET6), BITS(1, SOCK_KIND, SOCK_STREAM) } },
	{ INET, 0, 2, { IS(0, AF_INET6), BITS(1, SOCK_KIND, SOCK_DGRAM) } },
	{ READ_ONLY_1, 0, 1, { BITS(1, WRITING, O_RDONLY) } },
	{ READ_ONLY_2, 0, 1, { BITS(2, WRITING, O_RDONLY) } },
	{ EMPTY_PATH, 0, 1, { BITS(3, AT_EMPTY_PATH, AT_EMPTY_PATH) } },
	{ EMPTY_PATH, EACCES, 1, { BITS(3, AT_EMPTY_PATH, 0) } },
	{ QUERY, 0, 1, { IS(2, 0) } },
	{ IOCTL_COUNT, 0, 1, { IS(1, FIONREAD) } },
	{ IOCTL_COUNT, 0, 1, { IS(1, FIONBIO) } },
	{ IOCTL_COUNT, 0, 1, { IS(1, TIOCOUTQ) } },
	/* What fork() of the C library asks: no thread, no namespace. */
	{ FORK, 0, 1, { IS(0, CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD) } },
	{ REFUSE_TERMINAL, ENOTTY, 1, { IS(1, TCGETS) } },
	/* SO_ATTACH_FILTER and its kin, from 26 on, choose who gets a connection. */
	{ SOCKET_OPTION, 0, 2, { IS(1, SOL_SOCKET), BELOW(2, SO_ATTACH_FILTER) } },
	{ SOCKET_OPTION, 0, 2, { IS(1, SOL_SOCKET), IS(2, SO_MAX_PACING_RATE) } },
	{ SOCKET_OPTION, 0, 1, { IS(1, IPPROTO_TCP) } },
	{ SOCKET_OPTION, 0, 1, { IS(1, IPPROTO_IP) } },
	{ SOCKET_OPTION, 0, 1, { IS(1, IPPROTO_IPV6) } },
	{ SOCKET_OPTION, 0, 1, { IS(1, IPPROTO_UDP) } },
	{ MARK, 0, 2, { IS(1, SOL_SOCKET), IS(2, SO_MARK) } },
	{ LINGER, 0, 2, { IS(1, SOL_SOCKET), IS(2, SO_LINGER) } },
	/* F_SETOWN, F_SETSIG and O_ASYNC together are a kill() of any process of our
	 * user. */
	{ FCNTL, 0, 1, { BELOW(1, F_SETFL) } },
	{ FCNTL, 0, 2, { IS(1, F_SETFL), BITS(2, O_ASYNC, 0) } },
	{ FCNTL, 0, 1, { IS(1, F_GETLK) } },
	{ FCNTL, 0, 1, { IS(1, F_SETLK) } },
	{ FCNTL, 0, 1, { IS(1, F_SETLKW) } },
	{ FCNTL, 0, 1, { IS(1, F_DUPFD_CLOEXEC) } },
	{ FCNTL, 0, 1, { IS(1, F_ADD_SEALS) } },
	{ FCNTL, 0, 1, { IS(1, F_GET_SEALS) } },
	{ REFUSE_PERM, EPERM, 0, { { 0 } } },
	{ REFUSE_ACCESS, EACCES, 0, { { 0 } } },
	{ REFUSE_ABSENT, ENOENT, 0, { { 0 } } },
	{ REFUSE_NOSYS, ENOSYS, 0, { { 0 } } },
};

static bool
has_own_row(enum role r, int call)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		if ((unsigned)rows[i].role == (unsigned)r && rows[i].call == call)
			return true;
	}
	return false;
}

static int
add_row(scmp_filter_ctx ctx, const struct jail_row *row)
{
	struct scmp_arg_cmp self = IS(0, (scmp_datum_t)getpid());
	int rc = 0;

	if (row->constraint == SELF)
		return seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, row->call, 1, &self);
	for (size_t i = 0; i < COUNT_OF(shapes) && rc == 0; i++) {
		const struct jail_shape *s = &shapes[i];
		if (s->constraint != row->constraint)
			continue;
		rc = seccomp_rule_add_array(
			ctx, s->error == 0 ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(s->error),
			row->call, s->args_n, s->args);
	}
	return rc;
}

static bool
has_net_admin(void)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	return syscall(SYS_capget, &head, data) == 0 &&
	       (data[0].effective >> CAP_NET_ADMIN & 1) != 0;
}

static int
add_rows(scmp_filter_ctx ctx, enum role r)
{
	int rc = 0;

	for (size_t i = 0; i < COUNT_OF(rows) && rc == 0; i++) {
		bool is_own = (unsigned)rows[i].role == (unsigned)r;
		bool is_common =
			rows[i].role == JAIL_COMMON && !has_own_row(r, rows[i].call);
		bool is_unfit = rows[i].constraint == MARK && !has_net_admin();
		if ((is_own || is_common) && !is_unfit)
			rc = add_row(ctx, &rows[i]);
	}
	return rc;
}

static enum status
enter_seccomp(enum role r, bool *ret_on)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc;

	if (ctx == NULL)
		return ST_NOMEM;
	rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* A tree instead of a row of comparisons: a call costs the same wherever it
	 * stands. */
	if (rc == 0)
		rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (rc == 0)
		rc = add_rows(ctx, r);
	if (rc == 0)
		rc = seccomp_load(ctx);
	seccomp_release(ctx);
	if (rc != 0)
		return ST_SYSTEM;
	*ret_on = true;
	return ST_OK;
}
#endif

/* Only to measure what the jail costs: such a build must never serve anybody. */
static bool
is_left_out(void)
{
#ifdef SG_BENCH_NO_JAIL
	return true;
#else
	return false;
#endif
}

enum status
jail_enter(enum role r, const char *writable, struct jail_report *ret_report)
{
	struct jail_report report = { false, false, false, 0 };
	enum status st;

	need(r != ROLE_SUPER && r < ROLE_COUNT);
	if (is_left_out()) {
		*ret_report = report;
		return ST_OK;
	}
	st = enter_landlock(r, writable, &report.landlock_abi);
	if (st == ST_OK)
		st = enter_seccomp(r, &report.seccomp);
	if (st != ST_OK)
		return st;
	report.landlock = report.landlock_abi > 0;
	report.no_new_privs = true; /* the kernel takes no filter without it */
	*ret_report = report;
	return ST_OK;
}
