/*
 * sandgate explain: one decision, step by step, by the code that decides in the data
 * path.  Exit code: 0 allowed, 1 denied, 2 when the question makes no sense.
 */
#include <stdio.h>

#include "conf/auth_text.h"
#include "conf/conf.h"
#include "conf/policy_rule.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/config_read.h"
#include "proxy/cli/narrow_file.h"
#include "proxy/cli/verdict.h"
#include "proxy/cli/where.h"

enum { OUT_MAX = 1024 * 1024, RULES_MAX = 50 };

struct explain {
	const char *config, *sandbox, *policy_name, *method, *url, *narrow_file;
	bool json;
	const struct image *im;
	const struct image_sandbox *who; /* NULL with --policy */
	struct mandate may;
	struct narrow *narrow; /* NULL: nothing narrows it */
	struct verdict v;
	struct buf out;
	size_t rules;
};

static const char usage[] =
	"usage: sandgate explain [-c FILE] (--sandbox ID | --policy NAME) [-X METHOD] "
	"[--narrow FILE] [--json] URL\n"
	"URL: http://..., https://..., or HOST:PORT for other protocols\n";

static bool
take_options(int argc, char **argv, struct explain *e)
{
	const struct arg args[] = {
		{ 'c', "config", &e->config, NULL },
		{ 0, "sandbox", &e->sandbox, NULL },
		{ 0, "policy", &e->policy_name, NULL },
		{ 0, "narrow", &e->narrow_file, NULL },
		{ 'X', "method", &e->method, NULL },
		{ 0, "json", NULL, &e->json },
	};
	size_t n;

	e->method = "GET";
	if (!args_take(argc, argv, args, COUNT_OF(args), &n) ||
	    !args_need("explain", "a URL", n > 0) || n > 1)
		return false;
	e->url = argv[1];
	if (!conf_is_question(str_from(e->url)))
		return args_wrong("explain", "nothing to ask about:", e->url);
	return args_need("explain", "one of --sandbox and --policy",
			 (e->sandbox == NULL) != (e->policy_name == NULL));
}

static bool
find_policy(struct explain *e)
{
	if (e->policy_name != NULL) {
		e->may.policy = image_policy_by_name(e->im, str_from(e->policy_name));
		if (e->may.policy == POLICY_NONE)
			(void)fprintf(stderr, "sandgate: no policy `%s`\n",
				      e->policy_name);
		return e->may.policy != POLICY_NONE;
	}
	e->who = image_sandbox_by_id(e->im, str_from(e->sandbox));
	if (e->who == NULL) {
		(void)fprintf(stderr,
			      "sandgate: the configuration has no sandbox `%s`; of one "
			      "that was attached or registered give its --policy\n",
			      e->sandbox);
		return false;
	}
	e->may.policy = e->who->policy;
	return true;
}

static const char *
rule_kind(const struct image_rule *r)
{
	if (r->connector != CONNECTOR_NONE)
		return r->is_deny ? "connector's deny" : "connector";
	if (r->is_deny)
		return "deny";
	return r->is_tcp ? "allow tcp" : "allow";
}

static bool
sees_requests(const struct explain *e)
{
	return e->v.way == WAY_HTTP || e->v.is_intercepted;
}

/* Why a rule that names the host does or doesn't apply to the rest. */
static const char *
rule_says(const struct explain *e, const struct image_rule *r)
{
	if (!policy_port_fits(e->im, r, e->v.dest.port))
		return "another port";
	if (policy_rule_reads(r) && !sees_requests(e))
		return "looks at requests, which can't be seen here";
	if (!policy_method_fits(e->im, r, e->v.method))
		return "another method";
	if (r->paths_n > 0 && !policy_path_fits(e->im, r, e->v.path))
		return "another path";
	if (r->is_deny ? !policy_query_meets(e->im, r, e->v.query)
		       : !policy_query_fits(e->im, r, e->v.query))
		return "another query";
	if (policy_rule_places(r))
		return "fits, if the address lies where the rule says";
	if (!r->is_deny && !r->is_tcp && e->v.way == WAY_TCP)
		return "is for TLS and HTTP, not for other bytes";
	return "fits";
}

