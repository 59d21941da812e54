/* sandgate status: is it well, and what does it do. */
#include <stdio.h>

#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"

static long long
number(const json_t *of, const char *key)
{
	return (long long)json_integer_value(json_object_get(of, key));
}

static void
print_roles(const json_t *roles)
{
	const json_t *r;
	size_t i;

	(void)printf("%-12s %8s  %-9s %8s  %s\n", "role", "pid", "state", "restarts",
		     "jail");
	json_array_foreach(roles, i, r)(void) printf(
		"%-12s %8lld  %-9s %8lld  %s%s, Landlock %lld\n",
		options_text(r, "name"), number(r, "pid"), options_text(r, "state"),
		number(r, "restarts"),
		json_is_true(json_object_get(r, "no_new_privs")) ? "" : "privileges! ",
		json_is_true(json_object_get(r, "seccomp")) ? "seccomp" : "no seccomp",
		number(r, "landlock"));
}

/* Zero says nothing to a reader; --json has them all. */
static void
print_counts(const char *title, json_t *counts)
{
	const char *key;
	json_t *value;

	(void)printf("%s\n", title);
	json_object_foreach(counts, key, value)
	{
		if (json_integer_value(value) != 0)
			(void)printf("  %-28s %lld\n", key,
				     (long long)json_integer_value(value));
	}
}

static void
print_listener(const json_t *l)
{
	json_t *tls = json_object_get(l, "tls"), *name;
	size_t i;

	(void)printf("listener %-12s %-12s %s port %lld", options_text(l, "name"),
		     options_text(l, "kind"), options_text(l, "address"),
		     number(l, "port"));
	json_array_foreach(tls, i, name)(void)
		printf("%s%s", i > 0 ? ", " : ", TLS as ", json_string_value(name));
	(void)printf("\n");
}

static void
print(const json_t *all)
{
	const json_t *l;
	size_t i;

	(void)printf("sandgate %s, %s, generation %lld, %lld attached\n",
		     options_text(all, "version"), options_text(all, "state"),
		     number(all, "generation"), number(all, "attached"));
	json_array_foreach(json_object_get(all, "listeners"), i, l) print_listener(l);
	print_roles(json_object_get(all, "roles"));
	print_counts("counters", json_object_get(all, "counters"));
	print_counts("refusals", json_object_get(all, "refusals"));
}

int
cmd_status(int argc, char **argv)
{
	struct admin_wish wish = { .method = "GET", .path = "/v1/status" };

	return options_show(argc, argv, &wish, print);
}
