/*
 * sandgate rules [-c FILE] --interface IF [--tproxy] [--sandboxes | --pin PORT,MAC,IP...]:
 * the nft rules that put this gateway in front of an interface.  Without --interface: those
 * that exec and attach use inside a namespace.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"
#include "proxy/cli/gateway_rules.h"
#include "proxy/cli/ns.h"
#include "proxy/cli/where.h"

static const char usage[] =
	"usage: sandgate rules [-c FILE] [--interface IF [--tproxy]\n"
	"                      [--sandboxes | --pin PORT,MAC,IP...]]\n";

enum { RULES_MAX = 1024 * 1024 };

struct rules {
	const char *config, *interface;
	struct gateway_rules gateway;
	struct gateway_pin *pins;
};

static bool
take_pin(struct rules *r, const char *text)
{
	if (r->gateway.pins_n == PINS_MAX ||
	    !gateway_pin_parse(str_from(text), &r->pins[r->gateway.pins_n])) {
		(void)fprintf(stderr, "sandgate rules: --pin %s: not PORT,MAC,IP\n",
			      text);
		return false;
	}
	r->gateway.pins_n++;
	return true;
}

static bool
read_options(int argc, char **argv, struct rules *r)
{
	static const struct option known[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "interface", required_argument, NULL, 'i' },
		{ "pin", required_argument, NULL, 'p' },
		{ "sandboxes", no_argument, NULL, 's' },
		{ "tproxy", no_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 },
	};
	int letter;

	optind = 0;
	while ((letter = getopt_long(argc, argv, "c:", known, NULL)) != -1) {
		if (letter == 'c')
			r->config = optarg;
		else if (letter == 'i')
			r->interface = optarg;
		else if (letter == 't')
			r->gateway.tproxy = true;
		else if (letter == 's')
			r->gateway.sandboxes = true;
		else if (letter != 'p' || !take_pin(r, optarg))
			return false;
	}
	if (r->interface == NULL &&
	    (r->gateway.tproxy || r->gateway.sandboxes || r->gateway.pins_n > 0))
		return args_wrong("rules", "in front of which interface? Missing:",
				  "--interface");
	return optind == argc && !(r->gateway.sandboxes && r->gateway.pins_n > 0);
}

static int
gateway(struct rules *r, struct buf *b)
{
	CLEANUP(buf_done) struct buf config = { 0 };
	struct str name = str_from(r->interface);

	if (!gateway_is_ifname(name)) {
		(void)fprintf(stderr, "sandgate rules: %s: not an interface's name\n",
			      r->interface);
		return 2;
	}
	memcpy(r->gateway.interface, name.p, name.n);
	buf_init(&config, 4096);
	if (where_config(r->config, &config) != ST_OK) {
		where_say_no_config();
		return 2;
	}
	bool ok = gateway_find_ports(buf_cstr(&config), &r->gateway);
	r->gateway.pins = r->pins;
	if (ok)
		gateway_put_rules(b, &r->gateway);
	return ok ? 0 : 2;
}

int
cmd_rules(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct rules r = { .config = NULL };
	int code = 0;

	args_help(argc, argv, usage);
	r.pins = calloc(PINS_MAX, sizeof *r.pins);
	buf_init(&b, RULES_MAX);
	if (r.pins == NULL || !read_options(argc, argv, &r)) {
		(void)fputs(usage, stderr);
		free(r.pins);
		return 2;
	}
	if (r.interface == NULL)
		ns_put_rules(&b);
	else
		code = gateway(&r, &b);
	free(r.pins);
	const char *text = buf_cstr(&b);
	if (code == 0 && text != NULL)
		(void)fputs(text, stdout);
	return text == NULL ? 1 : code;
}
