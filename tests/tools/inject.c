/*
 * inject PID CALL [ARGUMENT...] [--data HEX] [--reloc OFFSET]...: the process asks the
 * kernel this, as if whoever took it over did.  An argument is a number or &N, the
 * address of byte N of the data, which lies below its stack; at each --reloc the eight
 * bytes there become such an address.  Says "returned N" or "killed N" (the signal).
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"

/* BELOW: more than the 128 octets below its stack that a function may use.  Not far below
 * either: what it has not touched yet can't be written from outside. */
enum { DATA_MAX = 8192, ARGS = 7, BELOW = 256, RELOCS = 16 };

struct inject {
	pid_t pid;
	uint64_t args[ARGS]; /* the call first */
	bool is_offset[ARGS];
	size_t args_n;
	unsigned char data[DATA_MAX];
	size_t data_n;
	uint64_t relocs[RELOCS];
	size_t relocs_n;
};

NORETURN static void
die(const char *what)
{
	(void)fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t
number(struct str s)
{
	uint64_t v = 0;

	if (str_starts(s, STR("-")))
		return ~number(str_skip(s, 1)) + 1;
	if (!num_parse_u64(s, UINT64_MAX, &v))
		die("a number is expected");
	return v;
}

static void
read_data(struct inject *in, const char *hex)
{
	size_t n = strlen(hex) / 2;

	if (n > DATA_MAX)
		die("too much data");
	for (size_t i = 0; i < n; i++)
		in->data[i] = (unsigned char)(enc_hex_digit(hex[2 * i]) << 4 |
					      enc_hex_digit(hex[2 * i + 1]));
	in->data_n = n;
}

static void
read_words(struct inject *in, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct str word = str_from(argv[i]);
		if (str_eq(word, STR("--data")) && i + 1 < argc) {
			read_data(in, argv[++i]);
		} else if (str_eq(word, STR("--reloc")) && i + 1 < argc &&
			   in->relocs_n < RELOCS) {
			in->relocs[in->relocs_n++] = number(str_from(argv[++i]));
		} else if (i == 1) {
			in->pid = (pid_t)number(word);
		} else if (in->args_n < ARGS) {
			in->is_offset[in->args_n] = str_starts(word, STR("&"));
			in->args[in->args_n] = number(
				str_skip(word, in->is_offset[in->args_n] ? 1 : 0));
			in->args_n++;
		}
	}
	if (in->pid <= 0 || in->args_n == 0)
		die("usage: inject PID CALL [ARGUMENT...] [--data HEX] [--reloc N]");
}

/* Its data at `base`, with what points into it. */
static void
put_data(struct inject *in, uint64_t base)
{
	struct iovec ours = { in->data, in->data_n },
		     theirs = { (void *)(uintptr_t)base, in->data_n };
	uint64_t v;

	for (size_t i = 0; i < in->relocs_n; i++) {
		if (in->relocs[i] > DATA_MAX - sizeof v)
			die("--reloc");
		memcpy(&v, in->data + in->relocs[i], sizeof v);
		v += base;
		memcpy(in->data + in->relocs[i], &v, sizeof v);
	}
	for (size_t i = 0; i < in->args_n; i++)
		in->args[i] += in->is_offset[i] ? base : 0;
	if (in->data_n > 0 &&
	    process_vm_writev(in->pid, &ours, 1, &theirs, 1, 0) != (ssize_t)in->data_n)
		die("its stack can't be written");
}

/* The next stop; ends the program when the process is gone. */
static void
wait_stop(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, __WALL) != pid)
		die("waitpid");
	if (WIFSTOPPED(status))
		return;
	if (WIFSIGNALED(status))
		(void)printf("killed %d\n", WTERMSIG(status));
	else
		(void)printf("exited %d\n", WEXITSTATUS(status));
	exit(0);
}

static long
trace(enum __ptrace_request request, pid_t pid, uint64_t address, uint64_t value)
{
	long rc = ptrace(request, pid, (void *)(uintptr_t)address,
			 (void *)(uintptr_t)value);

	if (rc == -1 && errno != 0)
		die("ptrace");
	return rc;
}

static void
call(struct inject *in)
{
	struct user_regs_struct before, regs;

	trace(PTRACE_GETREGS, in->pid, 0, (uintptr_t)&before);
	regs = before;
	put_data(in, (regs.rsp - BELOW - in->data_n) & ~15ULL);
	regs.orig_rax = UINT64_MAX; /* nothing to begin again */
	regs.rax = in->args[0];
	regs.rdi = in->args[1];
	regs.rsi = in->args[2];
	regs.rdx = in->args[3];
	regs.r10 = in->args[4];
	regs.r8 = in->args[5];
	regs.r9 = in->args[6];
	errno = 0;
	uint64_t text = (uint64_t)trace(PTRACE_PEEKTEXT, in->pid, regs.rip, 0);
	trace(PTRACE_POKETEXT, in->pid, regs.rip, (text & ~0xffffULL) | 0x050f);
	trace(PTRACE_SETREGS, in->pid, 0, (uintptr_t)&regs);
	trace(PTRACE_SINGLESTEP, in->pid, 0, 0);
	wait_stop(in->pid);
	trace(PTRACE_GETREGS, in->pid, 0, (uintptr_t)&regs);
	(void)printf("returned %lld\n", (long long)regs.rax);
	trace(PTRACE_POKETEXT, in->pid, before.rip, text);
	trace(PTRACE_SETREGS, in->pid, 0, (uintptr_t)&before);
}

int
main(int argc, char **argv)
{
	struct inject *in = calloc(1, sizeof *in);

	if (in == NULL)
		die("memory");
	read_words(in, argc, argv);
	errno = 0;
	trace(PTRACE_SEIZE, in->pid, 0, 0);
	trace(PTRACE_INTERRUPT, in->pid, 0, 0);
	wait_stop(in->pid);
	call(in);
	(void)ptrace(PTRACE_DETACH, in->pid, NULL, NULL);
	free(in);
	return 0;
}
