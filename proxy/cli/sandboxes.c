/* sandgate sandboxes: who is registered, from the file or attached. */
#include <stdio.h>

#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"

static void
print_one(const json_t *s)
{
	const json_t *source;
	size_t i;

	(void)printf("%-24s %-16s %-16s %-16s %-9s", options_text(s, "id"),
		     options_text(s, "policy"), options_text(s, "user"),
		     options_text(s, "agent"),
		     json_is_true(json_object_get(s, "attached")) ? "attached"
								  : "file");
	json_array_foreach(json_object_get(s, "source"), i, source)(void)
		printf("%s%s", i == 0 ? " " : ",", json_string_value(source));
	(void)putchar('\n');
}

static void
print(const json_t *all)
{
	const json_t *s;
	size_t i;

	(void)printf("%-24s %-16s %-16s %-16s %-9s %s\n", "id", "policy", "user",
		     "agent", "from", "source");
	json_array_foreach(json_object_get(all, "sandboxes"), i, s) print_one(s);
}

int
cmd_sandboxes(int argc, char **argv)
{
	struct admin_wish wish = { .method = "GET", .path = "/v1/sandboxes" };

	return options_show(argc, argv, &wish, print);
}
