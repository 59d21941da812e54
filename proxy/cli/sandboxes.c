/* sandgate sandboxes: who is registered, from the file or attached. */
#include <stdio.h>

#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"

static void
print(const json_t *all)
{
	const json_t *s;
	size_t i;

	(void)printf("%-24s %-16s %-16s %-16s %s\n", "id", "policy", "user", "agent",
		     "from");
	json_array_foreach(json_object_get(all, "sandboxes"), i, s)(void) printf(
		"%-24s %-16s %-16s %-16s %s\n", options_text(s, "id"),
		options_text(s, "policy"), options_text(s, "user"),
		options_text(s, "agent"),
		json_is_true(json_object_get(s, "attached")) ? "attached" : "file");
}

int
cmd_sandboxes(int argc, char **argv)
{
	struct admin_wish wish = { .method = "GET", .path = "/v1/sandboxes" };

	return options_show(argc, argv, &wish, print);
}
