#include "proxy/cli/calls.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 5.19: a signal does not take back a call that is being answered. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

/* Families are compared whole: what stands above 32 bits makes them 64 or more. */
enum { FAMILIES = 64, SOCK_KIND = 0xf, PROGRAM_MAX = 4096 };

static const uint32_t no_family = SCMP_ACT_ERRNO(EAFNOSUPPORT);

static bool
refuse(scmp_filter_ctx f, uint32_t how, int call, struct scmp_arg_cmp one)
{
	return seccomp_rule_add_array(f, how, call, 1, &one) == 0;
}

static bool
families(scmp_filter_ctx f)
{
	const struct scmp_arg_cmp route_only[] = {
		{ 0, SCMP_CMP_EQ, AF_NETLINK, 0 },
		{ 2, SCMP_CMP_NE, 0, 0 }, /* getifaddrs() needs NETLINK_ROUTE */
	};
	const struct scmp_arg_cmp above = { 0, SCMP_CMP_GE, FAMILIES, 0 };
	bool ok = seccomp_rule_add_array(f, no_family, SCMP_SYS(socket), 2,
					 route_only) == 0 &&
		  refuse(f, no_family, SCMP_SYS(socket), above);

	for (unsigned family = 0; ok && family < FAMILIES; family++) {
		const struct scmp_arg_cmp one = { 0, SCMP_CMP_EQ, family, 0 };
		if (family != AF_UNIX && family != AF_INET && family != AF_INET6 &&
		    family != AF_NETLINK)
			ok = refuse(f, no_family, SCMP_SYS(socket), one);
	}
	return ok;
}

/* SOCK_RAW of this family is another word for SOCK_DGRAM. */
static bool
unix_datagrams(scmp_filter_ctx f)
{
	bool ok = true;

	for (unsigned kind = 0; ok && kind <= SOCK_KIND; kind++) {
		const struct scmp_arg_cmp both[] = {
			{ 0, SCMP_CMP_EQ, AF_UNIX, 0 },
			{ 1, SCMP_CMP_MASKED_EQ, SOCK_KIND, kind },
		};
		if (kind == SOCK_STREAM || kind == SOCK_SEQPACKET)
			continue;
		ok = seccomp_rule_add_array(f, no_family, SCMP_SYS(socket), 2, both) ==
			     0 &&
		     seccomp_rule_add_array(f, no_family, SCMP_SYS(socketpair), 2,
					    both) == 0;
	}
	return ok;
}

static bool
others(scmp_filter_ctx f)
{
	/* Rings connect without asking.  Keys are the user's, not the session's:
	 * whoever knows a serial number (they are listed) may read them. */
	static const int absent[] = {
		SCMP_SYS(io_uring_setup),    SCMP_SYS(io_uring_enter),
		SCMP_SYS(io_uring_register), SCMP_SYS(add_key),
		SCMP_SYS(request_key),       SCMP_SYS(keyctl)
	};
	const struct scmp_arg_cmp type = { 1, SCMP_CMP_MASKED_EQ, UINT32_MAX, TIOCSTI },
				  paste = { 1, SCMP_CMP_MASKED_EQ, UINT32_MAX,
					    TIOCLINUX };
	bool ok = refuse(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), type) &&
		  refuse(f, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), paste);

	for (size_t i = 0; ok && i < COUNT_OF(absent); i++)
		ok = seccomp_rule_add_array(f, SCMP_ACT_ERRNO(ENOSYS), absent[i], 0,
					    NULL) == 0;
	return ok && seccomp_rule_add_array(f, SCMP_ACT_NOTIFY, SCMP_SYS(connect), 0,
					    NULL) == 0;
}

/* Loaded by hand: libseccomp 2.5 can't set the flag. */
static int
load(scmp_filter_ctx f)
{
	struct sock_filter code[PROGRAM_MAX];
	int fd = memfd_create("calls", MFD_CLOEXEC);
	ssize_t n = -1;

	if (fd >= 0 && seccomp_export_bpf(f, fd) == 0)
		n = pread(fd, code, sizeof code, 0);
	if (fd >= 0)
		(void)close(fd);
	if (n <= 0 || (size_t)n == sizeof code)
		return -1;
	struct sock_fprog program = { (unsigned short)((size_t)n / sizeof code[0]),
				      code };
	long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				SECCOMP_FILTER_FLAG_NEW_LISTENER |
					SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
				&program);
	if (listener < 0 && errno == EINVAL)
		listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				   SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	return (int)listener;
}

static bool
send_one(int line, int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .align = { .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS,
				 .cmsg_len = CMSG_LEN(sizeof(int)) } };
	char byte = 'c';
	struct iovec io = { &byte, 1 };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = control.room,
			    .msg_controllen = sizeof control.room };

	memcpy(CMSG_DATA(&control.align), &fd, sizeof fd);
	return sendmsg(line, &m, MSG_NOSIGNAL) == 1;
}

bool
calls_limit(int line)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	bool ok = f != NULL && families(f) && unix_datagrams(f) && others(f);
	int listener = ok ? load(f) : -1;

	seccomp_release(f);
	if (listener < 0)
		return false;
	ok = send_one(line, listener);
	(void)close(listener);
	return ok;
}

int
calls_receive(int line)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte;
	struct iovec io = { &byte, 1 };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = control.room,
			    .msg_controllen = sizeof control.room };
	int fd = -1;

	if (recvmsg(line, &m, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}
