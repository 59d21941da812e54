/* Sandboxes that a platform makes by itself, as an operator registers them. */
#include "proxy/control/brain_policy.h"
#include "proxy/control/enroll.h"

static void
on_done(void *ctx, enum status st, uint32_t handle)
{
	struct admin_conn *a = ctx;

	if (st != ST_OK)
		api_refuse(a, st, STR(""));
	else
		api_succeed(a, json_pack("{s:b,s:I}", "ok", 1, "handle",
					 (json_int_t)handle));
}

static void
begun(struct admin_conn *a, enum status st, const char *why)
{
	a->is_asked = st == ST_OK;
	if (st != ST_OK)
		api_refuse(a, st, str_from(why));
}

static enum status
read_sources(const struct admin_conn *a, struct addr *ret_sources, size_t *ret_n)
{
	const json_t *all = json_object_get(a->request, "sources"), *one;
	size_t i;

	if (json_array_size(all) == 0 || json_array_size(all) > ENROLL_SOURCES)
		return ST_BAD_REQUEST;
	json_array_foreach(all, i, one)
	{
		if (!json_is_string(one) ||
		    !addr_parse(str_of(json_string_value(one), json_string_length(one)),
				&ret_sources[i]))
			return ST_BAD_REQUEST;
	}
	*ret_n = i;
	return ST_OK;
}

/* Whoever writes it by hand is told what is no rule, before it refuses everything. */
static enum status
read_narrow(const struct admin_conn *a, struct str *ret_text, bool *ret_is_there)
{
	const json_t *j = json_object_get(a->request, "narrow");

	*ret_is_there = j != NULL && !json_is_null(j);
	*ret_text = api_text(a, "narrow");
	return !*ret_is_there || (json_is_string(j) && narrow_is_text(*ret_text))
		       ? ST_OK
		       : ST_BAD_REQUEST;
}

/* A narrowing as OpenSandbox writes it; the text is the request's. */
static enum status
read_network_policy(struct admin_conn *a, struct str *ret_text, struct buf *why)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	json_t *policy = NULL;
	struct str text = STR("");
	enum status st = netpolicy_read(json_object_get(a->request, "networkPolicy"),
					&policy, why);

	if (st != ST_OK)
		return st;
	buf_init(&b, NARROW_TEXT_MAX);
	netpolicy_put_narrow(&b, policy);
	json_decref(policy);
	st = buf_finish(&b, &text);
	*ret_text = arena_copy(&a->arena, text);
	return st == ST_OK && ret_text->p == NULL ? ST_NOMEM : st;
}

static void
begin(struct admin_conn *a, const struct enroll_wish *w)
{
	enum status st = enroll_begin(a->control, w, on_done, a);

	begun(a, st,
	      st == ST_CONFLICT ? "the id or an address is another sandbox's"
	      : st == ST_BAD_PARAMETER
		      ? "the id is no name, a field is too long, or an "
			"address is none of a sandbox"
		      : "");
}

void
api_register(struct admin_conn *a)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	struct addr sources[ENROLL_SOURCES];
	struct str narrow;
	bool is_narrowed;
	struct enroll_wish w = {
		.id = api_text(a, "id"),
		.user = api_text(a, "user"),
		.agent = api_text(a, "agent"),
		.session = api_text(a, "session"),
		.policy = api_text(a, "policy"),
		.trusts_ca = json_is_true(json_object_get(a->request, "trusts_ca")),
		.sources = sources,
	};

	buf_init(&why, 512);
	if (read_sources(a, sources, &w.sources_n) != ST_OK) {
		api_refuse(a, ST_BAD_REQUEST, STR("sources: 1 to 8 plain addresses"));
		return;
	}
	if (read_narrow(a, &narrow, &is_narrowed) != ST_OK) {
		api_refuse(a, ST_BAD_REQUEST, STR("narrow: not of its form"));
		return;
	}
	if (json_object_get(a->request, "networkPolicy") != NULL) {
		enum status st = read_network_policy(a, &narrow, &why);

		if (st != ST_OK) {
			api_refuse(a, st, str_of(why.p, why.len));
			return;
		}
		is_narrowed = true;
	}
	w.narrow = is_narrowed ? &narrow : NULL;
	begin(a, &w);
}

void
api_narrow(struct admin_conn *a)
{
	struct str narrow;
	bool is_narrowed;

	if (read_narrow(a, &narrow, &is_narrowed) != ST_OK) {
		api_refuse(a, ST_BAD_REQUEST, STR("narrow: not of its form"));
		return;
	}
	begun(a,
	      enroll_narrow(a->control, api_text(a, "id"), is_narrowed ? &narrow : NULL,
			    on_done, a),
	      "");
}

void
api_unregister(struct admin_conn *a)
{
	begun(a, enroll_end(a->control, api_text(a, "id"), on_done, a), "");
}
