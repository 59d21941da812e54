#include "proxy/cli/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf/image.h"
#include "proxy/base/addr.h"
#include "proxy/cli/resolvers.h"
#include "proxy/cli/where.h"
#include "proxy/http/dest.h"
#include "proxy/io/state_dir.h"

enum { CONFIG_MAX = 256 * 1024 };

/* A configuration of our own. */

/* The host part may be a pattern, so only its name behind "*." is a destination. */
static bool
put_allow(struct buf *b, const char *item)
{
	struct str whole = str_from(item), s = whole;
	struct dest d;

	if (str_starts(s, STR("*.")))
		s = str_skip(s, 2);
	if (dest_from_authority(s, 443, &d) != ST_OK || !dest_is_name(&d)) {
		(void)fprintf(stderr,
			      "sandgate exec: --allow %s: not a host name, `*.name` or "
			      "HOST:PORT\n",
			      item);
		return false;
	}
	buf_put(b, STR("      - {hosts: [\""));
	buf_put(b, str_head(whole, whole.n - s.n));
	buf_put(b, dest_name(&d));
	buf_put(b, STR("\"]"));
	if (str_has(s, ':'))
		buf_putf(b, ", ports: [%u]", d.port);
	buf_put(b, STR("}\n"));
	return true;
}

/* Their connectors, and the policy's beginning, which lists them. */
static bool
put_secrets(struct buf *b, const struct gate_wish *w, const char *policy)
{
	buf_put(b, w->secrets_n > 0 ? STR("connectors:\n") : STR(""));
	for (size_t i = 0; i < w->secrets_n; i++)
		if (!gate_secret_put_connector(b, &w->secrets[i], i))
			return false;
	buf_putf(b, "policies:\n  %s:\n", policy);
	buf_put(b, w->secrets_n > 0 ? STR("    connectors: [") : STR(""));
	for (size_t i = 0; i < w->secrets_n; i++) {
		buf_put(b, i > 0 ? STR(", ") : STR(""));
		gate_secret_put_name(b, i);
	}
	buf_put(b, w->secrets_n > 0 ? STR("]\n") : STR(""));
	return true;
}

bool
gate_put_policy(struct buf *b, const struct gate_wish *w, const char *policy)
{
	if (!put_secrets(b, w, policy))
		return false;
	buf_put(b, w->allow_n > 0 ? STR("    allow:\n") : STR("    allow: []\n"));
	for (size_t i = 0; i < w->allow_n; i++)
		if (!put_allow(b, w->allow[i]))
			return false;
	return true;
}

static bool
put_config(struct buf *b, const struct gate_wish *w, const char *dir)
{
	buf_put(b, STR("state_dir: "));
	buf_putf(b, "\"%s/state\"\nworkers: 1\n", dir);
	resolvers_put(b);
	return gate_put_policy(b, w, GATE_POLICY);
}

static enum status
write_config(const struct gate_wish *w, struct gate *g)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	const char *tmp = getenv("TMPDIR");
	char path[4096];
	struct str s;

	int n = snprintf(path, sizeof path, "%s/sandgate-exec-XXXXXX",
			 tmp ? tmp : "/tmp");
	if (n < 0 || (size_t)n >= sizeof path || mkdtemp(path) == NULL ||
	    chmod(path, 0711) < 0) {
		(void)fprintf(stderr, "sandgate exec: %s: %s\n", path, strerror(errno));
		return ST_SYSTEM;
	}
	buf_put(&g->dir, str_from(path));
	buf_putf(&g->config, "%s/sandgate.yaml", path);
	buf_init(&text, CONFIG_MAX);
	if (!put_config(&text, w, path) || buf_finish(&text, &s) != ST_OK)
		return ST_BAD_CONFIG;
	int fd = open(buf_cstr(&g->config), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		      0644);
	bool ok = fd >= 0 && write(fd, s.p, s.n) == (ssize_t)s.n;
	if (fd >= 0)
		(void)close(fd);
	return ok ? ST_OK : ST_SYSTEM;
}

/* The process. */

NORETURN static void
become_gateway(const struct gate *g, const char *exe, const char *config, int ready)
{
	CLEANUP(buf_done) struct buf log = { 0 };
	char number[12];

	/* A terminal's interrupt is for the command; ours ends when we do. */
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
	buf_init(&log, 4096);
	buf_putf(&log, "%.*s/log", STR_ARG(str_of(g->dir.p, g->dir.len)));
	int fd = g->dir.len == 0
			 ? -1
			 : open(buf_cstr(&log), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)dup2(fd, STDERR_FILENO);
	(void)fcntl(ready, F_SETFD, 0);
	(void)snprintf(number, sizeof number, "%d", ready);
	(void)execl(exe, "sandgate-super", "-c", config, "--ready-fd", number,
		    (char *)NULL);
	_exit(127);
}

