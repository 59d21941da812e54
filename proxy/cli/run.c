/*
 * sandgate run -c FILE [--ready-fd N]: the gateway, in the foreground.  It becomes
 * sandgate-super, which parses nothing that comes from outside.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/where.h"

struct run {
	const char *config, *ready_fd;
};

static const char usage[] = "usage: sandgate run [-c FILE] [--ready-fd N]\n";

static bool
read_options(int argc, char **argv, struct run *r)
{
	static const struct option known[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "ready-fd", required_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	int letter;

	optind = 0;
	while ((letter = getopt_long(argc, argv, "c:", known, NULL)) != -1) {
		if (letter == 'c')
			r->config = optarg;
		else if (letter == 'r')
			r->ready_fd = optarg;
		else
			return false;
	}
	return optind == argc;
}

static int
become_super(const char *exe, const char *config, const char *ready_fd)
{
	const char *argv[] = { "sandgate-super", "-c", config, NULL, NULL, NULL };

	if (ready_fd != NULL) {
		argv[3] = "--ready-fd";
		argv[4] = ready_fd;
	}
	/* execv() takes its arguments as if it wrote them. */
	(void)execv(exe, (char *const *)(uintptr_t)argv);
	(void)fprintf(stderr, "sandgate: %s: %s\n", exe, strerror(errno));
	return 1;
}

int
cmd_run(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf config = { 0 };
	CLEANUP(buf_done) struct buf exe = { 0 };
	struct run r = { NULL, NULL };

	args_help(argc, argv, usage);
	if (!read_options(argc, argv, &r)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	buf_init(&config, 4096);
	buf_init(&exe, 4096);
	if (where_config(r.config, &config) != ST_OK) {
		where_say_no_config();
		return 2;
	}
	if (where_exe("sandgate-super", &exe) != ST_OK) {
		(void)fprintf(stderr, "sandgate: sandgate-super is not installed\n");
		return 1;
	}
	return become_super(buf_cstr(&exe), buf_cstr(&config), r.ready_fd);
}
