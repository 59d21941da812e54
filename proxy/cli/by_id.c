#include "proxy/cli/by_id.h"

#include <stdio.h>

#include "proxy/cli/args.h"

enum { HTTP_OK = 200, HTTP_NOT_FOUND = 404 };

int
by_id_ask(const struct by_id *c, const struct admin_where *where, const char *id)
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
