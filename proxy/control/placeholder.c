/* What a sandbox that is about to be attached may show where a client insists on a
 * credential: the variables that its connectors name, with its own placeholders. */
#include "conf/placeholder.h"
#include "proxy/control/control.h"

static json_t *
variables(const struct image *im, const struct placeholders *p)
{
	size_t n, connectors_n;
	const struct placeholder *all = placeholders_all(p, &n);
	const struct image_connector *c = image_connectors(im, &connectors_n);
	json_t *env = json_object();

	for (size_t i = 0; i < n; i++) {
		CLEANUP(buf_done) struct buf name = { 0 };
		buf_init(&name, 256);
		buf_put(&name, image_str(im, c[all[i].connector].auth.env));
		if (name.len > 0 && buf_cstr(&name) != NULL)
			(void)json_object_set_new(
				env, buf_cstr(&name),
				json_stringn(all[i].text.p, all[i].text.n));
	}
	return json_pack("{s:o}", "env", env);
}

void
api_placeholders(struct admin_conn *a)
{
	const struct control *c = a->control;
	const struct who w = { .id = api_text(a, "id"),
			       .user = api_text(a, "user"),
			       .may.policy = image_policy_by_name(
				       c->role.image, api_text(a, "policy")) };
	struct placeholders *p = NULL;
	enum status st = str_is_name(w.id) ? ST_OK : ST_BAD_REQUEST;

	if (st == ST_OK && w.may.policy == POLICY_NONE)
		st = ST_NO_POLICY;
	if (st == ST_OK)
		st = placeholders_new(c->role.image, &c->role.shapes, &w, &p);
	if (st != ST_OK) {
		api_refuse(a, st, STR(""));
		return;
	}
	admin_answer(a, 200, variables(c->role.image, p));
	placeholders_free(p);
}
