/*
 * sandgate doctor: checks by doing, not by believing.  OK, WARN (works, but weaker) or
 * FAIL (does not work); exit 1 when anything fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <sqlite3.h>

#include "conf/image.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/docker_ask.h"
#include "proxy/cli/ns.h"
#include "proxy/cli/options.h"
#include "proxy/cli/where.h"
#include "proxy/io/sock.h"
#include "proxy/io/state_dir.h"

enum level { LEVEL_OK, LEVEL_WARN, LEVEL_FAIL };

struct doctor {
	struct options o;
	struct image *image; /* NULL: no configuration that compiles */
	bool is_lost;        /* where the gateway is stands in one with errors */
	json_t *found;
	size_t fails;
	bool is_docker_silent; /* it was waited for once */
};

PRINTF(4, 5)
static void
say(struct doctor *d, enum level level, const char *check, const char *fmt, ...)
{
	static const char *const words[] = { "OK", "WARN", "FAIL" };
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	d->fails += level == LEVEL_FAIL;
	if (!d->o.json)
		(void)printf("%-4s  %-14s %s\n", words[level], check, text);
	(void)json_array_append_new(d->found,
				    json_pack("{s:s,s:s,s:s}", "level", words[level],
					      "check", check, "text", text));
}

/* This machine. */

static void
check_libraries(struct doctor *d)
{
	/* What Debian 12 has; older ones lack fixes that the design relies on. */
	enum { SQLITE_LEAST = 3040000 };
	bool is_new = sqlite3_libversion_number() >= SQLITE_LEAST &&
		      OpenSSL_version_num() >= 0x30000000UL;

	say(d, is_new ? LEVEL_OK : LEVEL_FAIL, "libraries", "sqlite %s, %s, jansson %s",
	    sqlite3_libversion(), OpenSSL_version(OPENSSL_VERSION),
	    jansson_version_str());
}

static void
check_landlock(struct doctor *d)
{
	enum { CREATE = 444, VERSION = 1 };
	long abi = syscall(CREATE, NULL, 0, VERSION);

	if (abi >= 4)
		say(d, LEVEL_OK, "landlock", "version %ld", abi);
	else if (abi > 0)
		say(d, LEVEL_WARN, "landlock", "version %ld: files only, not ports",
		    abi);
	else
		say(d, LEVEL_WARN, "landlock",
		    "not in this kernel: seccomp alone jails roles");
}

/* Where the vault's unsealed key lies. */
static void
check_secret_memory(struct doctor *d)
{
	enum { SECRET = 447 };
	int fd = (int)syscall(SECRET, O_CLOEXEC);

	if (fd >= 0)
		say(d, LEVEL_OK, "memfd_secret", "root can't read the vault's key");
	else
		say(d, LEVEL_WARN, "memfd_secret",
		    "not in this kernel (secretmem.enable=1): the vault's key lies in "
		    "locked memory, which root can read");
	if (fd >= 0)
		(void)close(fd);
}

static void
check_cookie(struct doctor *d)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t cookie;
	bool ok = fd >= 0 && sock_netns_cookie(fd, &cookie) == ST_OK;

	say(d, ok ? LEVEL_OK : LEVEL_FAIL, "netns cookie",
	    ok ? "the kernel tells namespaces apart" : "needs Linux 5.14");
	if (fd >= 0)
		(void)close(fd);
}

static void
check_userns(struct doctor *d)
{
	int how = 1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 ? 0 : errno & 0x7f);
	if (pid > 0 && waitpid(pid, &how, 0) == pid && how == 0)
		say(d, LEVEL_OK, "namespaces",
		    "user and network namespaces can be made");
	else
		say(d, LEVEL_WARN, "namespaces",
		    "sandgate exec can't run here: %s; see "
		    "kernel.unprivileged_userns_clone, "
		    "user.max_user_namespaces and "
		    "kernel.apparmor_restrict_unprivileged_userns",
		    WIFEXITED(how) ? strerror(WEXITSTATUS(how)) : "fork");
}

static void
check_nft(struct doctor *d)
{
	static const char *const argv[] = { "nft", "--version", NULL };
	int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0),
	    null = open("/dev/null", O_WRONLY | O_CLOEXEC), rc;

	/* Its version is of no interest to who reads ours. */
	(void)fflush(stdout);
	(void)dup2(null, STDOUT_FILENO);
	rc = ns_tool(argv, STR(""), true);
	(void)dup2(out, STDOUT_FILENO);
	(void)close(out);
	(void)close(null);
	if (rc == 0)
		say(d, LEVEL_OK, "nft", "there: any port can be redirected");
	else
		say(d, LEVEL_WARN, "nft",
		    "not there: only ports that the policy names work "
		    "without a proxy setting");
}

