#include "proxy/cli/attached.h"

#include "conf/describe.h"
#include "conf/policy.h"
#include "proxy/cli/where.h"

static json_t *
text(const char *s)
{
	return json_string(s == NULL ? "" : s);
}

enum status
attached_add(const struct admin_where *w, const struct attached_as *as,
	     const struct ns_sockets *s)
{
	struct admin_wish wish = {
		.method = "POST", .path = "/v1/attach", .fds = s->fds, .fds_n = s->n
	};
	struct admin_reply reply;
	json_t *kinds = json_array();

	for (size_t i = 0; i < s->n; i++)
		(void)json_array_append_new(kinds, json_string(s->texts[i]));
	wish.body = json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "id", text(as->id), "user",
			      text(as->user), "agent", text(as->agent), "session",
			      text(as->session), "policy", text(as->policy), "sockets",
			      kinds);
	if (wish.body == NULL)
		return ST_NOMEM;
	enum status st = admin_call(w, &wish, &reply);
	json_decref(wish.body);
	if (st != ST_OK)
		return st;
	if (reply.http != 200) {
		admin_print_refusal(&reply);
		st = ST_CONFLICT;
	}
	json_decref(reply.body);
	return st;
}

void
attached_remove(const struct admin_where *w, const char *id)
{
	struct admin_wish wish = { .method = "POST", .path = "/v1/detach" };
	struct admin_reply reply;

	wish.body = json_pack("{s:s}", "id", id);
	if (admin_call(w, &wish, &reply) == ST_OK)
		json_decref(reply.body);
	json_decref(wish.body);
}

size_t
attached_ports(const char *config, const char *policy, uint16_t *ports, size_t max)
{
	struct image *im;
	size_t n = 0;

	if (where_image(config, &im) != ST_OK)
		return 0;
	uint32_t p = image_policy_by_name(im, str_from(policy));
	if (p != POLICY_NONE)
		n = describe_ports(im, p, ports, max);
	image_close(im);
	return n;
}
