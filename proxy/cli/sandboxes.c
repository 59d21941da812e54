/* sandgate sandboxes: who is registered, from the file or attached; and what execution
 * servers run for whom. */
#include <stdio.h>

#include "proxy/cli/cmds.h"
#include "proxy/cli/options.h"
#include "proxy/cli/span.h"

enum { MIB = 1024 * 1024 };

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

static long long
number(const json_t *s, const char *key)
{
	return (long long)json_integer_value(json_object_get(s, key));
}

/* A span in a column of its own. */
static void
print_span(const json_t *s, const char *key)
{
	const json_t *v = json_object_get(s, key);
	char text[SPAN_SHORT] = "-";

	if (json_is_integer(v) && json_integer_value(v) >= 0)
		span_shorten((uint64_t)json_integer_value(v), text);
	(void)printf(" %5s", text);
}

/* In MiB with a tenth; what nobody could measure is not told. */
static bool
memory_text(const json_t *s, char ret_text[SPAN_SHORT])
{
	const json_t *v = json_object_get(s, "freed");

	(void)snprintf(ret_text, SPAN_SHORT, "-");
	if (json_is_integer(v))
		(void)snprintf(ret_text, SPAN_SHORT, "%.1f",
			       (double)json_integer_value(v) / MIB);
	return json_is_integer(v);
}

/* What was measured, in ms; memory that the last pause or snapshot freed. */
static void
print_cost(const json_t *s)
{
	static const struct {
		const char *key, *name;
	} parts[] = { { "create_ms", "create" },
		      { "pause_ms", "pause" },
		      { "snapshot_ms", "snapshot" },
		      { "resume_ms", "resume" } };
	const char *between = "";
	char freed[SPAN_SHORT];

	(void)putchar(' ');
	for (size_t i = 0; i < COUNT_OF(parts); i++) {
		if (number(s, parts[i].key) == 0)
			continue;
		(void)printf("%s%s %lld ms", between, parts[i].name,
			     number(s, parts[i].key));
		between = ", ";
	}
	if (memory_text(s, freed)) {
		(void)printf("%sfreed %s MiB", between, freed);
		between = ", ";
	}
	(void)puts(between[0] == '\0' ? "-" : "");
}

static void
print_execution(const json_t *s)
{
	bool is_warm = json_is_true(json_object_get(s, "warm"));

	(void)printf("%-29s %-12s %-8s %-16s %-12s %-12s %-8s", options_text(s, "id"),
		     options_text(s, "server"), options_text(s, "tier"),
		     is_warm ? "(warm)" : options_text(s, "user"),
		     options_text(s, "agent"), options_text(s, "session"),
		     options_text(s, "state"));
	print_span(s, "age_s");
	/* Who is used just now isn't idle. */
	if (number(s, "requests") > 0)
		(void)printf(" %5s", "busy");
	else
		print_span(s, "idle_s");
	print_span(s, "ttl_s");
	(void)printf(" %-7s", options_text(s, "reuse"));
	print_cost(s);
}

/* Of all of them, those that are gone too. */
static void
print_costs(const json_t *costs)
{
	static const char *const names[] = { "create",   "warm",   "pause",
					     "snapshot", "resume", "kill" };
	char freed[SPAN_SHORT];

	if (json_object_size(costs) == 0)
		return;
	(void)printf("\n%-16s %8s %8s %8s %10s\n", "since the start", "times",
		     "mean ms", "most ms", "freed MiB");
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		const json_t *s = json_object_get(costs, names[i]);

		if (s == NULL)
			continue;
		(void)memory_text(s, freed);
		(void)printf("%-16s %8lld %8lld %8lld %10s\n", names[i],
			     number(s, "times"), number(s, "mean_ms"),
			     number(s, "most_ms"), freed);
	}
}

static void
print_executions(const json_t *all)
{
	const json_t *s;
	size_t i;

	(void)printf("\n%-29s %-12s %-8s %-16s %-12s %-12s %-8s %5s %5s %5s %-7s %s\n",
		     "execution", "server", "tier", "user", "agent", "session", "state",
		     "age", "idle", "left", "reuse", "cost");
	json_array_foreach(json_object_get(all, "executions"), i, s) print_execution(s);
	if (json_is_true(json_object_get(all, "more_executions")))
		(void)puts("... and more");
	print_costs(json_object_get(all, "costs"));
}

static void
print(const json_t *all)
{
	const json_t *s, *executions = json_object_get(all, "executions");
	size_t i;

	(void)printf("%-24s %-16s %-16s %-16s %-9s %s\n", "id", "policy", "user",
		     "agent", "from", "source");
	json_array_foreach(json_object_get(all, "sandboxes"), i, s) print_one(s);
	if (json_is_array(executions))
		print_executions(all);
	else if (executions != NULL)
		(void)puts("\nWhat is executed can't be read: exec.db is damaged or "
			   "the disk fails.");
}

int
cmd_sandboxes(int argc, char **argv)
{
	struct admin_wish wish = { .method = "GET", .path = "/v1/sandboxes" };

	return options_show(argc, argv, &wish, print);
}