/* This configuration. */

static void
check_config(struct doctor *d)
{
	CLEANUP(buf_done) struct buf path = { 0 };

	buf_init(&path, 4096);
	if (where_config(d->o.where.config, &path) != ST_OK)
		say(d, LEVEL_WARN, "configuration",
		    "there is none; give one with -c FILE");
	else if (where_image(buf_cstr(&path), &d->image) == ST_OK)
		say(d, LEVEL_OK, "configuration", "%s compiles", buf_cstr(&path));
	else {
		say(d, LEVEL_FAIL, "configuration", "%s has errors", buf_cstr(&path));
		d->is_lost = d->o.where.state == NULL;
	}
}

static void
check_state(struct doctor *d)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	struct stat st;

	if (d->is_lost) {
		say(d, LEVEL_WARN, "state",
		    "not known while the configuration has errors; give --state DIR");
		return;
	}
	buf_init(&path, 4096);
	if (d->o.where.state != NULL)
		buf_put(&path, str_from(d->o.where.state));
	else if (state_dir_put(&path, d->image == NULL
					      ? STR("")
					      : image_text(d->image, OPT_STATE_DIR)) !=
		 ST_OK)
		buf_clear(&path);
	const char *name = buf_cstr(&path);
	if (name == NULL || stat(name, &st) < 0)
		say(d, LEVEL_WARN, "state", "%s: %s; a first run makes it",
		    name == NULL ? "" : name, strerror(errno));
	else if ((st.st_mode & 022) != 0 || st.st_uid != geteuid())
		say(d, LEVEL_FAIL, "state",
		    "%s: others may write there, or it is not ours", name);
	else
		say(d, LEVEL_OK, "state", "%s", name);
}

/* The configuration alone can't know what docker calls its networks. */
static void
check_network(struct doctor *d, struct str server, struct str network)
{
	struct str docker = image_text(d->image, OPT_EXEC_DOCKER);
	enum status st = d->is_docker_silent ? ST_UPSTREAM_TIMEOUT : ST_OK;

	if (docker.n > 0 && st == ST_OK)
		st = docker_ask_network(docker, network);
	d->is_docker_silent = st == ST_UPSTREAM_TIMEOUT;
	if (docker.n == 0)
		say(d, LEVEL_WARN, "network",
		    "%.*s of server %.*s: nothing is pinned: exec.docker isn't set",
		    STR_ARG(network), STR_ARG(server));
	else if (st == ST_OK)
		say(d, LEVEL_OK, "network", "docker has %.*s of server %.*s",
		    STR_ARG(network), STR_ARG(server));
	else if (st == ST_NOT_FOUND)
		say(d, LEVEL_FAIL, "network",
		    "docker has no %.*s, which server %.*s names: its sandboxes have "
		    "no way out; see docker network ls",
		    STR_ARG(network), STR_ARG(server));
	else
		say(d, LEVEL_WARN, "network",
		    "%.*s of server %.*s is not known: exec.docker %.*s: %s",
		    STR_ARG(network), STR_ARG(server), STR_ARG(docker),
		    st == ST_SYSTEM ? strerror(errno) : status_words(st)->sentence);
}

static void
check_networks(struct doctor *d)
{
	const struct image_exec_server *s;
	size_t n = 0;

	if (d->image == NULL)
		return;
	s = image_exec_servers(d->image, &n);
	for (size_t i = 0; i < n; i++)
		if (s[i].network.length > 0)
			check_network(d, image_str(d->image, s[i].name),
				      image_str(d->image, s[i].network));
}

/* The gateway that runs. */

static bool
status_line(const char *text, const char *key, const char *want)
{
	const char *at = strstr(text, key);

	if (at == NULL)
		return false;
	at += strlen(key);
	at += strspn(at, " \t");
	return strncmp(at, want, strlen(want)) == 0 && at[strlen(want)] == '\n';
}

/* These two may keep one: the locator to pin sandboxes, the dialer to mark its packets. */
static bool
may_keep_net_admin(const char *role)
{
	return strcmp(role, "locator") == 0 || strcmp(role, "dialer") == 0;
}

