/*
 * fdpass: what passing descriptors costs: the size of a DIAL ask and its answer, over
 * SOCK_SEQPACKET between two processes on one processor, with and without a descriptor
 * in each direction.  Prints {"plain": ns, "passed": ns} of a round trip, both
 * processes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/base/base.h"

enum { ROUNDS = 100000, ASK = 64, ANSWER = 96 };

static void
put(int line, size_t n, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	char body[ANSWER] = { 0 };
	struct iovec v = { body, n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (fd >= 0) {
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	if (sendmsg(line, &m, MSG_NOSIGNAL) < 0)
		exit(1);
}

/* False at the end.  The descriptor that came is closed. */
static bool
get(int line)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char body[ANSWER];
	struct iovec v = { body, sizeof(body) };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(line, &m, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	int fd;

	if (c != NULL) {
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
		(void)close(fd);
	}
	return n > 0;
}

static uint64_t
spent_us(int who)
{
	struct rusage u = { 0 };

	(void)getrusage(who, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static uint64_t
round_trip_ns(int fd)
{
	int line[2];
	uint64_t began = spent_us(RUSAGE_SELF) + spent_us(RUSAGE_CHILDREN);

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, line) != 0)
		exit(1);
	pid_t child = fork();
	if (child == 0) {
		(void)close(line[0]);
		while (get(line[1]))
			put(line[1], ANSWER, fd);
		_exit(0);
	}
	(void)close(line[1]);
	for (int i = 0; i < ROUNDS; i++) {
		put(line[0], ASK, fd);
		if (!get(line[0]))
			exit(1);
	}
	(void)close(line[0]);
	(void)waitpid(child, NULL, 0);
	return (spent_us(RUSAGE_SELF) + spent_us(RUSAGE_CHILDREN) - began) * 1000 /
	       ROUNDS;
}

int
main(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t plain = round_trip_ns(-1), passed = round_trip_ns(fd);

	printf("{\"plain\": %llu, \"passed\": %llu}\n", (unsigned long long)plain,
	       (unsigned long long)passed);
	return 0;
}
