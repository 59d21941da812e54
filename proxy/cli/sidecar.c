/*
 * sandgate sidecar: rules first, then the gateway, then the sandbox is registered; only then
 * /healthz says ok and the server starts the sandbox.  The first process of its container,
 * so it reaps what others leave.  When the gateway ends, so does the container.
 */
#include "proxy/cli/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/exec.h"
#include "proxy/base/clock.h"
#include "proxy/cli/admin.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/ns.h"
#include "proxy/cli/trust_files.h"
#include "proxy/cli/where.h"

enum { TEXT_MAX = 64 * 1024, READY_MS = 25000, STOP_MS = 5000, REST_MS = 1000 };

static const char usage[] =
	"usage: sandgate sidecar\n"
	"The gateway as OpenSandbox's egress container: what [egress].image of\n"
	"opensandbox-server names. Told by OPENSANDBOX_EGRESS_... in the "
	"environment.\n";

static const struct admin_where where = { .state = SIDECAR_STATE };

struct life {
	sigset_t signals; /* blocked; waited for */
	pid_t gateway;    /* 0: it has ended */
	int ready;        /* becomes readable when it serves */
};

static bool
say(const char *what)
{
	(void)fprintf(stderr, "sandgate sidecar: %s\n", what);
	return false;
}

/* What the system refused, in its words. */
static bool
say_errno(const char *what)
{
	(void)fprintf(stderr, "sandgate sidecar: %s: %s\n", what, strerror(errno));
	return false;
}

/* Before the gateway. */

static bool
load_these(const struct sidecar *s, bool quiet)
{
	static const char *const load[] = { "nft", "-f", "-", NULL };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;

	buf_init(&b, TEXT_MAX);
	sidecar_put_rules(&b, s);
	return buf_finish(&b, &text) == ST_OK && ns_tool(load, text, quiet) == 0;
}

/* Kernels without nft's `socket` hold everything but what comes to the API's port when the
 * gateway is gone. */
static bool
load_rules(struct sidecar *s)
{
	if (load_these(s, true))
		return true;
	s->knows_sockets = false;
	if (!load_these(s, false))
		return say("the nft rules can't be loaded: CAP_NET_ADMIN and nft are "
			   "needed");
	(void)say("this kernel's nft knows no sockets: when the gateway is gone, "
		  "a server of the sandbox's is reached on its port");
	return true;
}

static bool
write_config(const struct sidecar *s)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;

	buf_init(&b, TEXT_MAX);
	sidecar_put_config(&b, s);
	if (buf_finish(&b, &text) != ST_OK) {
		(void)fprintf(stderr,
			      "sandgate sidecar: no configuration can be made: %s\n",
			      status_words(b.st)->sentence);
		return false;
	}
	if (mkdir(SIDECAR_DIR, 0755) < 0 && errno != EEXIST)
		return say_errno(SIDECAR_DIR " can't be made");
	(void)unlink(SIDECAR_CONFIG);
	return trust_write(SIDECAR_CONFIG, text) == ST_OK ||
	       say_errno(SIDECAR_CONFIG " can't be written");
}

/* The gateway's process. */

NORETURN static void
become_gateway(const struct life *l, const char *exe, int ready)
{
	char number[12];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)sigprocmask(SIG_UNBLOCK, &l->signals, NULL);
	(void)fcntl(ready, F_SETFD, 0);
	(void)snprintf(number, sizeof number, "%d", ready);
	(void)execl(exe, "sandgate-super", "-c", SIDECAR_CONFIG, "--ready-fd", number,
		    (char *)NULL);
	_exit(127);
}

static bool
start(struct life *l)
{
	CLEANUP(buf_done) struct buf exe = { 0 };
	int ends[2];

	buf_init(&exe, 4096);
	if (where_exe("sandgate-super", &exe) != ST_OK)
		return say("sandgate-super is not installed");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return say_errno("no pipe to hear from the gateway by");
	l->gateway = fork();
	if (l->gateway == 0)
		become_gateway(l, buf_cstr(&exe), ends[1]);
	bool is_begun = l->gateway > 0 || say_errno("no process for the gateway");
	(void)close(ends[1]);
	l->ready = ends[0];
	l->gateway = is_begun ? l->gateway : 0;
	return is_begun;
}

/* Any child; most are not ours but were left to us. */
static void
reap(struct life *l)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		if (pid == l->gateway)
			l->gateway = 0;
}

/* The next signal that means the end, or 0 after this time: the gateway may be gone. */
static int
wait_signal(struct life *l, int ms)
{
	const struct timespec span = { ms / 1000, (long)(ms % 1000) * 1000000 };
	int got = ms < 0 ? sigwaitinfo(&l->signals, NULL)
			 : sigtimedwait(&l->signals, NULL, &span);

	reap(l);
	return got == SIGTERM || got == SIGINT ? got : 0;
}

