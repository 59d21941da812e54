#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "conf/policy.h"
#include "proxy/base/num.h"
#include "proxy/control/approvals.h"
#include "proxy/control/keys.h"
#include "proxy/io/sock.h"

/* Small helpers. */

struct str
api_text(const struct admin_conn *a, const char *key)
{
	const json_t *j = json_object_get(a->request, key);

	return json_is_string(j) ? str_of(json_string_value(j), json_string_length(j))
				 : STR("");
}

bool
api_number(const struct admin_conn *a, const char *key, uint64_t max, uint64_t *ret_v)
{
	const json_t *j = json_object_get(a->request, key);
	json_int_t v = json_integer_value(j);

	if (j != NULL && (!json_is_integer(j) || v < 0 || (uint64_t)v > max))
		return false;
	*ret_v = (uint64_t)v;
	return true;
}

/* The wish, before anything is done: what can't be recorded isn't done.  Then, in the
 * same turn, what became of it. */
static enum status
record(struct admin_conn *a, enum status reason)
{
	struct row row = role_row_begin(&a->control->role, ROW_OPERATOR, NULL);
	struct str name = api_text(a, "name");
	char detail[256];
	int n = snprintf(detail, sizeof detail, "%s%s%.*s", a->word,
			 name.n > 0 ? " " : "", STR_ARG(str_head(name, 200)));

	row.listener = STR("admin");
	row.detail = str_of(detail, n < 0 ? 0 : num_min((size_t)n, sizeof detail - 1));
	row.reason = reason;
	row.sandbox = api_text(a, "id");
	row.user = str_from(a->name);
	if (a->wish != 0)
		row.turn = a->wish;
	a->wish = row.turn;
	return role_row(&a->control->role, &row);
}

static void
record_end(struct admin_conn *a, enum status reason)
{
	enum status st = a->wish == 0 ? ST_OK : record(a, reason);

	if (st != ST_OK)
		log_error(&a->control->role.log, "ledger row: %s", status_code(st));
}

void
api_refuse(struct admin_conn *a, enum status st, struct str text)
{
	record_end(a, st);
	admin_refuse(a, st, text);
}

static void
refuse(struct admin_conn *a, enum status st)
{
	api_refuse(a, st, STR(""));
}

void
api_succeed(struct admin_conn *a, json_t *body)
{
	record_end(a, ST_OK);
	admin_answer(a, 200, body);
}

static void
ask(struct admin_conn *a, enum ask which, struct str body, super_fn fn)
{
	enum status st = ask_super(
		a->control, which,
		ASK_LOAD(body, a->fds, which == ASK_ATTACH ? a->fds_n : 0), fn, a);

	a->is_asked = st == ST_OK;
	if (st != ST_OK)
		refuse(a, st == ST_AGAIN ? ST_LIMIT_RATE : st);
}

static enum status
told(struct wire *w)
{
	uint16_t st = wire_u16(w);

	return w->is_bad || st >= ST_COUNT ? ST_BAD_MESSAGE : (enum status)st;
}

/* What is only read. */

static void
status_told(void *ctx, enum status st, struct str body)
{
	struct admin_conn *a = ctx;
	json_t *all = st == ST_OK ? status_json(a->control, body) : NULL;

	if (all == NULL)
		refuse(a, st == ST_OK ? ST_NOMEM : st);
	else
		admin_answer(a, 200, all);
}

static void
api_status(struct admin_conn *a)
{
	ask(a, ASK_HEALTH, STR(""), status_told);
}

static void
api_sandboxes(struct admin_conn *a)
{
	admin_answer(a, 200, sandboxes_json(a->control));
}

/* Reload. */

static json_t *
lines_json(struct str text)
{
	json_t *all = json_array();

	while (text.n > 0) {
		struct str line = str_cut(&text, '\n');
		json_t *j = json_stringn(line.p, line.n);
		if (line.n > 0 && j != NULL)
			(void)json_array_append(all, j);
		json_decref(j);
	}
	return all;
}

static void
reload_told(void *ctx, enum status st, struct str body)
{
	struct admin_conn *a = ctx;
	struct wire w = wire_from(body);

	if (st == ST_OK)
		st = told(&w);
	uint64_t generation = wire_u64(&w);
	struct str text = wire_str(&w);
	if (st == ST_BAD_MESSAGE || w.is_bad) {
		refuse(a, ST_BAD_MESSAGE);
		return;
	}
	record_end(a, st);
	admin_answer(a, st == ST_OK ? 200 : 422,
		     json_pack("{s:b,s:s,s:I,s:o}", "ok", st == ST_OK, "code",
			       status_code(st), "generation", (json_int_t)generation,
			       "messages", lines_json(text)));
}

static void
api_reload(struct admin_conn *a)
{
	ask(a, ASK_RELOAD, STR(""), reload_told);
}

static void
shutdown_told(void *ctx, enum status st, struct str body)
{
	struct admin_conn *a = ctx;

	(void)body;
	if (st == ST_OK)
		api_succeed(a, json_pack("{s:b}", "ok", 1));
	else
		refuse(a, st);
}

static void
api_shutdown(struct admin_conn *a)
{
	ask(a, ASK_STOP, STR(""), shutdown_told);
}

/* Attach. */

/* All of them come from one namespace, which is not the gateway's own: else the whole
 * host would be that sandbox. */
static enum status
check_sockets(const struct admin_conn *a, uint64_t *ret_cookie)
{
	uint64_t first = 0, cookie;

	for (size_t i = 0; i < a->fds_n; i++) {
		if (sock_netns_cookie(a->fds[i], &cookie) != ST_OK)
			return ST_BAD_REQUEST;
		if (i > 0 && cookie != first)
			return ST_CONFLICT;
		first = cookie;
	}
	if (a->fds_n == 0)
		return ST_BAD_REQUEST;
	*ret_cookie = first;
	return first == a->control->own_netns ? ST_CONFLICT : ST_OK;
}

