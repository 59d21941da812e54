#include "proxy/super/super.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/base/clock.h"
#include "proxy/base/num.h"
#include "proxy/io/synth.h"

enum { NOBODY = 65534, FILES_ROOT = 1048576 };

/* What the others share. */

void
super_row(struct super *s, enum row_kind kind, enum status reason, struct str detail)
{
	uint64_t id = row_next_id(&s->ids);
	struct row row = { .id = id,
			   .turn = id,
			   .time_us = clock_wall_us(),
			   .kind = kind,
			   .reason = reason,
			   .generation = s->policy.generation,
			   .detail = detail };
	enum status st = rowring_put(s->ring, &row);

	stats_add(s->stats, st == ST_OK ? STAT_ROWS : STAT_ROWS_REFUSED, 1);
	if (st != ST_OK)
		log_error(&s->log, "ledger row: %s", status_code(st));
}

void
super_fail(struct super *s, const char *what, enum status st)
{
	if (s->exit_code == 0)
		log_error(&s->log, "cannot start: %s: %s", what, status_code(st));
	s->exit_code = 1;
	loop_stop(s->loop);
}

void
super_ready(struct super *s)
{
	s->is_ready = true;
	super_row(s, ROW_GATEWAY, ST_OK, STR("started"));
	log_info(&s->log, "ready: generation %llu, %zu workers",
		 (unsigned long long)s->policy.generation, s->workers_n);
	notify("READY=1");
	if (s->ready_fd < 0)
		return;
	if (write(s->ready_fd, "\n", 1) < 0)
		log_error(&s->log, "--ready-fd: %s", strerror(errno));
	(void)close(s->ready_fd);
	s->ready_fd = -1;
}

/* The first policy. */

static size_t
count_workers(const struct super *s)
{
	size_t n = (size_t)image_number(s->policy.image, OPT_WORKERS);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (n == 0)
		n = cpus > 2 ? (size_t)cpus / 2 : 1;
	return num_min(n, SUPER_WORKERS);
}

enum status
super_check_kernel(const struct image *im, struct buf *why)
{
	if (!image_flag(im, OPT_REQUIRE_LANDLOCK) || jail_landlock_abi() > 0)
		return ST_OK;
	buf_put(why, STR("require_landlock: this kernel has no Landlock"));
	return ST_SYSTEM;
}

static enum status
make_all(struct super *s, struct buf *why)
{
	enum status st = super_check_kernel(s->policy.image, why);

	if (st == ST_OK)
		st = state_open(s, why);
	if (st == ST_OK)
		st = shapes_open(s, why);
	s->workers_n = count_workers(s);
	if (st == ST_OK)
		st = slots_make(s);
	if (st == ST_OK)
		st = state_await_ledger(s, why);
	if (st == ST_OK)
		st = synth_create(&s->synth_fds[0], &s->synth_fds[1]);
	if (st == ST_OK)
		st = bind_admin(s, why);
	return st == ST_OK
		       ? bind_listeners(s, s->policy.image, NULL, why, &s->listeners)
		       : st;
}

void
super_begin(struct super *s, struct policy *p)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	enum status st;

	buf_init(&why, 8192);
	s->policy = *p;
	s->policy.generation = ++s->generations;
	s->log.level = (enum log_level)image_number(p->image, OPT_LOG_LEVEL);
	st = make_all(s, &why);
	if (st != ST_OK) {
		super_fail(s, buf_cstr(&why) == NULL ? "set-up" : buf_cstr(&why), st);
		return;
	}
	/* All are given their lines before any of them starts to serve. */
	for (size_t i = 1; i < s->slots_n; i++)
		spawn_slot(&s->slots[i]);
	for (size_t i = 1; i < s->slots_n; i++)
		spawn_policy(&s->slots[i]);
}

static void
compiled(struct super *s, enum status st, struct policy *p, struct str text)
{
	/* Messages are for whoever started us; they are not log lines. */
	if (text.n > 0 && write(STDERR_FILENO, text.p, text.n) < 0)
		log_error(&s->log, "messages: %s", strerror(errno));
	if (st == ST_OK)
		super_begin(s, p);
	else
		super_fail(s, s->config, st);
}

/* The process. */

