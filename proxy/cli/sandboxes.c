/* sandgate sandboxes: who is registered, from the file or attached. */
#include <stdio.h>

#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"

static const char *
text(const json_t *of, const char *key)
{
	const char *s = json_string_value(json_object_get(of, key));

	return s == NULL || s[0] == '\0' ? "-" : s;
}

static void
print(const json_t *all)
{
	const json_t *s;
	size_t i;

	(void)printf("%-24s %-16s %-16s %-16s %s\n", "id", "policy", "user", "agent",
		     "from");
	json_array_foreach(json_object_get(all, "sandboxes"), i, s)(void) printf(
		"%-24s %-16s %-16s %-16s %s\n", text(s, "id"), text(s, "policy"),
		text(s, "user"), text(s, "agent"),
		json_is_true(json_object_get(s, "attached")) ? "attached" : "file");
}

int
cmd_sandboxes(int argc, char **argv)
{
	struct admin_wish wish = { .method = "GET", .path = "/v1/sandboxes" };
	struct admin_reply reply;
	struct options o;
	bool ok;

	if (!options_read(argc, argv, &o))
		return 2;
	if (admin_call(&o.where, &wish, &reply) != ST_OK)
		return 1;
	ok = reply.http == 200;
	if (!ok)
		admin_print_refusal(&reply);
	else if (o.json)
		(void)json_dumpf(reply.body, stdout, JSON_INDENT(2)), (void)puts("");
	else
		print(reply.body);
	json_decref(reply.body);
	return ok ? 0 : 1;
}
