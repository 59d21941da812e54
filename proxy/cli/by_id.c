#include "proxy/cli/by_id.h"

#include <stdio.h>

#include "proxy/cli/admin.h"
#include "proxy/cli/args.h"

enum { HTTP_OK = 200, HTTP_NOT_FOUND = 404 };

static int
ask(const struct by_id *c, const struct admin_where *where, const char *id)
{
	struct admin_wish wish = { .method = "POST", .path = c->path };
	struct admin_reply reply;

	wish.body = json_pack("{s:s}", "id", id);
	if (wish.body == NULL)
		return args_wrong(c->name, "not an ID:", id) ? 0 : 2;
	enum status st = admin_call(where, &wish, &reply);
	json_decref(wish.body);
	if (st != ST_OK)
		return 1;
	if (reply.http == HTTP_NOT_FOUND)
		(void)fprintf(stderr, "sandgate: no sandbox `%s` is %s\n", id,
			      c->missing);
	else if (reply.http != HTTP_OK)
		admin_print_refusal(&reply);
	else
		(void)printf("%s %s\n", c->done, id);
	json_decref(reply.body);
	return reply.http == HTTP_OK ? 0 : 1;
}

int
by_id_command(const struct by_id *c, int argc, char **argv)
{
	struct admin_where where = { .config = NULL };
	const char *id = NULL;
	const struct arg args[] = {
		{ 'c', "config", &where.config, NULL },
		{ 0, "state", &where.state, NULL },
		{ 0, "sandbox", &id, NULL },
	};
	size_t n;

	args_help(argc, argv, c->usage);
	if (!args_take(argc, argv, args, COUNT_OF(args), &n) || n != 0 ||
	    !args_need(c->name, "--sandbox ID", id != NULL)) {
		(void)fputs(c->usage, stderr);
		return 2;
	}
	return ask(c, &where, id);
}
