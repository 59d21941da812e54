/* What operators ask about approvals. */
#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "proxy/control/approval_in.h"

enum {
	LIST_MAX = 500,
	LIST_TEXT = 512, /* of each text in a list */
	LIST_ROOM = 3 * 1024 * 1024,
	GRANT_S = 30 * 86400, /* how long a grant lives that nobody says more of */
	GRANT_SESSION_S = 86400,
	GRANT_MAX_S = 366 * 86400,
};

static struct approvals *
all_of(const struct admin_conn *a)
{
	return a->control->approvals;
}

/* "12" as lists have it, or 13 letters and digits as rows of workers do; 0: none. */
static uint64_t
number_of(const struct admin_conn *a)
{
	struct str name = api_text(a, "name");
	uint64_t v = 0;

	if (num_parse_strict(name, INT64_MAX, &v))
		return v;
	return enc_get_id(name, &v) && v <= INT64_MAX ? v : 0;
}

static void
answer(struct admin_conn *a, enum status st, const struct buf *b)
{
	struct str text;

	if (st == ST_OK)
		st = buf_finish(b, &text);
	json_t *body = st == ST_OK ? json_loadb(text.p, text.n, 0, NULL) : NULL;
	if (body != NULL)
		api_succeed(a, body);
	else
		api_refuse(a, st == ST_OK ? ST_NOMEM : st, STR(""));
}

/* What is there. */

struct listing {
	struct buf b;
	size_t n;
};

static void
separate(struct listing *l)
{
	if (l->n++ > 0)
		buf_putc(&l->b, ',');
}

static bool
put_row(void *ctx, const struct approval_row *r)
{
	struct listing *l = ctx;

	separate(l);
	approval_put_json(&l->b, r, LIST_TEXT);
	return l->n < LIST_MAX;
}

static bool
put_whole(void *ctx, const struct approval_row *r)
{
	struct listing *l = ctx;

	approval_put_json(&l->b, r, APPROVALS_TEXT_MAX);
	return true;
}

static bool
put_grant(void *ctx, const struct approval_grant *g)
{
	struct listing *l = ctx;

	separate(l);
	approval_put_grant_json(&l->b, g);
	return l->n < LIST_MAX;
}

static void
list(struct admin_conn *a)
{
	bool is_all = json_is_true(json_object_get(a->request, "all"));
	struct listing l = { .n = 0 };

	buf_init(&l.b, LIST_ROOM);
	buf_put(&l.b, STR("{\"approvals\":["));
	enum status st = approval_store_each(all_of(a)->store, is_all, put_row, &l);
	buf_put(&l.b, STR("]}"));
	answer(a, st, &l.b);
	buf_done(&l.b);
}

static void
show(struct admin_conn *a)
{
	struct listing l = { .n = 0 };

	buf_init(&l.b, LIST_ROOM);
	enum status st =
		approval_store_find(all_of(a)->store, number_of(a), put_whole, &l);
	answer(a, st, &l.b);
	buf_done(&l.b);
}

static void
grants(struct admin_conn *a)
{
	struct listing l = { .n = 0 };

	buf_init(&l.b, LIST_ROOM);
	buf_put(&l.b, STR("{\"grants\":["));
	enum status st = approval_store_grants(all_of(a)->store, approvals_now_s(),
					       put_grant, &l);
	buf_put(&l.b, STR("]}"));
	answer(a, st, &l.b);
	buf_done(&l.b);
}

/* What is decided. */

static bool
look_at_session(void *ctx, const struct approval_row *r)
{
	*(bool *)ctx = r->wish.session.n > 0;
	return true;
}

/* What the words say; a wider scope has an end. */
static enum status
read_scope(struct admin_conn *a, struct approval_end *e, struct str *ret_why)
{
	struct str word = api_text(a, "scope");
	const json_t *seconds = json_object_get(a->request, "seconds");
	json_int_t life = json_integer_value(seconds);
	bool has_session = true;

	if (word.n > 0 && !approval_scope_by_word(word, &e->scope)) {
		*ret_why = STR("scope is once, session or always");
		return ST_BAD_REQUEST;
	}
	if (seconds != NULL && (life < 1 || life > GRANT_MAX_S)) {
		*ret_why = STR("a grant lives one second to 366 days");
		return ST_BAD_REQUEST;
	}
	if (seconds != NULL && e->scope == APPROVAL_ONCE) {
		*ret_why = STR("only a scope of session or always has a time");
		return ST_BAD_REQUEST;
	}
	if (seconds == NULL)
		life = e->scope == APPROVAL_SESSION ? GRANT_SESSION_S : GRANT_S;
	e->expires_s = e->now_s + (uint64_t)life;
	if (e->scope != APPROVAL_SESSION)
		return ST_OK;
	enum status st = approval_store_find(all_of(a)->store, number_of(a),
					     look_at_session, &has_session);
	*ret_why = has_session ? STR("") : STR("it was asked outside of a session");
	return st == ST_OK && !has_session ? ST_CONFLICT : st;
}

static void
decide(struct admin_conn *a, enum approval_state to)
{
	struct approval_end e = { .state = to,
				  .by = str_from(a->name),
				  .note = api_text(a, "note"),
				  .now_s = approvals_now_s() };
	struct str why = STR("");
	enum status st = e.note.n > APPROVAL_NOTE_MAX ? ST_TOO_BIG : ST_OK;

	if (st == ST_OK && to == APPROVAL_ALLOWED)
		st = read_scope(a, &e, &why);
	if (st == ST_OK)
		st = approvals_decide(all_of(a), number_of(a), &e);
	if (st == ST_OK)
		api_succeed(a, json_pack("{s:b,s:s,s:s}", "ok", 1, "state",
					 approval_state_word(to), "by", a->name));
	else
		api_refuse(a, st, why);
}

static void
allow(struct admin_conn *a)
{
	decide(a, APPROVAL_ALLOWED);
}

static void
deny(struct admin_conn *a)
{
	decide(a, APPROVAL_DENIED);
}

static void
revoke(struct admin_conn *a)
{
	enum status st = approval_store_revoke(all_of(a)->store, number_of(a),
					       approvals_now_s());

	if (st == ST_OK)
		api_succeed(a, json_pack("{s:b}", "ok", 1));
	else
		api_refuse(a, st, STR(""));
}

void
api_approvals(struct admin_conn *a)
{
	static const struct {
		const char *word;
		void (*fn)(struct admin_conn *a);
	} verbs[] = {
		{ "approvals/list", list },     { "approvals/show", show },
		{ "approvals/allow", allow },   { "approvals/deny", deny },
		{ "approvals/grants", grants }, { "approvals/revoke", revoke },
	};

	if (all_of(a) == NULL) {
		api_refuse(a, ST_NOT_FOUND, STR("no execution requests are served"));
		return;
	}
	for (size_t i = 0; i < COUNT_OF(verbs); i++) {
		if (str_eq(str_from(a->word), str_from(verbs[i].word))) {
			verbs[i].fn(a);
			return;
		}
	}
	api_refuse(a, ST_NOT_FOUND, STR(""));
}
