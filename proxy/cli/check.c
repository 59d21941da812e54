/*
 * sandgate check: every error and warning of a configuration, and its own `tests:`.
 * Exit code: 0; 1 for warnings with --werror; 2 for errors or a failed test.
 */
#include <stdio.h>

#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/config_read.h"
#include "proxy/cli/verdict.h"
#include "proxy/cli/where.h"

enum { OUT_MAX = 16 * 1024 * 1024 };

struct check {
	const char *config;
	bool json, is_werror;
	size_t tests, failed;
	struct buf out; /* JSON of the failed tests, or lines for people */
};

static const char usage[] = "usage: sandgate check [-c FILE] [--json] [--werror]\n";

static bool
take_options(int argc, char **argv, struct check *c)
{
	const struct arg args[] = {
		{ 'c', "config", &c->config, NULL },
		{ 0, "json", NULL, &c->json },
		{ 0, "werror", NULL, &c->is_werror },
	};
	size_t n;

	return args_take(argc, argv, args, COUNT_OF(args), &n) && n == 0;
}

static uint32_t
policy_of(const struct image *im, const struct conf_test *t)
{
	const struct image_sandbox *s = image_sandbox_by_id(im, t->sandbox);

	if (t->policy.n > 0)
		return image_policy_by_name(im, t->policy);
	return s == NULL ? POLICY_NONE : s->policy;
}

/* A test that says which refusal it expects is not content with another. */
static bool
is_as_expected(const struct conf_test *t, const struct verdict *v)
{
	if (verdict_is_allowed(v) != t->is_allow)
		return false;
	return t->code.n == 0 || str_eq(t->code, str_from(status_code(v->reason)));
}

static void
put_failure(struct check *c, const struct image *im, const struct conf_test *t,
	    const struct verdict *v)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;

	buf_init(&b, 8192);
	buf_put(&b, t->url);
	buf_put(&b, STR(" is "));
	buf_put(&b, verdict_is_allowed(v) ? STR("allowed") : STR("denied"));
	if (!verdict_is_allowed(v))
		buf_putf(&b, " (%s)", status_code(v->reason));
	buf_put(&b, STR(" by "));
	image_put_rule(&b, im, v->rule);
	buf_put(&b, t->is_allow ? STR(", expected: allow") : STR(", expected: deny"));
	if (t->code.n > 0) {
		buf_putc(&b, ' ');
		buf_put(&b, t->code);
	}
	if (buf_finish(&b, &text) != ST_OK)
		text = STR("a test with a very long url failed");
	if (!c->json) {
		buf_put(&c->out, t->at.file);
		buf_putf(&c->out, ":%u:%u: test failed: ", t->at.line, t->at.column);
		buf_put(&c->out, text);
		buf_putc(&c->out, '\n');
		return;
	}
	buf_put(&c->out, c->failed == 1 ? STR("{\"file\":") : STR(",{\"file\":"));
	buf_put_json(&c->out, t->at.file);
	buf_putf(&c->out, ",\"line\":%u,\"column\":%u,\"message\":", t->at.line,
		 t->at.column);
	buf_put_json(&c->out, text);
	buf_putc(&c->out, '}');
}

static void
run_tests(struct check *c, const struct config *config)
{
	const struct image *im = config->image;

	for (const struct conf_test *t = conf_tests(config->conf); t != NULL;
	     t = t->next) {
		struct verdict v;
		struct str method = t->method.n == 0 ? STR("GET") : t->method;

		c->tests++;
		verdict_find(im, mandate_of(policy_of(im, t)), method, t->url, &v);
		if (is_as_expected(t, &v))
			continue;
		c->failed++;
		put_failure(c, im, t, &v);
	}
}

static int
exit_code(const struct check *c, const struct config *config)
{
	if (config->image == NULL || c->failed > 0)
		return 2;
	return c->is_werror && config->report.warnings > 0 ? 1 : 0;
}

static void
print_json(struct check *c, struct config *config, int code)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str view, failures;

	buf_init(&b, OUT_MAX);
	buf_putf(&b, "{\"ok\":%s,\"errors\":%zu,\"warnings\":%zu,\"messages\":",
		 code == 0 ? "true" : "false", config->report.errors,
		 config->report.warnings);
	report_put_json(&b, &config->report);
	buf_putf(&b, ",\"tests\":%zu,\"failed\":[", c->tests);
	if (buf_finish(&c->out, &failures) == ST_OK)
		buf_put(&b, failures);
	buf_put(&b, STR("]}\n"));
	if (buf_finish(&b, &view) == ST_OK)
		(void)printf("%.*s", STR_ARG(view));
}

static void
print_text(struct check *c, struct config *config)
{
	struct str view;

	config_say(config);
	if (buf_finish(&c->out, &view) == ST_OK && view.n > 0)
		(void)fprintf(stderr, "%.*s", STR_ARG(view));
	(void)printf("%s: %zu errors, %zu warnings, %zu of %zu tests failed\n",
		     c->config, config->report.errors, config->report.warnings,
		     c->failed, c->tests);
}

int
cmd_check(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	struct check c = { 0 };
	struct config config;

	buf_init(&path, 8192);
	args_help(argc, argv, usage);
	if (!take_options(argc, argv, &c)) {
		(void)fprintf(stderr, "%s", usage);
		return 2;
	}
	if (where_config(c.config, &path) != ST_OK) {
		where_say_no_config();
		return 2;
	}
	c.config = buf_cstr(&path);
	buf_init(&c.out, OUT_MAX);
	enum status st = config_read(&config, c.config);
	if (st == ST_OK)
		run_tests(&c, &config);
	else if (config.report.errors == 0)
		report_error(&config.report, (struct place){ str_from(c.config), 0, 0 },
			     "%s", status_words(st)->sentence);
	int code = exit_code(&c, &config);
	if (c.json)
		print_json(&c, &config, code);
	else
		print_text(&c, &config);
	buf_done(&c.out);
	config_done(&config);
	return code;
}