static void
hear_text(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct explain *e = ctx;

	if (e->rules++ >= RULES_MAX)
		return;
	buf_put(&e->out, STR("rule         "));
	image_put_rule(&e->out, e->im, index);
	buf_putf(&e->out, "  %s: %s\n", rule_kind(r), rule_says(e, r));
}

static void
hear_json(void *ctx, uint32_t index, const struct image_rule *r)
{
	struct explain *e = ctx;
	CLEANUP(buf_done) struct buf at = { 0 };
	struct str view = STR("");

	if (e->rules++ >= RULES_MAX)
		return;
	buf_init(&at, 8192);
	image_put_rule(&at, e->im, index);
	if (buf_finish(&at, &view) != ST_OK)
		view = STR("");
	buf_put(&e->out, e->rules == 1 ? STR("{\"rule\":") : STR(",{\"rule\":"));
	buf_put_json(&e->out, view);
	buf_putf(&e->out, ",\"kind\":\"%s\",\"says\":\"%s\"}", rule_kind(r),
		 rule_says(e, r));
}

static void
put_name(struct explain *e, const char *key, struct image_ref ref)
{
	struct str s = image_str(e->im, ref);

	if (s.n == 0)
		return;
	buf_putf(&e->out, ", %s ", key);
	buf_put(&e->out, s);
}

static void
put_who(struct explain *e)
{
	size_t n;
	const struct image_policy *p = image_policies(e->im, &n);

	if (e->who != NULL) {
		buf_put(&e->out, STR("sandbox      "));
		buf_put(&e->out, image_str(e->im, e->who->id));
		put_name(e, "user", e->who->user);
		put_name(e, "agent", e->who->agent);
		put_name(e, "session", e->who->session);
		buf_putc(&e->out, '\n');
	}
	buf_put(&e->out, STR("policy       "));
	if (e->may.policy < n) {
		buf_put(&e->out, image_str(e->im, p[e->may.policy].name));
		buf_put(&e->out, p[e->may.policy].is_observe ? STR(" (observe)\n")
							     : STR(" (enforce)\n"));
	} else {
		buf_put(&e->out, STR("none\n"));
	}
	if (e->may.narrow != NULL && e->v.has_dest)
		buf_putf(&e->out, "narrowed     %s\n",
			 narrow_judge(e->may.narrow, &e->v.dest) == ST_OK
				 ? "no: its own rules allow the destination"
				 : "yes: its own rules refuse the destination");
}

/* That TLS is ended here, why, and what that takes. */
static void
put_intercepted(struct explain *e)
{
	uint32_t rule = RULE_NONE;
	const char *why = verdict_why_intercepted(e->im, e->may.policy, &e->v, &rule);

	buf_put(&e->out, STR(", intercepted: "));
	image_put_rule(&e->out, e->im, rule);
	buf_putc(&e->out, ' ');
	buf_put(&e->out, why == NULL ? STR("wants to see requests") : str_from(why));
	if (e->who != NULL && !e->who->trusts_ca)
		buf_put(&e->out,
			STR("\ntrust        the sandbox is not said to trust this "
			    "gateway's CA (trusts_ca): unless exec or attach "
			    "installed it, its client refuses the certificate"));
}

static void
put_connector(struct explain *e)
{
	size_t n;
	const struct image_connector *c = image_connectors(e->im, &n);

	if (e->v.answer.connector >= n)
		return;
	c += e->v.answer.connector;
	buf_put(&e->out, STR("connector    "));
	buf_put(&e->out, image_str(e->im, c->name));
	put_name(e, "tenant", c->tenant);
	put_name(e, "group", c->group);
	buf_putf(&e->out, ", auth %s", auth_kind_word((enum auth_kind)c->auth.kind));
	put_name(e, "secret", c->auth.secret);
	if (e->v.is_fetch) {
		buf_put(&e->out, STR(", calls "));
		dest_put(&e->out, &e->v.upstream);
	}
	buf_putc(&e->out, '\n');
	if (e->who != NULL &&
	    !policy_may_use(e->im, e->v.answer.connector, e->may.policy,
			    image_str(e->im, e->who->tenant),
			    image_str(e->im, e->who->user)))
		buf_put(&e->out,
			STR("connector    this sandbox's tenant or user may not "
			    "use it: no credential is given out\n"));
}

