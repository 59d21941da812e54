#include "proxy/cli/vault_print.h"

#include <stdio.h>
#include <time.h>

#include "proxy/base/base.h"
#include "proxy/cli/options.h"

enum { TIME_MAX = 24 };

static const char *
when(json_int_t seconds, char *space)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (seconds <= 0 || gmtime_r(&t, &tm) == NULL ||
	    strftime(space, TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		return "never";
	return space;
}

static json_int_t
number(const json_t *of, const char *key)
{
	return json_integer_value(json_object_get(of, key));
}

void
vault_print_status(const json_t *body)
{
	char space[TIME_MAX];
	json_int_t locked = number(body, "locked_seconds");

	(void)printf("state        %s\n", options_text(body, "state"));
	(void)printf("master key   %s\n", options_text(body, "key"));
	(void)printf("secrets      %lld\n", number(body, "secrets"));
	(void)printf("change       %lld\n", number(body, "change"));
	(void)printf("CA expires   %s\n", when(number(body, "ca_expires"), space));
	(void)printf("memory       %s\n", options_text(body, "memory"));
	if (locked > 0)
		(void)printf("locked       for another %llds\n", locked);
}

void
vault_print_version(const json_t *body)
{
	(void)printf("%s version %lld\n", options_text(body, "name"),
		     number(body, "version"));
}

static void
print_grants(const json_t *grants)
{
	const json_t *one;
	size_t i;

	json_array_foreach(grants, i, one)
	{
		const char *user = json_string_value(json_object_get(one, "user"));
		bool is_for_one = user != NULL && user[0] != '\0';
		(void)printf("%s%s%s%s", i > 0 ? "," : "",
			     options_text(one, "connector"), is_for_one ? ":" : "",
			     is_for_one ? user : "");
	}
	if (json_array_size(grants) == 0)
		(void)fputs("-", stdout);
}

static void
print_secret(const json_t *one, json_int_t now)
{
	const json_t *versions = json_object_get(one, "versions");
	const json_t *newest = json_array_get(versions, json_array_size(versions) - 1);
	json_int_t expires = number(newest, "expires");
	char space[TIME_MAX];

	(void)printf("%-32s %-12s %-5s %7lld %-20s %-8s ", options_text(one, "name"),
		     options_text(one, "tenant"), options_text(one, "kind"),
		     number(newest, "version"), when(expires, space),
		     expires != 0 && expires <= now ? "expired" : "valid");
	print_grants(json_object_get(one, "grants"));
	(void)puts("");
}

static void
print_source(const json_t *one)
{
	char space[TIME_MAX];

	(void)printf("%-32s %-12s %7lld %-20s %s\n", options_text(one, "name"),
		     options_text(one, "source"), number(one, "version"),
		     when(number(one, "expires"), space), options_text(one, "code"));
}

static void
print_sources(const json_t *sources)
{
	const json_t *one;
	size_t i;

	if (json_array_size(sources) == 0)
		return;
	(void)printf("\n%-32s %-12s %7s %-20s %s\n", "KEPT BY OTHERS", "SOURCE",
		     "VERSION", "UNTIL", "STATE");
	json_array_foreach(sources, i, one) print_source(one);
}

void
vault_print_list(const json_t *body)
{
	const json_t *secrets = json_object_get(body, "secrets"), *one;
	json_int_t now = (json_int_t)time(NULL);
	size_t i;

	(void)printf("%-32s %-12s %-5s %7s %-20s %-8s %s\n", "NAME", "TENANT", "KIND",
		     "VERSION", "EXPIRES", "STATE", "GRANTS");
	json_array_foreach(secrets, i, one) print_secret(one, now);
	print_sources(json_object_get(body, "sources"));
}