static bool
wait_ready(struct life *l)
{
	uint64_t end = clock_mono_ms() + READY_MS;
	struct pollfd p = { .fd = l->ready, .events = POLLIN };
	char octet;

	while (clock_mono_ms() < end && l->gateway != 0) {
		if (poll(&p, 1, 20) > 0)
			return read(l->ready, &octet, 1) == 1 ||
			       say("the gateway did not start");
		if (wait_signal(l, 0) != 0)
			return say("stopped");
	}
	return say("the gateway did not start");
}

static void
stop(struct life *l)
{
	uint64_t end = clock_mono_ms() + STOP_MS;

	if (l->gateway != 0)
		(void)kill(l->gateway, SIGTERM);
	while (l->gateway != 0 && clock_mono_ms() < end)
		(void)wait_signal(l, 50);
	if (l->gateway != 0)
		(void)kill(l->gateway, SIGKILL);
	/* Ledger and keeper store what the others said last. */
	end = clock_mono_ms() + REST_MS;
	while (clock_mono_ms() < end && waitpid(-1, NULL, WNOHANG) >= 0)
		(void)usleep(10000);
}

/* What makes it ready for the sandbox. */

/* The folder is the sandbox's as well, and may hold what it left there. */
static bool
write_ca(const char *pem)
{
	static const char made[] = EXEC_CA_INSIDE ".new";

	(void)unlink(made);
	return (trust_write(made, str_from(pem)) == ST_OK &&
		rename(made, EXEC_CA_INSIDE) == 0) ||
	       say_errno(EXEC_CA_INSIDE " can't be written");
}

static bool
publish_ca(void)
{
	const struct admin_wish wish = { .method = "GET", .path = "/v1/ca/export" };
	struct admin_reply reply;

	if (admin_call(&where, &wish, &reply) != ST_OK)
		return false;
	const char *pem = json_string_value(json_object_get(reply.body, "pem"));
	bool is_told = reply.http == 200 && pem != NULL;
	if (!is_told)
		admin_print_refusal(&reply);
	bool ok = is_told && write_ca(pem);
	json_decref(reply.body);
	return ok;
}

static json_t *
sources(const struct sidecar *s)
{
	json_t *all = json_array();

	for (size_t i = 0; i < s->addrs_n; i++) {
		CLEANUP(buf_done) struct buf b = { 0 };

		buf_init(&b, 64);
		addr_put(&b, &s->addrs[i]);
		(void)json_array_append_new(all, json_stringn(b.p, b.len));
	}
	(void)json_array_append_new(all, json_string("127.0.0.1"));
	(void)json_array_append_new(all, json_string("::1"));
	return all;
}

/* No policy is one that allows nothing. */
static bool
register_sandbox(const struct sidecar *s)
{
	struct admin_wish wish = { .method = "POST", .path = "/v1/register" };
	struct admin_reply reply;
	json_t *policy = s->rules == NULL || s->rules[0] == '\0'
				 ? json_object()
				 : json_loads(s->rules, JSON_REJECT_DUPLICATES, NULL);

	if (policy == NULL)
		return say("OPENSANDBOX_EGRESS_RULES is no JSON");
	wish.body =
		json_pack("{s:s, s:s, s:s, s:o, s:b, s:o}", "id", s->id, "user",
			  "sandbox", "policy", sidecar_policy(s), "sources", sources(s),
			  "trusts_ca", s->intercepts, "networkPolicy", policy);
	enum status st = admin_call(&where, &wish, &reply);
	json_decref(wish.body);
	if (st != ST_OK)
		return false;
	bool ok = reply.http == 200;
	if (!ok)
		admin_print_refusal(&reply);
	json_decref(reply.body);
	return ok;
}

static int
live(const struct sidecar *s)
{
	struct life l = { .ready = -1 };

	(void)sigemptyset(&l.signals);
	(void)sigaddset(&l.signals, SIGTERM);
	(void)sigaddset(&l.signals, SIGINT);
	(void)sigaddset(&l.signals, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &l.signals, NULL);
	bool ok = start(&l) && wait_ready(&l) && (!s->intercepts || publish_ca()) &&
		  register_sandbox(s);
	int got = 0;
	while (ok && l.gateway != 0 && got == 0)
		got = wait_signal(&l, -1);
	if (ok && got == 0)
		(void)say("the gateway has ended; nothing gets out");
	stop(&l);
	return got != 0 ? 0 : 1;
}

int
cmd_sidecar(int argc, char **argv)
{
	struct sidecar s;

	args_help(argc, argv, usage);
	if (argc != 1) {
		(void)fputs(usage, stderr);
		return 2;
	}
	/* Its rules are for all of a network namespace: not for the one of this machine. */
	if (getpid() != 1 && !say("it is to be the first process of a container"))
		return 1;
	if (!sidecar_read(&s) || !load_rules(&s) || !write_config(&s))
		return 1;
	return live(&s);
}