static void
show_log(const struct gate *g)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	char line[512];

	if (g->dir.len == 0)
		return;
	buf_init(&path, 4096);
	buf_putf(&path, "%.*s/log", STR_ARG(str_of(g->dir.p, g->dir.len)));
	FILE *f = fopen(buf_cstr(&path), "re");
	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		(void)fputs(line, stderr);
	if (f != NULL)
		(void)fclose(f);
}

static enum status
start(struct gate *g)
{
	CLEANUP(buf_done) struct buf exe = { 0 };
	int ends[2];
	char ready = 0;

	buf_init(&exe, 4096);
	if (where_exe("sandgate-super", &exe) != ST_OK) {
		(void)fprintf(stderr,
			      "sandgate exec: sandgate-super is not installed\n");
		return ST_NOT_FOUND;
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return ST_SYSTEM;
	pid_t pid = fork();
	if (pid == 0)
		become_gateway(g, buf_cstr(&exe), buf_cstr(&g->config), ends[1]);
	(void)close(ends[1]);
	ssize_t n = pid > 0 ? read(ends[0], &ready, 1) : -1;
	(void)close(ends[0]);
	g->own = pid > 0 ? pid : 0;
	if (n == 1)
		return ST_OK;
	show_log(g);
	(void)fprintf(stderr,
		      "sandgate exec: the gateway did not start; nothing was run\n");
	return ST_SYSTEM;
}

/* Does one run for this configuration? */
static bool
runs(const struct gate *g)
{
	CLEANUP(buf_done) struct buf sock = { 0 };
	struct stat at;

	buf_init(&sock, 4096);
	buf_putf(&sock, "%.*s/admin.sock", STR_ARG(str_of(g->state.p, g->state.len)));
	const char *path = buf_cstr(&sock);
	if (path == NULL || stat(path, &at) < 0)
		return false;
	struct admin_where where = gate_where(g);
	where.may_be_none = true; /* then one is started */
	struct admin_wish wish = { .method = "GET", .path = "/v1/status" };
	struct admin_reply reply;
	if (admin_call(&where, &wish, &reply) != ST_OK)
		return false;
	json_decref(reply.body);
	return reply.http == 200;
}

static enum status
use_config(const struct gate_wish *w, struct gate *g)
{
	struct image *im = NULL;
	enum status st = where_config(w->config, &g->config);

	if (st == ST_OK)
		st = where_image(buf_cstr(&g->config), &im);
	if (st != ST_OK)
		return st;
	st = state_dir_put(&g->state, image_text(im, OPT_STATE_DIR));
	image_close(im);
	return st;
}

enum status
gate_open(struct gate_wish *w, struct gate *ret_g)
{
	struct gate g = { .own = 0 };
	enum status st;

	buf_init(&g.dir, 4096);
	buf_init(&g.config, 4096);
	buf_init(&g.state, 4096);
	bool is_own = w->allow_n + w->secrets_n > 0;
	if (is_own) {
		st = write_config(w, &g);
		buf_putf(&g.state, "%.*s/state", STR_ARG(str_of(g.dir.p, g.dir.len)));
	} else {
		st = use_config(w, &g);
	}
	if (st == ST_OK && (is_own || !runs(&g)))
		st = start(&g);
	struct admin_where where = gate_where(&g);
	if (st == ST_OK)
		st = gate_secrets_put(&where, w->secrets, w->secrets_n);
	if (st != ST_OK) {
		gate_close(&g);
		return st;
	}
	*ret_g = g;
	return ST_OK;
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

void
gate_close(struct gate *g)
{
	if (g->own > 0) {
		(void)kill(g->own, SIGTERM);
		while (waitpid(g->own, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	if (g->dir.len > 0)
		(void)nftw(buf_cstr(&g->dir), remove_one, 8, FTW_DEPTH | FTW_PHYS);
	buf_done(&g->dir);
	buf_done(&g->config);
	buf_done(&g->state);
}

struct admin_where
gate_where(const struct gate *g)
{
	/* Both are NUL-terminated behind their end by buf_cstr(). */
	struct buf *config = (struct buf *)(uintptr_t)&g->config;

	return (struct admin_where){ .config = buf_cstr(config) };
}
