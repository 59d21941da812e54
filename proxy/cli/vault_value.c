#include "proxy/cli/vault_value.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "proxy/io/vault_op.h"

/* One more than is taken, so that too much is seen; and a line's end. */
enum { ROOM = VAULT_VALUE_MAX + 3, PAGES = (ROOM + 4095) / 4096 * 4096 };

struct held { /* memory that is locked and wiped */
	char *p;
	size_t n;
};

static bool
held_new(struct held *h)
{
	void *p = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		return false;
	(void)!mlock(p, PAGES);
	(void)madvise(p, PAGES, MADV_DONTDUMP);
	*h = (struct held){ p, 0 };
	return true;
}

static void
held_done(struct held *h)
{
	if (h->p == NULL)
		return;
	explicit_bzero(h->p, PAGES);
	(void)munmap(h->p, PAGES);
	h->p = NULL;
}

static enum status
say(enum status st, const char *what, const char *why)
{
	(void)fprintf(stderr, "sandgate vault: %s: %s\n", what, why);
	return st;
}

/* From a pipe or a file. */

static bool
read_all(struct held *h)
{
	while (h->n < ROOM) {
		ssize_t n = read(STDIN_FILENO, h->p + h->n, ROOM - h->n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		h->n += (size_t)n;
	}
	return true;
}

/* What `echo` adds is not meant. */
static void
cut_line_end(struct held *h)
{
	if (h->n > 0 && h->p[h->n - 1] == '\n')
		h->n--;
	if (h->n > 0 && h->p[h->n - 1] == '\r')
		h->n--;
}

/* From a terminal. */

static void
block_signals(sigset_t *set, sigset_t *before)
{
	static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP };

	(void)sigemptyset(set);
	for (size_t i = 0; i < COUNT_OF(all); i++)
		(void)sigaddset(set, all[i]);
	(void)sigprocmask(SIG_BLOCK, set, before);
}

/* One line; 0, or the signal that came first: it is taken only when the terminal shows
 * again what is typed. */
static int
read_line(struct held *h, int signals)
{
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };
	struct signalfd_siginfo info;

	while (h->n < ROOM && (h->n == 0 || h->p[h->n - 1] != '\n')) {
		if (poll(fds, COUNT_OF(fds), -1) < 0 && errno != EINTR)
			return SIGINT;
		if (fds[1].revents != 0 &&
		    read(signals, &info, sizeof info) == (ssize_t)sizeof info)
			return (int)info.ssi_signo;
		if (fds[0].revents == 0)
			continue;
		ssize_t n = read(STDIN_FILENO, h->p + h->n, ROOM - h->n);
		if (n <= 0)
			break;
		h->n += (size_t)n;
	}
	return 0;
}

static bool
ask(const char *what, struct held *h)
{
	struct termios shown = { 0 }, hidden;
	sigset_t set, before;

	block_signals(&set, &before);
	int signals = signalfd(-1, &set, SFD_CLOEXEC);
	bool ok = signals >= 0 && tcgetattr(STDIN_FILENO, &shown) == 0;
	int came = 0;
	if (ok) {
		hidden = shown;
		hidden.c_lflag &= ~(tcflag_t)ECHO;
		/* Hidden first: whoever types as soon as asked would be shown. */
		ok = tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0;
		(void)fprintf(stderr, "%s: ", what);
		came = ok ? read_line(h, signals) : 0;
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &shown);
		(void)fputc('\n', stderr);
	}
	if (signals >= 0)
		(void)close(signals);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (came != 0)
		(void)raise(came);
	cut_line_end(h);
	return ok && came == 0;
}

static enum status
ask_twice(const struct vault_value_wish *w, struct held *h)
{
	CLEANUP(held_done) struct held again = { 0 };
	char what[80];

	if (!ask(w->what, h))
		return say(ST_SYSTEM, w->what, "the terminal can't be read");
	if (!w->twice)
		return ST_OK;
	(void)snprintf(what, sizeof what, "%s again", w->what);
	if (!held_new(&again) || !ask(what, &again))
		return say(ST_SYSTEM, w->what, "the terminal can't be read");
	if (h->n != again.n || memcmp(h->p, again.p, h->n) != 0)
		return say(ST_CONFLICT, w->what, "the two are not the same");
	return ST_OK;
}

/* The memfd. */

static int
seal(const struct held *h)
{
	int fd = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

	if (fd >= 0 && (write(fd, h->p, h->n) != (ssize_t)h->n ||
			fcntl(fd, F_ADD_SEALS, seals) < 0)) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

enum status
vault_value_read(const struct vault_value_wish *w, int *ret_fd)
{
	CLEANUP(held_done) struct held h = { 0 };
	bool is_terminal = isatty(STDIN_FILENO) == 1;

	if (!held_new(&h))
		return say(ST_NOMEM, w->what, strerror(errno));
	if (is_terminal && !w->is_whole) {
		enum status st = ask_twice(w, &h);
		if (st != ST_OK)
			return st;
	} else if (!read_all(&h)) {
		return say(ST_SYSTEM, "standard input", strerror(errno));
	} else if (!w->is_whole) {
		cut_line_end(&h);
	}
	if (h.n == 0)
		return say(ST_BAD_SECRET, w->what, "nothing came on standard input");
	if (h.n > VAULT_VALUE_MAX)
		return say(ST_BAD_SECRET, w->what, "longer than 8 KiB");
	int fd = seal(&h);
	if (fd < 0)
		return say(ST_SYSTEM, w->what, strerror(errno));
	*ret_fd = fd;
	return ST_OK;
}
