/*
 * sandgate connectors list|lint|test: company systems as the configuration has them, and
 * whether they would answer.  Nothing here meets a secret: a connector only names it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "conf/auth_text.h"
#include "proxy/cli/admin.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/config_read.h"
#include "proxy/cli/connector_files.h"
#include "proxy/cli/where.h"

enum { OUT_MAX = 1024 * 1024 };

struct connectors {
	struct admin_where where;
	bool json;
	char **files;
	size_t files_n;
};

static const char usage[] =
	"usage: sandgate connectors list [-c FILE] [--json]\n"
	"       sandgate connectors lint [-c FILE | CONNECTOR.yaml...] [--json]\n"
	"       sandgate connectors test NAME [-c FILE | --state DIR] [--json]\n"
	"lint looks at the configuration, or at connectors by themselves, as one "
	"policy "
	"that\nlists them all would see them. Exit code: 0; 1 for warnings; 2 for "
	"errors.\n";

/* lint */

static int
lint_code(const struct config *c)
{
	if (c->image == NULL)
		return 2;
	return c->report.warnings > 0 ? 1 : 0;
}

static void
say_json(struct config *config, int code)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str view;

	buf_init(&b, OUT_MAX);
	buf_putf(&b, "{\"ok\":%s,\"errors\":%zu,\"warnings\":%zu,\"messages\":",
		 code == 0 ? "true" : "false", config->report.errors,
		 config->report.warnings);
	report_put_json(&b, &config->report);
	buf_put(&b, STR("}\n"));
	if (buf_finish(&b, &view) == ST_OK)
		(void)printf("%.*s", STR_ARG(view));
}

static void
say_text(struct config *config)
{
	size_t n = 0;

	config_say(config);
	if (config->image != NULL)
		(void)image_connectors(config->image, &n);
	(void)printf("%zu connectors, %zu errors, %zu warnings\n", n,
		     config->report.errors, config->report.warnings);
}

static int
lint(const struct connectors *c, const char *path)
{
	struct config config;
	enum status st = c->files_n > 0
				 ? connector_files_read(&config, c->files, c->files_n)
				 : config_read(&config, path);

	if (st != ST_OK && config.report.errors == 0)
		report_error(&config.report, (struct place){ STR("sandgate"), 0, 0 },
			     "%s", status_words(st)->sentence);
	int code = lint_code(&config);
	if (c->json)
		say_json(&config, code);
	else
		say_text(&config);
	config_done(&config);
	return code;
}

/* list */

static json_t *
text(const struct image *im, struct image_ref ref)
{
	struct str s = image_str(im, ref);

	return json_stringn(s.p == NULL ? "" : s.p, s.n);
}

/* What reads a source of secrets, or calls an execution server, is no company system. */
static const char *
kind_of(const struct image *im, const struct image_connector *k)
{
	size_t n;
	const struct image_connector *all = image_connectors(im, &n);

	if (image_store_of(im, (uint32_t)(k - all)) != NULL)
		return "source of secrets";
	if (image_exec_server_of(im, (uint32_t)(k - all)) != NULL)
		return "execution server";
	return auth_kind_word(k->auth.kind);
}

/* What it may be called by, as the file has it. */
static json_t *
describe(const struct image *im, const struct image_connector *k)
{
	CLEANUP(buf_done) struct buf place = { 0 };
	struct str file = image_str(im, k->file);

	buf_init(&place, 8192);
	buf_putf(&place, "%.*s:%u", STR_ARG(file), k->line);
	const char *at = buf_cstr(&place);
	return json_pack("{s:o,s:s,s:o,s:o,s:o,s:b,s:s}", "name", text(im, k->name),
			 "auth", kind_of(im, k), "secret", text(im, k->auth.secret),
			 "group", text(im, k->group), "tenant", text(im, k->tenant),
			 "redact", k->is_redacting, "place", at == NULL ? "" : at);
}

static json_t *
describe_all(const struct image *im)
{
	json_t *all = json_array();
	size_t n;
	const struct image_connector *k = image_connectors(im, &n);

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(all, describe(im, &k[i]));
	return json_pack("{s:o}", "connectors", all);
}

static const char *
word(const json_t *of, const char *key)
{
	const char *s = json_string_value(json_object_get(of, key));

	return s == NULL || s[0] == '\0' ? "-" : s;
}

static void
print_list(const json_t *all)
{
	const json_t *one;
	size_t i;

	(void)printf("%-20s %-26s %-28s %-12s %s\n", "NAME", "AUTH", "SECRET", "GROUP",
		     "PLACE");
	json_array_foreach(json_object_get(all, "connectors"), i, one)(void) printf(
		"%-20s %-26s %-28s %-12s %s\n", word(one, "name"), word(one, "auth"),
		word(one, "secret"), word(one, "group"), word(one, "place"));
}

