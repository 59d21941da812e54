#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/io/jail.h"

/* What one call in a jail came to. */
enum outcome { ALLOWED, REFUSED, KILLED };

/* Sockets that exist before the jail, as super gives them. */
struct given {
	int listener, unix_line, udp;
	uint64_t keep; /* capabilities */
};

typedef long (*deed_fn)(const struct given *g);

static struct sockaddr_in
loopback(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

static struct given
give_sockets(void)
{
	struct sockaddr_in sa = loopback(0);
	struct given g = { .keep = 0 };
	int pair[2];

	g.listener = socket(AF_INET, SOCK_STREAM, 0);
	g.udp = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(g.listener, (struct sockaddr *)&sa, sizeof sa), 0);
	assert_int_equal(listen(g.listener, 1), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	g.unix_line = pair[0];
	return g;
}

static void
child(enum role r, const char *writable, deed_fn deed, const struct given *g)
{
	struct jail_report report;

	if (jail_early(r, g->keep) != ST_OK ||
	    jail_enter(r, writable, &report) != ST_OK)
		_exit(99);
	_exit(deed(g) >= 0 ? ALLOWED : REFUSED);
}

static enum outcome
do_keeping(enum role r, const char *writable, deed_fn deed, uint64_t keep)
{
#ifdef SG_SANITIZED
	skip(); /* the sanitizers' runtime can't live in this jail; see jail.c */
#endif
	struct given g = give_sockets();
	int how = 0;

	g.keep = keep;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(r, writable, deed, &g);
	assert_int_equal(waitpid(pid, &how, 0), pid);
	(void)close(g.listener);
	(void)close(g.unix_line);
	(void)close(g.udp);
	if (WIFSIGNALED(how)) {
		assert_int_equal(WTERMSIG(how), SIGSYS);
		return KILLED;
	}
	assert_int_not_equal(WEXITSTATUS(how), 99);
	return (enum outcome)WEXITSTATUS(how);
}

static enum outcome
do_in_jail(enum role r, const char *writable, deed_fn deed)
{
	return do_keeping(r, writable, deed, 0);
}

/* Deeds. */

static long
make_socket(const struct given *g)
{
	(void)g;
	return socket(AF_INET, SOCK_STREAM, 0);
}

static long
make_netlink(const struct given *g)
{
	(void)g;
	return socket(AF_NETLINK, SOCK_RAW, 0);
}

static long
make_raw(const struct given *g)
{
	(void)g;
	return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static long
make_unix(const struct given *g)
{
	(void)g;
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static long
connect_on(const struct given *g)
{
	struct sockaddr_in sa = loopback(9);

	return connect(g->udp, (struct sockaddr *)&sa, sizeof sa);
}

static long
bind_on(const struct given *g)
{
	struct sockaddr_in sa = loopback(0);

	return bind(g->udp, (struct sockaddr *)&sa, sizeof sa);
}

static long
open_a_file(const struct given *g)
{
	(void)g;
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static long
write_a_file(const struct given *g)
{
	(void)g;
	return open("/tmp/sandgate-jail-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
}

static long
execute(const struct given *g)
{
	char *const argv[] = { (char[]){ "true" }, NULL };

	(void)g;
	return execve("/bin/true", argv, NULL);
}

static long
fork_one(const struct given *g)
{
	(void)g;
	return fork();
}

/* A process that shares memory with this one. */
static long
make_thread(const struct given *g)
{
	(void)g;
	return syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
}

static long
io_uring(const struct given *g)
{
	char params[120] = { 0 };

	(void)g;
	return syscall(425, 1, params);
}

static long
trace(const struct given *g)
{
	(void)g;
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static long
read_another_process(const struct given *g)
{
	char byte;
	struct iovec mine = { &byte, 1 }, theirs = { &byte, 1 };

	(void)g;
	return process_vm_readv(getppid(), &mine, 1, &theirs, 1, 0);
}

static long
kill_parent(const struct given *g)
{
	(void)g;
	return kill(getppid(), 0);
}

static long
map_code(const struct given *g)
{
	(void)g;
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? -1 : 0;
}

static long
make_code(const struct given *g)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	(void)g;
	return mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

/* A listener that is shut down is a fresh TCP socket: MSG_FASTOPEN would connect it. */
static long
fast_open(const struct given *g)
{
	struct sockaddr_in sa = loopback(9);

	(void)shutdown(g->listener, SHUT_RDWR);
	return sendto(g->listener, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL,
		      (struct sockaddr *)&sa, sizeof sa);
}

static long
fast_open_by_message(const struct given *g)
{
	struct sockaddr_in sa = loopback(9);
	struct msghdr mh = { .msg_name = &sa, .msg_namelen = sizeof sa };

	(void)shutdown(g->listener, SHUT_RDWR);
	return sendmsg(g->listener, &mh, MSG_FASTOPEN | MSG_NOSIGNAL);
}

static long
send_to_an_address(const struct given *g)
{
	struct sockaddr_in sa = loopback(9);

	return sendto(g->udp, "x", 1, 0, (struct sockaddr *)&sa, sizeof sa);
}

static long
steer_connections(const struct given *g)
{
	int value = 0;

	return setsockopt(g->listener, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &value,
			  sizeof value);
}

static long
mark_packets(const struct given *g)
{
	int mark = 7;

	return setsockopt(g->udp, SOL_SOCKET, SO_MARK, &mark, sizeof mark);
}

static long
speak_on_the_line(const struct given *g)
{
	struct iovec iov = { (char[]){ "x" }, 1 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	return sendmsg(g->unix_line, &mh, MSG_NOSIGNAL);
}

static long
live(const struct given *g)
{
	void *p = malloc(1 << 22);
	long rc = p == NULL ? -1 : write(STDERR_FILENO, "", 0);

	free(p);
	(void)g;
	return rc;
}

/* What each role may not. */

#define EACH_ROLE_R for (enum role r = ROLE_WORKER; r <= ROLE_CONTROL; r++)

static void
every_role_lives_and_speaks_to_super_in_its_jail(void **state)
{
	(void)state;
	EACH_ROLE_R
	{
		assert_int_equal(do_in_jail(r, NULL, live), ALLOWED);
		assert_int_equal(do_in_jail(r, NULL, speak_on_the_line), ALLOWED);
	}
}

static void
only_a_dialer_with_that_capability_marks_packets(void **state)
{
	const uint64_t net_admin = 1ULL << CAP_NET_ADMIN;

	(void)state;
	EACH_ROLE_R
	{
		assert_int_equal(do_in_jail(r, NULL, mark_packets), KILLED);
		if (r != ROLE_DIALER)
			assert_int_equal(do_keeping(r, NULL, mark_packets, net_admin),
					 KILLED);
	}
	/* Who has none to keep is in the same jail as who was left none. */
	assert_int_equal(do_keeping(ROLE_DIALER, NULL, mark_packets, net_admin),
			 geteuid() == 0 ? ALLOWED : KILLED);
	assert_int_equal(do_keeping(ROLE_DIALER, NULL, steer_connections, net_admin),
			 KILLED);
}

static void
no_role_executes_traces_or_makes_code_and_one_forks(void **state)
{
	static const deed_fn deeds[] = { execute,    io_uring,
					 trace,      read_another_process,
					 map_code,   make_code,
					 kill_parent };

	(void)state;
	EACH_ROLE_R
	{
		for (size_t i = 0; i < COUNT_OF(deeds); i++)
			assert_int_equal(do_in_jail(r, NULL, deeds[i]), KILLED);
		/* The keeper makes a key of a passphrase in a child. */
		assert_int_equal(do_in_jail(r, NULL, fork_one),
				 r == ROLE_KEEPER ? ALLOWED : KILLED);
		assert_int_equal(do_in_jail(r, NULL, make_thread), KILLED);
	}
}

static void
only_the_dialer_makes_sockets_and_only_plain_ones(void **state)
{
	(void)state;
	EACH_ROLE_R
	{
		assert_int_equal(do_in_jail(r, NULL, make_socket),
				 r == ROLE_DIALER ? ALLOWED : KILLED);
		assert_int_equal(do_in_jail(r, NULL, connect_on),
				 r == ROLE_DIALER ? ALLOWED : KILLED);
		assert_int_equal(do_in_jail(r, NULL, make_netlink), KILLED);
		assert_int_equal(do_in_jail(r, NULL, make_raw), KILLED);
		assert_int_equal(do_in_jail(r, NULL, make_unix), KILLED);
		assert_int_equal(do_in_jail(r, NULL, bind_on), KILLED);
	}
}

static void
no_role_opens_a_file_outside_its_directory(void **state)
{
	(void)state;
	EACH_ROLE_R
	{
		assert_int_equal(do_in_jail(r, NULL, open_a_file), REFUSED);
		assert_int_equal(do_in_jail(r, NULL, write_a_file), REFUSED);
	}
}

static void
a_worker_cannot_turn_what_it_holds_into_a_connection(void **state)
{
	(void)state;
	EACH_ROLE_R
	{
		assert_int_equal(do_in_jail(r, NULL, fast_open), KILLED);
		assert_int_equal(do_in_jail(r, NULL, fast_open_by_message), KILLED);
	}
	assert_int_equal(do_in_jail(ROLE_WORKER, NULL, send_to_an_address), KILLED);
	assert_int_equal(do_in_jail(ROLE_CONTROL, NULL, send_to_an_address), KILLED);
	assert_int_equal(do_in_jail(ROLE_DNS, NULL, send_to_an_address), ALLOWED);
}

static void
a_worker_cannot_draw_other_sandboxes_to_itself(void **state)
{
	(void)state;
	EACH_ROLE_R
	assert_int_equal(do_in_jail(r, NULL, steer_connections), KILLED);
}

/* The ledger's directory. */

static long
write_below(const struct given *g)
{
	(void)g;
	return open("allowed/x", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static long
write_beside(const struct given *g)
{
	(void)g;
	return open("x", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void
the_ledger_writes_below_its_directory_only(void **state)
{
	char dir[] = "/tmp/sandgate-jail-XXXXXX";

	(void)state;
	/* Without Landlock the user id is what is left. */
	if (syscall(444, NULL, 0, 1) <= 0 ||
	    do_in_jail(ROLE_LEDGER, NULL, live) != ALLOWED)
		skip();
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(mkdir("allowed", 0700), 0);
	assert_int_equal(do_in_jail(ROLE_LEDGER, "allowed", write_below), ALLOWED);
	assert_int_equal(do_in_jail(ROLE_LEDGER, "allowed", write_beside), REFUSED);
	assert_int_equal(unlink("allowed/x"), 0);
	assert_int_equal(rmdir("allowed"), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* Before the jail. */

static long
has_nothing_left(const struct given *g)
{
	char text[4096] = "";
	FILE *f = fopen("/proc/thread-self/status", "re");

	(void)g;
	if (f == NULL || fread(text, 1, sizeof text - 1, f) == 0)
		return -1;
	bool ok = strstr(text, "\nNoNewPrivs:\t1\n") != NULL &&
		  strstr(text, "\nCapEff:\t0000000000000000\n") != NULL &&
		  strstr(text, "\nCapPrm:\t0000000000000000\n") != NULL &&
		  prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
	return ok ? 0 : -1;
}

static void
a_role_has_no_capability_and_gains_none(void **state)
{
	int how = 0;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(jail_early(ROLE_WORKER, 0) != ST_OK ||
		      has_nothing_left(NULL) != 0);
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_int_equal(how, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_role_has_no_capability_and_gains_none),
		cmocka_unit_test(every_role_lives_and_speaks_to_super_in_its_jail),
		cmocka_unit_test(no_role_executes_traces_or_makes_code_and_one_forks),
		cmocka_unit_test(only_a_dialer_with_that_capability_marks_packets),
		cmocka_unit_test(only_the_dialer_makes_sockets_and_only_plain_ones),
		cmocka_unit_test(no_role_opens_a_file_outside_its_directory),
		cmocka_unit_test(a_worker_cannot_turn_what_it_holds_into_a_connection),
		cmocka_unit_test(a_worker_cannot_draw_other_sandboxes_to_itself),
		cmocka_unit_test(the_ledger_writes_below_its_directory_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