static enum status
check_names(const struct admin_conn *a)
{
	struct control *c = a->control;
	struct str id = api_text(a, "id");

	if (!str_is_name(id) || api_text(a, "user").n > 200 ||
	    api_text(a, "agent").n > 200 || api_text(a, "session").n > 200)
		return ST_BAD_REQUEST;
	if (image_policy_by_name(c->role.image, api_text(a, "policy")) == POLICY_NONE)
		return ST_NO_POLICY;
	return who_by_id(c->role.who, id) != NULL ? ST_CONFLICT : ST_OK;
}

/* "sockets": one word for each descriptor, joined with commas. */
static enum status
put_kinds(struct buf *b, const struct admin_conn *a)
{
	const json_t *kinds = json_object_get(a->request, "sockets"), *one;
	CLEANUP(buf_done) struct buf text = { 0 };
	struct str joined;
	size_t i;

	if (json_array_size(kinds) != a->fds_n)
		return ST_BAD_REQUEST;
	buf_init(&text, 256);
	json_array_foreach(kinds, i, one)
	{
		if (!json_is_string(one))
			return ST_BAD_REQUEST;
		buf_putf(&text, "%s%s", i > 0 ? "," : "", json_string_value(one));
	}
	if (buf_finish(&text, &joined) != ST_OK)
		return ST_BAD_REQUEST;
	wire_put_str(b, joined);
	return ST_OK;
}

static void
attach_told(void *ctx, enum status st, struct str body)
{
	struct admin_conn *a = ctx;
	struct wire w = wire_from(body);

	if (st == ST_OK)
		st = told(&w);
	uint32_t handle = wire_u32(&w);
	if (st != ST_OK)
		refuse(a, st);
	else
		api_succeed(a, json_pack("{s:b,s:I}", "ok", 1, "handle",
					 (json_int_t)handle));
}

static void
api_attach(struct admin_conn *a)
{
	static const char *const keys[] = { "id", "user", "agent", "session",
					    "policy" };
	CLEANUP(buf_done) struct buf b = { 0 };
	uint64_t cookie = 0;
	struct str body = STR("");
	enum status st = check_names(a);

	if (st == ST_OK)
		st = check_sockets(a, &cookie);
	buf_init(&b, 2048);
	buf_put_u32(&b, HANDLE_NONE);
	buf_put_u8(&b, 1);
	buf_put_u64(&b, cookie);
	for (size_t i = 0; i < COUNT_OF(keys); i++)
		wire_put_str(&b, api_text(a, keys[i]));
	buf_put_u8(&b, json_is_true(json_object_get(a->request, "trusts_ca")));
	if (st == ST_OK)
		st = put_kinds(&b, a);
	if (st == ST_OK)
		st = buf_finish(&b, &body);
	if (st == ST_OK)
		ask(a, ASK_ATTACH, body, attach_told);
	else
		refuse(a, st);
}

static void
detach_told(void *ctx, enum status st, struct str body)
{
	struct wire w = wire_from(body);

	shutdown_told(ctx, st == ST_OK ? told(&w) : st, body);
}

static void
api_detach(struct admin_conn *a)
{
	const struct who *w = who_by_id(a->control->role.who, api_text(a, "id"));
	CLEANUP(buf_done) struct buf b = { 0 };

	if (w == NULL || w->handle < HANDLE_ATTACHED) {
		refuse(a, ST_NOT_FOUND);
		return;
	}
	buf_init(&b, 16);
	buf_put_u32(&b, w->handle);
	ask(a, ASK_DETACH, str_of(b.p, b.len), detach_told);
}

/* The table. */

struct api {
	const char *method, *path;
	void (*fn)(struct admin_conn *a);
	bool is_recorded;
	enum admin_role role; /* the least that may */
};

enum { ROLE_FOR_GET = ADMIN_VIEWER, ROLE_FOR_POST = ADMIN_OPERATOR };

#define API_FOR(role, method, path, fn, recorded, what)                                \
	{ #method, path, api_##fn, recorded, ADMIN_##role },
#define API(method, path, fn, recorded, what)                                          \
	{ #method, path, api_##fn, recorded, (enum admin_role)ROLE_FOR_##method },
static const struct api apis[] = {
#include "proxy/control/api.def"
};
#undef API
#undef API_FOR

/* What came without enough of a role is recorded too, if the thing itself would be. */
static enum status
admit(struct admin_conn *a, const struct api *api)
{
	enum status st = api->is_recorded ? record(a, ST_AGAIN) : ST_OK;

	/* A gateway whose ledger is full must still be stoppable. */
	if (st != ST_OK && api->fn == api_shutdown)
		st = ST_OK;
	return st == ST_OK && a->role < api->role ? ST_ROLE_LOW : st;
}

void
api_request(struct admin_conn *a)
{
	enum status st = ST_NOT_FOUND;

	for (size_t i = 0; i < COUNT_OF(apis); i++) {
		const struct api *api = &apis[i];
		if (!str_eq(a->head.target, str_from(api->path)))
			continue;
		st = ST_METHOD_REFUSED;
		if (!str_eq(a->head.method, str_from(api->method)))
			continue;
		a->word = api->path + sizeof "/v1/" - 1;
		st = admit(a, api);
		if (st == ST_OK) {
			api->fn(a);
			return;
		}
		break;
	}
	refuse(a, st);
}
