/* sandgate reload: take the configuration anew; exit 0 only if it is in force. */
#include <stdio.h>

#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"

static void
print(const json_t *body)
{
	const json_t *line;
	size_t i;

	json_array_foreach(json_object_get(body, "messages"), i, line)(void)
		fprintf(stderr, "%s\n", json_string_value(line));
	if (json_is_true(json_object_get(body, "ok")))
		(void)printf("generation %lld is in force\n",
			     (long long)json_integer_value(
				     json_object_get(body, "generation")));
	else
		(void)fprintf(stderr, "refused, nothing has changed: %s\n",
			      json_string_value(json_object_get(body, "code")));
}

int
cmd_reload(int argc, char **argv)
{
	struct admin_wish wish = { .method = "POST", .path = "/v1/reload" };
	struct admin_reply reply;
	struct options o;
	bool ok;

	if (!options_read(argc, argv, &o))
		return 2;
	if (admin_call(&o.where, &wish, &reply) != ST_OK)
		return 1;
	ok = json_is_true(json_object_get(reply.body, "ok"));
	if (o.json)
		(void)json_dumpf(reply.body, stdout, JSON_INDENT(2)), (void)puts("");
	else if (json_object_get(reply.body, "error") != NULL)
		admin_print_refusal(&reply);
	else
		print(reply.body);
	json_decref(reply.body);
	return ok ? 0 : 1;
}
