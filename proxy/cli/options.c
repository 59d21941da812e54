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
