#include "proxy/cli/attached.h"

#include <stdio.h>
#include <string.h>

#include "conf/describe.h"
#include "conf/policy.h"
#include "proxy/cli/options.h"
#include "proxy/cli/where.h"

static json_t *
text(const char *s)
{
	return json_string(s == NULL ? "" : s);
}

/* What the gateway answers is told to sandboxes too; whoever names a policy wants to
 * hear which one is missing. */
static void
print_refusal(const struct admin_reply *r, const struct attached_as *as)
{
	if (!admin_is_refusal(r, ST_NO_POLICY))
		admin_print_refusal(r);
	else
		(void)fprintf(stderr,
			      "sandgate: no_policy: the gateway that runs has no "
			      "policy `%s`\n",
			      as->policy == NULL ? "" : as->policy);
}

static const json_t *
find(const json_t *all, const char *id)
{
	const json_t *one;
	size_t i;

	json_array_foreach(all, i, one)
	{
		if (strcmp(options_text(one, "id"), id) == 0)
			return one;
	}
	return NULL;
}

static void
print_taken(const json_t *one, const char *id)
{
	if (json_is_true(json_object_get(one, "attached")))
		(void)fprintf(
			stderr,
			"sandgate: `%s` is attached already, with policy `%s` and "
			"user `%s`; `sandgate detach --sandbox %s` lets go of it\n",
			id, options_text(one, "policy"), options_text(one, "user"), id);
	else
		(void)fprintf(
			stderr,
			"sandgate: `%s` is a sandbox of the configuration, or one "
			"that was registered\n",
			id);
}

bool
attached_is_free(const struct admin_where *w, const char *id)
{
	const struct admin_wish wish = { .method = "GET", .path = "/v1/sandboxes" };
	struct admin_reply reply;

	if (admin_call(w, &wish, &reply) != ST_OK)
		return false;
	const json_t *one = find(json_object_get(reply.body, "sandboxes"), id);
	if (reply.http != 200)
		admin_print_refusal(&reply);
	else if (one != NULL)
		print_taken(one, id);
	bool is_free = reply.http == 200 && one == NULL;
	json_decref(reply.body);
	return is_free;
}

enum status
attached_add(const struct admin_where *w, const struct attached_as *as,
	     const struct ns_sockets *s)
{
	struct admin_wish wish = {
		.method = "POST", .path = "/v1/attach", .fds = s->fds, .fds_n = s->n
	};
	struct admin_reply reply;
	json_t *kinds;

	if (as->id == NULL || !str_is_name(str_from(as->id))) {
		(void)fprintf(stderr,
			      "sandgate: `%s` is no id of a sandbox: letters, digits, "
			      "`-`, `_` and `.`, at most %d\n",
			      as->id == NULL ? "" : as->id, STR_NAME_MAX);
		return ST_BAD_REQUEST;
	}
	kinds = json_array();
	for (size_t i = 0; i < s->n; i++)
		(void)json_array_append_new(kinds, json_string(s->texts[i]));
	wish.body = json_pack("{s:o,s:o,s:o,s:o,s:o,s:b,s:o}", "id", text(as->id),
			      "user", text(as->user), "agent", text(as->agent),
			      "session", text(as->session), "policy", text(as->policy),
			      "trusts_ca", as->trusts_ca, "sockets", kinds);
	if (wish.body == NULL)
		return ST_NOMEM;
	enum status st = admin_call(w, &wish, &reply);
	json_decref(wish.body);
	if (st != ST_OK)
		return st;
	if (reply.http != 200) {
		/* Its name may be taken, which says more. */
		if (reply.http != 409 || attached_is_free(w, as->id))
			print_refusal(&reply, as);
		st = ST_CONFLICT;
	}
	json_decref(reply.body);
	return st;
}

json_t *
attached_variables(const struct admin_where *w, const struct attached_as *as)
{
	struct admin_wish wish = { .method = "POST", .path = "/v1/placeholders" };
	struct admin_reply reply;
	json_t *env = NULL;

	wish.body = json_pack("{s:o,s:o,s:o}", "id", text(as->id), "user",
			      text(as->user), "policy", text(as->policy));
	enum status st = wish.body == NULL ? ST_NOMEM : admin_call(w, &wish, &reply);
	json_decref(wish.body);
	if (st != ST_OK)
		return NULL;
	if (reply.http == 200)
		env = json_incref(json_object_get(reply.body, "env"));
	else
		print_refusal(&reply, as);
	json_decref(reply.body);
	return env;
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
