/* sandgate unregister --sandbox ID: nobody is known by its addresses any more, and what it
 * has open is closed. */
#include <stdio.h>

#include "proxy/cli/admin.h"
#include "proxy/cli/args.h"
#include "proxy/cli/cmds.h"

enum { HTTP_OK = 200, HTTP_NOT_FOUND = 404 };

static const char usage[] =
	"usage: sandgate unregister [-c FILE | --state DIR] --sandbox ID\n";

static int
unregister(const struct admin_where *where, const char *id)
{
	struct admin_wish wish = { .method = "POST", .path = "/v1/unregister" };
	struct admin_reply reply;

	wish.body = json_pack("{s:s}", "id", id);
	if (wish.body == NULL)
		return args_wrong("unregister", "not an ID:", id) ? 0 : 2;
	enum status st = admin_call(where, &wish, &reply);
	json_decref(wish.body);
	if (st != ST_OK)
		return 1;
	if (reply.http == HTTP_NOT_FOUND)
		(void)fprintf(stderr, "sandgate: no sandbox `%s` is registered\n", id);
	else if (reply.http != HTTP_OK)
		admin_print_refusal(&reply);
	else
		(void)printf("unregistered %s\n", id);
	json_decref(reply.body);
	return reply.http == HTTP_OK ? 0 : 1;
}

int
cmd_unregister(int argc, char **argv)
{
	struct admin_where where = { .config = NULL };
	const char *id = NULL;
	const struct arg args[] = {
		{ 'c', "config", &where.config, NULL },
		{ 0, "state", &where.state, NULL },
		{ 0, "sandbox", &id, NULL },
	};
	size_t n;

	args_help(argc, argv, usage);
	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n != 0 || id == NULL) {
		(void)fputs(usage, stderr);
		return 2;
	}
	return unregister(&where, id);
}