static void
on_signal(void *ctx, unsigned events)
{
	struct super *s = ctx;
	struct signalfd_siginfo info;

	(void)events;
	while (read(s->signals.fd, &info, sizeof info) == (ssize_t)sizeof info) {
		if (info.ssi_signo == SIGCHLD)
			spawn_reap(s);
		else if (info.ssi_signo == SIGHUP)
			reload_start(s, NULL, 0);
		else if (s->is_ready)
			drain_start(s);
		else
			super_fail(s, "stopped", ST_DRAINING);
	}
}

static enum status
watch_signals(struct super *s)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < 4; i++)
		sigaddset(&set, (int[]){ SIGCHLD, SIGHUP, SIGTERM, SIGINT }[i]);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0 ||
	    signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		return ST_SYSTEM;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return ST_SYSTEM;
	loop_io_init(&s->signals, s->loop, fd, on_signal, s);
	loop_io_want(&s->signals, LOOP_READ);
	return ST_OK;
}

/* A gateway needs many descriptors; root may raise its own limit. */
static void
raise_limits(void)
{
	struct rlimit core = { 0, 0 }, files;

	(void)setrlimit(RLIMIT_CORE, &core);
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	if (geteuid() == 0 && files.rlim_max < FILES_ROOT) {
		struct rlimit more = { FILES_ROOT, FILES_ROOT };
		if (setrlimit(RLIMIT_NOFILE, &more) == 0)
			return;
	}
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

/* Roles of a gateway that root runs have a user of their own. */
static void
choose_user(struct super *s)
{
	const struct passwd *pw = geteuid() == 0 ? getpwnam("sandgate") : NULL;

	s->uid = geteuid() == 0 ? NOBODY : geteuid();
	s->gid = geteuid() == 0 ? NOBODY : getegid();
	if (pw != NULL && pw->pw_uid != 0) {
		s->uid = pw->pw_uid;
		s->gid = pw->pw_gid;
	}
}

/* Beside this executable, where the build and the installation put them all. */
static enum status
open_role_dir(struct super *s)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

	if (n <= 0)
		return ST_SYSTEM;
	path[n] = '\0';
	*strrchr(path, '/') = '\0';
	s->role_dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return s->role_dir < 0 ? ST_SYSTEM : spawn_open_exes(s);
}

static bool
read_args(struct super *s, int argc, char **argv)
{
	uint64_t fd;

	for (int i = 1; i + 1 < argc; i += 2) {
		struct str value = str_from(argv[i + 1]);
		if (str_eq(str_from(argv[i]), STR("-c"))) {
			s->config = argv[i + 1];
		} else if (str_eq(str_from(argv[i]), STR("--ready-fd")) &&
			   num_parse_strict(value, 1 << 20, &fd)) {
			s->ready_fd = (int)fd;
		} else {
			return false;
		}
	}
	return argc % 2 == 1 && s->config != NULL &&
	       (s->ready_fd < 0 || fcntl(s->ready_fd, F_SETFD, FD_CLOEXEC) == 0);
}

/* A missing standard descriptor would let a socket become "standard error". */
static bool
standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	return fd >= 0 && close(fd) == 0;
}

static enum status
start(struct super *s)
{
	enum status st = loop_new(&s->loop);

	(void)umask(077);
	raise_limits();
	choose_user(s);
	if (st == ST_OK)
		st = open_role_dir(s);
	if (st == ST_OK)
		st = watch_signals(s);
	if (st == ST_OK && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		st = ST_SYSTEM;
	return st == ST_OK ? compile_start(s, compiled) : st;
}

int
main(int argc, char **argv)
{
	static struct super s = { .log = { "super", LOG_INFO },
				  .ready_fd = -1,
				  .role_dir = -1,
				  .state_fd = -1,
				  .lock_fd = -1,
				  .synth_fds = { -1, -1 },
				  .admin_fd = -1 };

	list_init(&s.attached);
	s.started_us = clock_wall_us();
	if (!standard_descriptors() || !read_args(&s, argc, argv)) {
		log_error(&s.log, "usage: sandgate-super -c FILE [--ready-fd N]");
		return 2;
	}
	enum status st = start(&s);
	if (st != ST_OK) {
		log_error(&s.log, "cannot start: %s", status_code(st));
		return 1;
	}
	loop_run(s.loop);
	if (s.exit_code == 0)
		log_info(&s.log, "stopped");
	/* Roles that are left end with us, the ledger once its rings are empty. */
	return s.exit_code;
}