static int
list(const struct connectors *c, const char *path)
{
	struct config config;
	int code = 2;

	if (config_read(&config, path) == ST_OK) {
		json_t *all = describe_all(config.image);
		if (c->json)
			(void)json_dumpf(all, stdout, JSON_INDENT(2)), (void)puts("");
		else
			print_list(all);
		json_decref(all);
		code = 0;
	} else {
		config_say(&config);
	}
	config_done(&config);
	return code;
}

/* test */

static void
print_step(const json_t *found, const char *key, const char *what)
{
	const char *code = json_string_value(json_object_get(found, key));

	if (code != NULL)
		(void)printf("%-10s %s\n", what, code);
}

static const char *
until(const json_t *found, const char *key, char space[32])
{
	time_t t = (time_t)json_integer_value(json_object_get(found, key));
	struct tm tm;

	if (t <= 0 || gmtime_r(&t, &tm) == NULL ||
	    strftime(space, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		return "never";
	return space;
}

/* Of a source of secrets. */
static void
print_read(const json_t *found)
{
	char space[32];

	if (json_object_get(found, "login_expires") != NULL)
		(void)printf("until      %s\n", until(found, "login_expires", space));
	if (json_object_get(found, "secrets") == NULL)
		return;
	(void)printf("read       %lld of %lld secrets\n",
		     json_integer_value(json_object_get(found, "read")),
		     json_integer_value(json_object_get(found, "secrets")));
	if (json_object_get(found, "failed") != NULL)
		(void)printf("first      %s: %s\n", word(found, "failed_name"),
			     word(found, "failed"));
}

static void
print_found(const json_t *found)
{
	char space[32];

	print_step(found, "connector", "connector");
	print_step(found, "secret", "secret");
	if (json_object_get(found, "version") != NULL) {
		(void)printf("version    %lld\nexpires    %s\n",
			     json_integer_value(json_object_get(found, "version")),
			     until(found, "expires", space));
	}
	print_step(found, "source", "source");
	print_step(found, "token", "token");
	print_step(found, "login", "login");
	print_read(found);
	print_step(found, "host", "host");
	print_step(found, "certificate", "client");
	print_step(found, "upstream", "upstream");
	print_step(found, "detail", "detail");
	if (!json_is_true(json_object_get(found, "ok")))
		(void)printf("%s\n", word(found, "message"));
}

static int
test(const struct connectors *c, const char *name)
{
	struct admin_wish wish = { .method = "POST", .path = "/v1/connectors/test" };
	struct admin_reply reply;

	wish.body = json_pack("{s:s}", "name", name);
	enum status st = admin_call(&c->where, &wish, &reply);
	json_decref(wish.body);
	if (st != ST_OK)
		return 1;
	bool ok = reply.http == 200 && json_is_true(json_object_get(reply.body, "ok"));
	if (reply.http != 200)
		admin_print_refusal(&reply);
	if (reply.http == 404)
		(void)fprintf(stderr,
			      "sandgate: the configuration in force has no connector "
			      "`%s`; after a change: `sandgate reload`\n",
			      name);
	else if (reply.http == 200 && c->json)
		(void)json_dumpf(reply.body, stdout, JSON_INDENT(2)), (void)puts("");
	else if (reply.http == 200)
		print_found(reply.body);
	json_decref(reply.body);
	return ok ? 0 : 1;
}

/* The words. */

static int
run(int argc, char **argv, struct connectors *c)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	const struct arg args[] = {
		{ 'c', "config", &c->where.config, NULL },
		{ 0, "state", &c->where.state, NULL },
		{ 0, "json", NULL, &c->json },
	};
	size_t n;

	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n == 0)
		return -1;
	if (strcmp(argv[1], "test") == 0)
		return n == 2 ? test(c, argv[2]) : -1;
	bool is_lint = strcmp(argv[1], "lint") == 0;
	if (!is_lint && (strcmp(argv[1], "list") != 0 || n > 1))
		return -1;
	c->files = argv + 2;
	c->files_n = n - 1;
	if (c->files_n > 0 && c->where.config != NULL)
		return -1;
	buf_init(&path, 8192);
	if (c->files_n == 0 && where_config(c->where.config, &path) != ST_OK) {
		where_say_no_config();
		return 2;
	}
	return is_lint ? lint(c, buf_cstr(&path)) : list(c, buf_cstr(&path));
}

int
cmd_connectors(int argc, char **argv)
{
	struct connectors c = { .json = false };

	args_help(argc, argv, usage);
	int code = run(argc, argv, &c);
	if (code >= 0)
		return code;
	(void)fputs(usage, stderr);
	return 2;
}