static void
put_way(struct explain *e)
{
	static const char *const ways[] = {
		[WAY_ANY] = "nothing known",
		[WAY_TLS] = "a TLS connection with this name",
		[WAY_HTTP] = "a plain HTTP request",
		[WAY_TCP] = "bytes that are neither TLS nor HTTP",
	};

	buf_put(&e->out, STR("destination  "));
	dest_put(&e->out, &e->v.dest);
	buf_putf(&e->out, "\nway          %s", ways[e->v.way]);
	if (e->v.way == WAY_TLS && verdict_is_allowed(&e->v) && !e->v.is_intercepted)
		buf_put(&e->out, STR("; method and path stay hidden"));
	if (e->v.is_intercepted)
		put_intercepted(e);
	if (sees_requests(e)) {
		buf_put(&e->out, STR("\nrequest      "));
		buf_put(&e->out, e->v.method);
		buf_putc(&e->out, ' ');
		buf_put(&e->out, e->v.path);
	}
	buf_putf(&e->out, "\ndns          %s\n",
		 verdict_dns(e->im, e->may, &e->v.dest));
}

static void
put_verdict(struct explain *e)
{
	const struct status_words *w = status_words(e->v.reason);

	if (e->v.has_addr) {
		buf_put(&e->out, STR("address      "));
		addr_put(&e->out, &e->v.addr);
		buf_putf(&e->out, " (%s)\n",
			 addr_class_name(addr_classify(&e->v.addr)));
	} else if (verdict_is_allowed(&e->v)) {
		buf_putf(&e->out,
			 "address      must be public, or listed in the %s's "
			 "addresses; judged when dialled\n",
			 e->v.is_fetch ? "connector" : "rule");
	}
	if (e->v.needs_place)
		buf_put(&e->out, STR("place        country or network is checked when "
				     "dialled\n"));
	if (e->v.answer.observed)
		buf_putf(&e->out, "observed     enforced, this would be %s\n",
			 status_code(e->v.answer.reason));
	if (verdict_asks(e->im, &e->v) != NULL)
		buf_putf(&e->out, "approval     %s\n", verdict_asks(e->im, &e->v));
	buf_put(&e->out, STR("decided by   "));
	image_put_rule(&e->out, e->im, e->v.rule);
	if (verdict_is_allowed(&e->v))
		buf_putf(&e->out, "\nverdict      allowed: %s\n",
			 verdict_action(e->v.answer.action));
	else
		buf_putf(
			&e->out,
			"\nverdict      denied: %s\n             %s\n             %s\n",
			w->code, w->sentence, w->hint);
}

static void
explain_text(struct explain *e)
{
	if (e->v.has_dest) {
		put_way(e);
		put_who(e);
		put_connector(e);
		policy_each_rule(e->im, e->may.policy, &e->v.dest, NULL, hear_text, e);
		if (e->rules == 0)
			buf_put(&e->out, STR("rule         none names this host\n"));
		if (e->rules > RULES_MAX)
			buf_putf(&e->out, "rule         and %zu more\n",
				 e->rules - RULES_MAX);
	}
	put_verdict(e);
}

static void
put_member(struct buf *b, const char *key, struct str value)
{
	buf_putf(b, ",\"%s\":", key);
	buf_put_json(b, value);
}

static void
put_rule_member(struct explain *e)
{
	CLEANUP(buf_done) struct buf at = { 0 };
	struct str view = STR("");

	buf_init(&at, 8192);
	image_put_rule(&at, e->im, e->v.rule);
	if (buf_finish(&at, &view) != ST_OK)
		view = STR("");
	put_member(&e->out, "rule", view);
}

static void
put_connector_member(struct explain *e)
{
	size_t n;
	const struct image_connector *c = image_connectors(e->im, &n);

	if (e->v.answer.connector >= n)
		return;
	c += e->v.answer.connector;
	put_member(&e->out, "connector", image_str(e->im, c->name));
	put_member(&e->out, "group", image_str(e->im, c->group));
	put_member(&e->out, "secret", image_str(e->im, c->auth.secret));
}

