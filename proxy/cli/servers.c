/* sandgate servers: does each execution server answer, and take our key? */
#include <stdio.h>
#include <string.h>

#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"

static void
print_one(const json_t *s)
{
	const json_t *n = json_object_get(s, "sandboxes");

	(void)printf("%-24s %-9s %6lld ms ", options_text(s, "name"),
		     options_text(s, "tier"),
		     json_integer_value(json_object_get(s, "ms")));
	if (json_is_integer(n))
		(void)printf("%9lld", json_integer_value(n));
	else
		(void)printf("%9s", "-");
	(void)printf("  %s\n", options_text(s, "code"));
	if (!json_is_true(json_object_get(s, "ok")))
		(void)printf("    %s\n", options_text(s, "message"));
	if (strcmp(options_text(s, "code"), "no_secret") == 0)
		(void)puts("    `sandgate vault put NAME` puts it there: NAME is the "
			   "server's `key`.");
}

static void
print(const json_t *all)
{
	const json_t *s;
	size_t i;

	(void)printf("%-24s %-9s %9s %9s  %s\n", "name", "tier", "time", "sandboxes",
		     "state");
	json_array_foreach(json_object_get(all, "servers"), i, s) print_one(s);
}

int
cmd_servers(int argc, char **argv)
{
	struct admin_wish wish = { .method = "GET", .path = "/v1/servers" };

	return options_show(argc, argv, &wish, print);
}
