#include "proxy/cli/trust.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/cli/admin.h"
#include "proxy/cli/trust_files.h"
#include "proxy/cli/trust_java.h"

/* What reads which variable, and which file it names: ROOTS all there are, EXTRA what is
 * added to roots that the program has anyway. */
#define ROOTS(name)                                                                    \
	{                                                                              \
		name, name "=" TRUST_DIR "/ca.crt"                                     \
	}
#define EXTRA(name)                                                                    \
	{                                                                              \
		name, name "=" TRUST_DIR "/extra.crt"                                  \
	}
static const struct variable {
	const char *name, *assignment;
} variables[] = {
	ROOTS("SSL_CERT_FILE"), /* OpenSSL, Go, Ruby, uv */
	ROOTS("CURL_CA_BUNDLE"),
	ROOTS("REQUESTS_CA_BUNDLE"), /* Python's requests */
	ROOTS("PIP_CERT"),
	ROOTS("HTTPLIB2_CA_CERTS"),
	EXTRA("NODE_EXTRA_CA_CERTS"),
	ROOTS("NPM_CONFIG_CAFILE"),
	ROOTS("YARN_HTTPS_CA_FILE_PATH"),
	EXTRA("DENO_CERT"),
	ROOTS("GIT_SSL_CAINFO"),
	ROOTS("CARGO_HTTP_CAINFO"),
	ROOTS("AWS_CA_BUNDLE"),
	ROOTS("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"),
	ROOTS("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
	ROOTS("NIX_SSL_CERT_FILE"),
	ROOTS("PERL_LWP_SSL_CA_FILE"),
	ROOTS("HEX_CACERTS_PATH"),
};
#undef ROOTS
#undef EXTRA
_Static_assert(COUNT_OF(variables) < TRUST_VARIABLES, "and one for Java");

static const char java_variable[] = "JAVA_TOOL_OPTIONS";

/* What the caller's programs believed goes on to be believed: each file that a variable
 * names, once. */
static void
put_named(struct buf *b)
{
	const char *seen[COUNT_OF(variables)];
	size_t seen_n = 0;

	for (size_t i = 0; i < COUNT_OF(variables); i++) {
		const char *path = getenv(variables[i].name);
		bool is_new = path != NULL && path[0] == '/';
		for (size_t k = 0; is_new && k < seen_n; k++)
			is_new = strcmp(path, seen[k]) != 0;
		for (size_t k = 0; is_new && trust_bundles[k] != NULL; k++)
			is_new = strcmp(path, trust_bundles[k]) != 0;
		if (!is_new)
			continue;
		seen[seen_n++] = path;
		if (trust_read(path, b) == ST_NOT_FOUND)
			continue; /* its programs believed nothing */
	}
}

enum status
trust_fetch(const struct admin_where *where, struct buf *pem)
{
	struct admin_wish wish = { .method = "GET", .path = "/v1/ca/export" };
	struct admin_reply reply;
	enum status st = admin_call(where, &wish, &reply);

	if (st != ST_OK)
		return st;
	const char *text = json_string_value(json_object_get(reply.body, "pem"));
	if (reply.http == 200 && text != NULL)
		buf_put(pem, str_from(text));
	json_decref(reply.body);
	return pem->len > 0 ? pem->st : ST_NOT_FOUND;
}

/* A box without Java is spared the variable, at which each of its programs says that
 * it was picked up. */
static bool
has_java(void)
{
	const char *home = getenv("JAVA_HOME"), *path = getenv("PATH");
	struct str rest = str_from(path);

	if (home != NULL && home[0] != '\0')
		return true;
	while (rest.n > 0) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 4096);
		buf_put(&b, str_cut(&rest, ':'));
		buf_put(&b, STR("/java"));
		const char *file = buf_cstr(&b);
		if (file != NULL && access(file, X_OK) == 0)
			return true;
	}
	return false;
}

enum status
trust_make(const struct admin_where *where, struct trust *ret_t)
{
	CLEANUP(buf_done) struct buf ours = { 0 };
	struct trust t = { .is_there = true };
	struct str extra = STR(""), bundle = STR("");

	buf_init(&ours, TRUST_FILE_MAX);
	buf_init(&t.bundle, (size_t)4 * TRUST_FILE_MAX);
	buf_init(&t.extra, (size_t)2 * TRUST_FILE_MAX);
	buf_init(&t.java, (size_t)4 * TRUST_FILE_MAX);
	enum status st = trust_fetch(where, &ours);
	buf_put(&t.extra, str_of(ours.p, ours.len));
	put_named(&t.extra);
	if (st == ST_OK)
		st = trust_read_system(&t.bundle);
	if (st == ST_OK)
		st = buf_finish(&t.extra, &extra);
	buf_put(&t.bundle, extra);
	if (st == ST_OK)
		st = buf_finish(&t.bundle, &bundle);
	if (st == ST_OK && has_java())
		st = trust_put_java(&t.java, bundle);
	if (st != ST_OK) {
		trust_done(&t);
		return st;
	}
	*ret_t = t;
	return ST_OK;
}

void
trust_done(struct trust *t)
{
	buf_done(&t->bundle);
	buf_done(&t->extra);
	buf_done(&t->java);
	t->is_there = false;
}

/* For the box. */

bool
trust_is_variable(struct str assignment)
{
	struct str name = str_cut(&assignment, '=');
	bool is_one = str_eq(name, str_from(java_variable));

	/* npm reads its own in either case. */
	for (size_t i = 0; !is_one && i < COUNT_OF(variables); i++)
		is_one = str_ieq(name, str_from(variables[i].name));
	return is_one;
}

size_t
trust_put_env(char **env)
{
	for (size_t i = 0; i < COUNT_OF(variables); i++)
		env[i] = (char *)(uintptr_t)variables[i].assignment;
	return COUNT_OF(variables);
}

bool
trust_put_java_env(const struct trust *t, struct buf *b)
{
	const char *given = getenv(java_variable);

	if (t->java.len == 0)
		return false;
	buf_putf(b,
		 "%s=%s%s-Djavax.net.ssl.trustStore=" TRUST_DIR "/java.jks "
		 "-Djavax.net.ssl.trustStoreType=JKS "
		 "-Djavax.net.ssl.trustStorePassword=" TRUST_JAVA_PASSWORD,
		 java_variable, given == NULL ? "" : given, given == NULL ? "" : " ");
	return true;
}

void
trust_print_env(const char *path)
{
	for (size_t i = 0; i < COUNT_OF(variables); i++)
		(void)printf("%s=%s\n", variables[i].name, path);
}