static void
put_intercepted_member(struct explain *e)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	struct str view = STR("");
	uint32_t rule = RULE_NONE;
	const char *why = verdict_why_intercepted(e->im, e->may.policy, &e->v, &rule);

	buf_putf(&e->out, ",\"intercepted\":%s",
		 e->v.is_intercepted ? "true" : "false");
	if (why == NULL)
		return;
	buf_init(&text, 8192);
	image_put_rule(&text, e->im, rule);
	buf_putc(&text, ' ');
	buf_put(&text, str_from(why));
	if (buf_finish(&text, &view) == ST_OK)
		put_member(&e->out, "intercepted_because", view);
}

static void
put_dest_member(struct explain *e)
{
	CLEANUP(buf_done) struct buf at = { 0 };
	struct str view = STR("");

	buf_init(&at, 512);
	dest_put(&at, &e->v.dest);
	if (buf_finish(&at, &view) != ST_OK)
		view = STR("");
	put_member(&e->out, "destination", view);
	put_member(&e->out, "dns", str_from(verdict_dns(e->im, e->may, &e->v.dest)));
}

static void
explain_json(struct explain *e)
{
	const struct status_words *w = status_words(e->v.reason);

	buf_putf(&e->out, "{\"allowed\":%s,\"code\":\"%s\",\"observed\":%s",
		 verdict_is_allowed(&e->v) ? "true" : "false", w->code,
		 e->v.answer.observed ? "true" : "false");
	if (e->v.has_dest) {
		put_dest_member(e);
		put_intercepted_member(e);
		put_connector_member(e);
	}
	if (e->may.narrow != NULL && e->v.has_dest)
		buf_putf(&e->out, ",\"narrowed\":%s",
			 narrow_judge(e->may.narrow, &e->v.dest) == ST_OK ? "false"
									  : "true");
	put_rule_member(e);
	if (verdict_is_allowed(&e->v)) {
		put_member(&e->out, "action",
			   str_from(verdict_action(e->v.answer.action)));
		if (verdict_asks(e->im, &e->v) != NULL)
			put_member(&e->out, "approval",
				   str_from(verdict_asks(e->im, &e->v)));
	} else {
		put_member(&e->out, "message", str_from(w->sentence));
		put_member(&e->out, "hint", str_from(w->hint));
	}
	buf_put(&e->out, STR(",\"rules\":["));
	if (e->v.has_dest)
		policy_each_rule(e->im, e->may.policy, &e->v.dest, NULL, hear_json, e);
	buf_put(&e->out, STR("]}\n"));
}

static int
explain(struct explain *e)
{
	struct str view;

	if (!find_policy(e))
		return 2;
	e->may.narrow = e->narrow;
	verdict_find(e->im, e->may, str_from(e->method), str_from(e->url), &e->v);
	buf_init(&e->out, OUT_MAX);
	if (e->json)
		explain_json(e);
	else
		explain_text(e);
	bool is_written = buf_finish(&e->out, &view) == ST_OK &&
			  fwrite(view.p, 1, view.n, stdout) == view.n;
	buf_done(&e->out);
	if (!is_written)
		return 2;
	return verdict_is_allowed(&e->v) ? 0 : 1;
}

static bool
read_narrow(struct explain *e)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;

	if (e->narrow_file == NULL)
		return true;
	if (!narrow_file_read(e->narrow_file, &b, &text))
		return false;
	e->narrow = narrow_new(text);
	return e->narrow != NULL;
}

int
cmd_explain(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	struct explain e = { .may.policy = POLICY_NONE };
	struct config config;
	int code = 2;

	buf_init(&path, 8192);
	args_help(argc, argv, usage);
	if (!take_options(argc, argv, &e)) {
		(void)fprintf(stderr, "%s", usage);
		return 2;
	}
	if (where_config(e.config, &path) != ST_OK) {
		where_say_no_config();
		return 2;
	}
	if (!read_narrow(&e))
		return 2;
	if (config_read(&config, buf_cstr(&path)) == ST_OK) {
		e.im = config.image;
		code = explain(&e);
	} else {
		config_say(&config);
	}
	config_done(&config);
	narrow_free(e.narrow);
	return code;
}
