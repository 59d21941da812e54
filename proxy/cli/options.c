#include "proxy/cli/options.h"

#include <getopt.h>
#include <stdio.h>

#include "proxy/cli/args.h"

bool
options_read(int argc, char **argv, struct options *ret_o)
{
	static const struct option known[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "state", required_argument, NULL, 'S' },
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = { .json = false };
	bool is_right = true;
	char usage[128];
	int letter;

	(void)snprintf(usage, sizeof usage,
		       "usage: sandgate %s [-c FILE | --state DIR] [--json]\n",
		       argv[0]);
	args_help(argc, argv, usage);
	optind = 0;
	while ((letter = getopt_long(argc, argv, "c:", known, NULL)) != -1) {
		if (letter == 'c')
			o.where.config = optarg;
		else if (letter == 'S')
			o.where.state = optarg;
		else if (letter == 'j')
			o.json = true;
		else
			is_right = false;
	}
	if (!is_right || optind != argc) {
		(void)fputs(usage, stderr);
		return false;
	}
	*ret_o = o;
	return true;
}

int
options_show(int argc, char **argv, const struct admin_wish *wish,
	     void (*print)(const json_t *body))
{
	return options_judge(argc, argv, wish, print, NULL);
}

int
options_judge(int argc, char **argv, const struct admin_wish *wish,
	      void (*print)(const json_t *body), bool (*is_well)(const json_t *body))
{
	struct admin_reply reply;
	struct options o;
	bool ok;

	if (!options_read(argc, argv, &o))
		return 2;
	if (admin_call(&o.where, wish, &reply) != ST_OK)
		return 1;
	ok = reply.http == 200;
	if (!ok)
		admin_print_refusal(&reply);
	else if (o.json)
		(void)json_dumpf(reply.body, stdout, JSON_INDENT(2)), (void)puts("");
	else
		print(reply.body);
	ok = ok && (is_well == NULL || is_well(reply.body));
	json_decref(reply.body);
	return ok ? 0 : 1;
}

const char *
options_text(const json_t *of, const char *key)
{
	const char *s = json_string_value(json_object_get(of, key));

	return s == NULL || s[0] == '\0' ? "-" : s;
}