/* What the kernel says of the process, not what it says of itself. */
static bool
is_jailed(const char *role, long long pid, const char **ret_caps)
{
	char text[8192];
	char path[64];
	size_t n = 0;
	FILE *f;

	(void)snprintf(path, sizeof path, "/proc/%lld/status", pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	n = fread(text, 1, sizeof text - 1, f);
	(void)fclose(f);
	text[n] = '\0';
	if (!status_line(text, "\nNoNewPrivs:", "1") ||
	    !status_line(text, "\nSeccomp:", "2"))
		return false;
	*ret_caps = "no capability";
	if (status_line(text, "\nCapEff:", "0000000000000000"))
		return true;
	*ret_caps = "CAP_NET_ADMIN alone";
	return may_keep_net_admin(role) &&
	       status_line(text, "\nCapEff:", "0000000000001000");
}

static void
check_role(struct doctor *d, const json_t *role)
{
	const char *name = json_string_value(json_object_get(role, "name"));
	const char *state = json_string_value(json_object_get(role, "state"));
	long long pid = (long long)json_integer_value(json_object_get(role, "pid"));
	long long restarts =
		(long long)json_integer_value(json_object_get(role, "restarts"));
	long long abi =
		(long long)json_integer_value(json_object_get(role, "landlock"));
	const char *caps = "";

	if (name == NULL || state == NULL || strcmp(state, "serving") != 0)
		say(d, LEVEL_FAIL, name == NULL ? "?" : name, "%s",
		    state == NULL ? "?" : state);
	else if (!is_jailed(name, pid, &caps))
		say(d, LEVEL_FAIL, name, "pid %lld is not in its jail", pid);
	else
		say(d, restarts > 0 ? LEVEL_WARN : LEVEL_OK, name,
		    "pid %lld: no new privileges, seccomp, %s, Landlock %lld; %lld "
		    "restarts",
		    pid, caps, abi, restarts);
}

/* Sealed, each connector refuses; damaged or older than what was seen, somebody was
 * there. */
static void
check_vault(struct doctor *d)
{
	struct admin_wish wish = { .method = "GET", .path = "/v1/vault/status" };
	struct admin_reply reply;

	if (admin_call(&d->o.where, &wish, &reply) != ST_OK)
		return;
	const char *state = json_string_value(json_object_get(reply.body, "state"));
	if (reply.http != 200 || state == NULL)
		say(d, LEVEL_FAIL, "vault", "the keeper does not answer");
	else if (strcmp(state, "open") == 0)
		say(d, LEVEL_OK, "vault", "open");
	else if (strcmp(state, "sealed") == 0 || strcmp(state, "absent") == 0)
		say(d, LEVEL_WARN, "vault", "%s: no credential is given out", state);
	else
		say(d, LEVEL_FAIL, "vault", "%s: see sandgate vault status", state);
	json_decref(reply.body);
}

static void
check_gateway(struct doctor *d)
{
	struct admin_wish wish = { .method = "GET", .path = "/v1/status" };
	struct admin_reply reply;
	const json_t *role;
	size_t i;

	if (d->is_lost)
		return;
	d->o.where.may_be_none = true;
	if (admin_call(&d->o.where, &wish, &reply) != ST_OK) {
		say(d, LEVEL_WARN, "gateway",
		    "none runs: its roles were not looked at");
		return;
	}
	if (reply.http != 200)
		say(d, LEVEL_FAIL, "gateway", "answers with %u", reply.http);
	json_array_foreach(json_object_get(reply.body, "roles"), i, role)
		check_role(d, role);
	json_decref(reply.body);
	check_vault(d);
}

int
cmd_doctor(int argc, char **argv)
{
	static void (*const checks[])(struct doctor * d) = {
		check_libraries, check_landlock, check_secret_memory, check_cookie,
		check_userns,    check_nft,      check_config,        check_state,
		check_networks,  check_gateway,
	};
	struct doctor d = { .image = NULL };

	if (!options_read(argc, argv, &d.o))
		return 2;
	d.found = json_array();
	for (size_t i = 0; i < COUNT_OF(checks); i++)
		checks[i](&d);
	json_t *all = json_pack("{s:b,s:o}", "ok", d.fails == 0, "checks", d.found);
	if (d.o.json)
		(void)json_dumpf(all, stdout, JSON_INDENT(2)), (void)puts("");
	json_decref(all);
	image_close(d.image);
	return d.fails == 0 ? 0 : 1;
}
