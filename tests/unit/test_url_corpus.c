/*
 * Third-party truth: the hosts of the web platform's URL tests.  We refuse or agree,
 * never accept and differ; and every plain ASCII name, canonical IPv4 and bracketed
 * IPv6 in them is accepted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "proxy/base/num.h"
#include "proxy/http/uri.h"

struct tally {
	unsigned agreed, refused, accepted_plain;
};

static json_t *
load(const char *file)
{
	char path[1024];
	json_error_t err;

	(void)snprintf(path, sizeof path, "%s/url/%s", SG_CORPORA, file);
	json_t *j = json_load_file(path, JSON_ALLOW_NUL, &err);
	if (j != NULL)
		return j;
	if (getenv("CI") != NULL)
		fail_msg("%s: %s", path, err.text);
	print_message("ABSENT %s: %s\n", file, err.text);
	return NULL;
}

static struct str
text_of(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_is_string(v) ? str_of(json_string_value(v), json_string_length(v))
				 : (struct str){ NULL, 0 };
}

/* Letters, digits, inner hyphens and underscores; no ACE; not a number at the end. */
static bool
is_plain_name(struct str s)
{
	struct str label = { 0 };

	if (s.p == NULL || s.n == 0 || s.n > 253)
		return false;
	while (s.p != NULL) {
		label = str_cut(&s, '.');
		if (label.n == 0 || label.n > 63 || label.p[0] == '-' ||
		    label.p[label.n - 1] == '-' || str_starts(label, STR("xn--")))
			return false;
		for (size_t i = 0; i < label.n; i++)
			if (!ascii_is_alpha(label.p[i]) &&
			    !ascii_is_digit(label.p[i]) && label.p[i] != '-' &&
			    label.p[i] != '_')
				return false;
	}
	return !ascii_is_digit(label.p[0]);
}

/* The same host?  Theirs is the serialised one: "1.2.3.4", "[::1]" or a name. */
static bool
is_same(const struct dest *ours, struct str theirs)
{
	struct addr a = { 0 };

	if (dest_is_name(ours)) { /* they keep the last dot, we drop it */
		if (str_ends(theirs, STR(".")))
			theirs.n--;
		return str_eq(dest_name(ours), theirs);
	}
	if (str_starts(theirs, STR("[")))
		theirs = str_of(theirs.p + 1, theirs.n - 2);
	if (!addr_parse(theirs, &a))
		return false;
	struct addr b = addr_unwrap(&a), c = addr_unwrap(&ours->addr);
	return addr_eq(&b, &c);
}

static void
check_host(struct str in, struct str want, bool fails, struct tally *t)
{
	struct dest d;

	if (dest_from_host_single(in, 80, &d) != ST_OK) {
		t->refused++;
		return;
	}
	if (fails || !is_same(&d, want))
		fail_msg("accepted %.*s where they say %.*s", STR_ARG(in),
			 STR_ARG(fails ? STR("failure") : want));
	t->agreed++;
}

/* What they give out as a host and is plain must be taken by us. */
static void
must_accept(struct str host, struct tally *t)
{
	struct addr a = { 0 };
	struct dest d;
	bool is_v6 = str_starts(host, STR("[")) && str_ends(host, STR("]"));

	if (!is_plain_name(host) && !is_v6 && !addr_parse(host, &a))
		return;
	if (dest_from_host_single(host, 80, &d) != ST_OK)
		fail_msg("refused %.*s", STR_ARG(host));
	t->accepted_plain++;
}

static void
check_target(struct str input, const json_t *row, struct tally *t)
{
	struct str port = text_of(row, "port"), path = text_of(row, "pathname");
	struct str search = text_of(row, "search");
	uint64_t want_port = 80;
	struct uri u;

	if (uri_parse(METHOD_GET, input, &u) != ST_OK || u.form != URI_ABSOLUTE)
		return;
	if (json_is_true(json_object_get(row, "failure")) ||
	    !is_same(&u.dest, text_of(row, "hostname")))
		fail_msg("accepted %.*s with another host", STR_ARG(input));
	if (port.n > 0 && !num_parse_u64(port, 65535, &want_port))
		fail();
	assert_int_equal(u.dest.port, want_port);
	assert_true(str_eq(u.path, path));
	/* What they write in percent form there, we send as it came. */
	assert_true(str_has(search, '%') || str_eq(u.query, str_skip(search, 1)));
	t->agreed++;
}

static void
hosts_of_urls_are_refused_or_agreed_upon(void **state)
{
	json_t *rows = load("urltestdata.json");
	const json_t *row = NULL;
	struct tally t = { 0 };
	size_t i = 0;

	(void)state;
	json_array_foreach(rows, i, row)
	{
		struct str input = text_of(row, "input"), rest = input;
		struct str host = text_of(row, "hostname");
		bool fails = json_is_true(json_object_get(row, "failure"));
		if (input.p == NULL)
			continue;
		must_accept(host, &t);
		check_target(input, row, &t);
		if (!str_starts(input, STR("http://")) &&
		    !str_starts(input, STR("https://")))
			continue;
		(void)str_cut(&rest, '/');
		(void)str_cut(&rest, '/');
		size_t n = 0;
		while (n < rest.n && !str_has(STR("/?#:"), rest.p[n]))
			n++;
		/* A port may be what fails; then nothing is known about the host. */
		if (n < rest.n && rest.p[n] == ':')
			continue;
		check_host(str_head(rest, n), host, fails, &t);
	}
	json_decref(rows);
	print_message("URLs: %u agreed, %u refused, %u plain ones accepted\n", t.agreed,
		      t.refused, t.accepted_plain);
}

static void
names_to_ascii_are_refused_or_agreed_upon(void **state)
{
	json_t *rows = load("toascii.json");
	const json_t *row = NULL;
	struct tally t = { 0 };
	size_t i = 0;

	(void)state;
	json_array_foreach(rows, i, row)
	{
		struct str input = text_of(row, "input"),
			   output = text_of(row, "output");
		if (input.p == NULL)
			continue;
		check_host(input, output, output.p == NULL, &t);
		must_accept(output, &t);
	}
	json_decref(rows);
	print_message("names: %u agreed, %u refused, %u plain ones accepted\n",
		      t.agreed, t.refused, t.accepted_plain);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_of_urls_are_refused_or_agreed_upon),
		cmocka_unit_test(names_to_ascii_are_refused_or_agreed_upon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
