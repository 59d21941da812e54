/*
 * sandgate register: a sandbox that something else made and that is known by where it
 * connects from.  The gateway knows it until `sandgate unregister`, or until it ends: no
 * restart of a role forgets it.
 */
#include <stdio.h>

#include "proxy/cli/admin.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/narrow_file.h"

enum { HTTP_OK = 200 };

static const char usage[] =
	"usage: sandgate register [-c FILE | --state DIR] --sandbox ID --source "
	"ADDRESS[,ADDRESS...]\n"
	"                         --policy NAME [--user U] [--agent A] [--session S]\n"
	"                         [--narrow FILE] [--trusts-ca]\n"
	"FILE (- is standard input) narrows the policy: `default deny` or `default "
	"allow`, then\n"
	"lines of `allow` or `deny` with a NAME, *.NAME, address or network; the first "
	"that\n"
	"matches decides. A sandbox that is registered already becomes what is said "
	"now.\n";

struct as { /* as it was called */
	struct admin_where where;
	const char *id, *sources, *policy, *user, *agent, *session, *narrow;
	bool trusts_ca;
};

static bool
take(int argc, char **argv, struct as *as)
{
	const struct arg args[] = {
		{ 'c', "config", &as->where.config, NULL },
		{ 0, "state", &as->where.state, NULL },
		{ 0, "sandbox", &as->id, NULL },
		{ 0, "source", &as->sources, NULL },
		{ 0, "policy", &as->policy, NULL },
		{ 0, "user", &as->user, NULL },
		{ 0, "agent", &as->agent, NULL },
		{ 0, "session", &as->session, NULL },
		{ 0, "narrow", &as->narrow, NULL },
		{ 0, "trusts-ca", NULL, &as->trusts_ca },
	};
	size_t n;

	return args_take(argc, argv, args, COUNT_OF(args), &n) && n == 0 &&
	       args_need("register", "--sandbox ID", as->id != NULL) &&
	       args_need("register", "--source ADDRESS", as->sources != NULL) &&
	       args_need("register", "--policy NAME", as->policy != NULL);
}

static json_t *
sources_json(struct str text)
{
	json_t *all = json_array();

	while (text.p != NULL) {
		struct str one = str_cut(&text, ',');
		(void)json_array_append_new(all, json_stringn(one.p, one.n));
	}
	return all;
}

static const char *
text_of(const char *s)
{
	return s == NULL ? "" : s;
}

/* NULL: some word is no UTF-8. */
static json_t *
body_of(const struct as *as, const struct str *narrow)
{
	json_t *body = json_pack(
		"{s:s,s:s,s:s,s:s,s:s,s:o,s:b}", "id", as->id, "policy", as->policy,
		"user", text_of(as->user), "agent", text_of(as->agent), "session",
		text_of(as->session), "sources", sources_json(str_from(as->sources)),
		"trusts_ca", as->trusts_ca);

	if (body != NULL && narrow != NULL &&
	    json_object_set_new(body, "narrow", json_stringn(narrow->p, narrow->n)) !=
		    0) {
		json_decref(body);
		return NULL;
	}
	return body;
}

static int
send_it(const struct as *as, const struct str *narrow)
{
	struct admin_wish wish = { .method = "POST", .path = "/v1/register" };
	struct admin_reply reply;

	wish.body = body_of(as, narrow);
	if (wish.body == NULL)
		return args_wrong("register", "not UTF-8:", as->id) ? 0 : 2;
	enum status st = admin_call(&as->where, &wish, &reply);
	json_decref(wish.body);
	if (st != ST_OK)
		return 1;
	if (reply.http == HTTP_OK)
		(void)printf("registered %s\n", as->id);
	else if (admin_is_refusal(&reply, ST_NO_POLICY))
		(void)fprintf(stderr,
			      "sandgate: no_policy: the gateway that runs has no "
			      "policy `%s`\n",
			      as->policy);
	else
		admin_print_refusal(&reply);
	json_decref(reply.body);
	return reply.http == HTTP_OK ? 0 : 1;
}

int
cmd_register(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct as as = { .id = NULL };
	struct str narrow = STR("");

	args_help(argc, argv, usage);
	if (!take(argc, argv, &as)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	if (as.narrow != NULL && !narrow_file_read(as.narrow, &b, &narrow))
		return 2;
	return send_it(&as, as.narrow == NULL ? NULL : &narrow);
}
