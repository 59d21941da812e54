/* sandgate servers: does each execution server answer, and take our key, and have the sandboxes
 * on its network a way out?  Exit code: 1 when one doesn't. */
#include <stdio.h>
#include <string.h>

#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"

static json_int_t
unbound(const json_t *s)
{
	return json_integer_value(json_object_get(s, "unbound"));
}

/* Its docker network, whose name no check of the configuration can know. */
static void
print_network(const json_t *s)
{
	bool is_pinned = json_is_true(json_object_get(s, "pinned"));

	if (json_object_get(s, "network") == NULL)
		return;
	(void)printf("    network %s: %s\n", options_text(s, "network"),
		     is_pinned ? "bridge ports, MACs and addresses are pinned"
			       : "its server says the addresses, and nothing is "
				 "pinned: exec.docker isn't set");
	if (unbound(s) == 0)
		return;
	(void)printf("    %lld sandboxes on it have no way out: %s\n", unbound(s),
		     options_text(s, "unbound_code"));
	(void)printf("    The log names them. Where it is all of them: is `%s` what "
		     "`docker network ls` calls it, and does docker answer? `sandgate "
		     "doctor` asks it.\n",
		     options_text(s, "network"));
}

/* What an operator does about it. */
static void
print_next(const char *code)
{
	if (strcmp(code, "no_secret") == 0)
		(void)puts("    `sandgate vault put NAME` puts it there: NAME is the "
			   "server's `key`.");
	else if (strcmp(code, "server_key_refused") == 0)
		(void)puts("    `sandgate vault rotate NAME` puts another in its "
			   "place: NAME is the server's `key`.");
}

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
	print_next(options_text(s, "code"));
	print_network(s);
}

static bool
is_well(const json_t *all)
{
	const json_t *s;
	size_t i;

	json_array_foreach(json_object_get(all, "servers"), i, s)
	{
		if (!json_is_true(json_object_get(s, "ok")) || unbound(s) > 0)
			return false;
	}
	return true;
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

	return options_judge(argc, argv, &wish, print, is_well);
}
