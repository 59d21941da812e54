#include "proxy/cli/exec_env.h"

#include <stdlib.h>
#include <unistd.h>

#include "proxy/cli/mask.h"

enum { ENV_MAX = 4096, ADDED_MAX = 256, ARENA_MAX = 4 * 1024 * 1024, JAVA_MAX = 65536 };

/* Clients that look for a proxy find the one inside; all others are captured anyway. */
static const char *const proxy_env[] = {
	"http_proxy=http://198.18.0.1:3128",  "HTTP_PROXY=http://198.18.0.1:3128",
	"https_proxy=http://198.18.0.1:3128", "HTTPS_PROXY=http://198.18.0.1:3128",
	"all_proxy=http://198.18.0.1:3128",   "ALL_PROXY=http://198.18.0.1:3128",
	"no_proxy=localhost,127.0.0.1,::1",   "NO_PROXY=localhost,127.0.0.1,::1",
};

static bool
is_proxy_variable(struct str assignment)
{
	struct str name = str_cut(&assignment, '=');

	/* Of the caller's network; gRPC and gcloud would prefer theirs to ours. */
	return str_ieq(name, STR("http_proxy")) || str_ieq(name, STR("https_proxy")) ||
	       str_ieq(name, STR("all_proxy")) || str_ieq(name, STR("no_proxy")) ||
	       str_ieq(name, STR("ftp_proxy")) || str_ieq(name, STR("grpc_proxy")) ||
	       str_ieq(name, STR("socks_proxy")) ||
	       str_starts(name, STR("CLOUDSDK_PROXY_"));
}

static char *
keep(struct exec_env *e, struct str name, const char *joint, struct str value)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, JAVA_MAX);
	buf_put(&b, name);
	buf_put(&b, str_from(joint));
	buf_put(&b, value);
	buf_putc(&b, '\0');
	return b.st != ST_OK
		       ? NULL
		       : (char *)(uintptr_t)arena_copy(&e->arena, str_of(b.p, b.len)).p;
}

/* What takes this name is not the caller's: it may be the very credential. */
static bool
is_replaced(const struct exec_env *e, struct str assignment)
{
	struct str name = str_cut(&assignment, '=');
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)e->variables, key,
			    value) if (str_eq(name, str_from(key))) return true;
	return mask_is_variable(name) || is_proxy_variable(name) ||
	       (e->trust->is_there && trust_is_variable(name));
}

static size_t
put_variables(struct exec_env *e, char **env, size_t max)
{
	const char *key;
	json_t *value;
	size_t n = 0;

	json_object_foreach((json_t *)(uintptr_t)e->variables, key, value)
	{
		char *one = n == max ? NULL
				     : keep(e, str_from(key), "=",
					    str_from(json_string_value(value)));
		if (one != NULL)
			env[n++] = one;
	}
	return n;
}

static size_t
put_trust(struct exec_env *e, char **env)
{
	CLEANUP(buf_done) struct buf java = { 0 };
	size_t n;

	if (!e->trust->is_there)
		return 0;
	buf_init(&java, JAVA_MAX);
	n = trust_put_env(env);
	if (trust_put_java_env(e->trust, &java) && java.st == ST_OK)
		env[n] = keep(e, str_of(java.p, java.len), "", STR(""));
	return n + (env[n] != NULL);
}

char **
exec_env_make(struct exec_env *e)
{
	size_t n = 0;

	arena_init(&e->arena, ARENA_MAX);
	char **env = arena_alloc(&e->arena, (ENV_MAX + ADDED_MAX + 1) * sizeof *env);
	if (env == NULL)
		return NULL;
	for (size_t i = 0; environ[i] != NULL && n < ENV_MAX; i++)
		if (!is_replaced(e, str_from(environ[i])))
			env[n++] = environ[i];
	for (size_t i = 0; !e->no_proxy && i < COUNT_OF(proxy_env); i++)
		env[n++] = (char *)(uintptr_t)proxy_env[i];
	n += put_trust(e, env + n);
	(void)put_variables(e, env + n,
			    ADDED_MAX - COUNT_OF(proxy_env) - TRUST_VARIABLES);
	return env;
}
