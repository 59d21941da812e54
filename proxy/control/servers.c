/* The execution servers: does each answer, and take our key?  Asked at once, all together.
 * And is what runs on their networks known by its addresses? */
#include <stdlib.h>
#include <string.h>

#include "conf/exec.h"
#include "conf/policy.h"
#include "proxy/control/brain_server.h"
#include "proxy/control/call.h"
#include "proxy/control/pin.h"

enum { CALL_MS = 5000, LOOK_MAX = 64 * 1024 };

struct server_look { /* one server */
	struct servers_look *all;
	struct call *call;
	struct str name; /* of copy */
	char copy[STR_NAME_MAX];
	enum exec_tier tier;
	uint64_t since_ms, ms;
	enum status st;
	bool is_healthy;   /* what is asked now is about the key */
	int64_t sandboxes; /* -1: not told */
};

struct servers_look {
	struct control *control;
	struct admin_conn *conn;
	size_t open, n;
	struct server_look of[];
};

/* The answer. */

/* By what the configuration says now: a server may be gone from it. */
static void
add_network(const struct server_look *s, json_t *to)
{
	const struct control *c = s->all->control;
	const struct image *im = c->role.image;
	const struct image_exec_server *of = image_exec_server_by_name(im, s->name);
	struct str name = of == NULL ? STR("") : image_str(im, of->network);
	enum status st = ST_OK;
	size_t n;

	if (name.n == 0 || c->brain == NULL)
		return;
	n = brain_server_unbound_n(c->brain, s->name, &st);
	(void)json_object_set_new(to, "network", json_stringn(name.p, name.n));
	(void)json_object_set_new(to, "pinned", json_boolean(pin_is_on(c)));
	(void)json_object_set_new(to, "unbound", json_integer((json_int_t)n));
	if (n > 0)
		(void)json_object_set_new(to, "unbound_code",
					  json_string(status_code(st)));
}

static json_t *
describe(const struct server_look *s)
{
	json_t *j = json_pack("{s:o,s:s,s:b,s:s,s:s,s:I}", "name",
			      json_stringn(s->name.p, s->name.n), "tier",
			      exec_tier_word(s->tier), "ok", s->st == ST_OK, "code",
			      status_code(s->st), "message",
			      s->st == ST_OK ? "" : status_words(s->st)->sentence, "ms",
			      (json_int_t)s->ms);

	if (s->sandboxes >= 0)
		(void)json_object_set_new(j, "sandboxes", json_integer(s->sandboxes));
	add_network(s, j);
	return j;
}

static void
finish(struct servers_look *all)
{
	json_t *list = json_array();

	if (all->control->brain != NULL)
		brain_servers_count(all->control->brain);
	for (size_t i = 0; i < all->n; i++)
		(void)json_array_append_new(list, describe(&all->of[i]));
	admin_answer(all->conn, 200, json_pack("{s:o}", "servers", list));
	/* Callers may still look at it. */
	loop_defer(all->control->loop, free, all);
}

static void
server_end(struct server_look *s, enum status st)
{
	s->st = st;
	s->ms = loop_now_ms(s->all->control->loop) - s->since_ms;
	if (--s->all->open == 0)
		finish(s->all);
}

/* What a server says. */

static enum status
judge_health(const struct call_got *got)
{
	return got->http == 200 ? ST_OK : ST_UPSTREAM_BAD;
}

static enum status
judge_list(struct server_look *s, const struct call_got *got)
{
	if (got->http == 401 || got->http == 403)
		return ST_SERVER_KEY;
	json_t *list = got->http != 200 || got->body.n == 0
			       ? NULL
			       : json_loadb(got->body.p, got->body.n,
					    JSON_REJECT_DUPLICATES, NULL);
	const json_t *total =
		json_object_get(json_object_get(list, "pagination"), "totalItems");
	bool is_list = json_is_array(json_object_get(list, "items"));

	if (json_is_integer(total))
		s->sandboxes = json_integer_value(total);
	json_decref(list);
	return is_list ? ST_OK : ST_UPSTREAM_BAD;
}

static void ask(struct server_look *s);

static void
told(void *ctx, const struct call_got *got)
{
	struct server_look *s = ctx;
	enum status st = got->st;

	s->call = NULL;
	if (st == ST_OK)
		st = s->is_healthy ? judge_list(s, got) : judge_health(got);
	if (st != ST_OK || s->is_healthy) {
		server_end(s, st);
		return;
	}
	s->is_healthy = true;
	ask(s);
}

/* Health needs no key, so the second one tells whether ours is good. */
static void
ask(struct server_look *s)
{
	const struct call_wish wish = {
		.connector = s->name,
		.method = STR("GET"),
		.target = s->is_healthy ? STR("/v1/sandboxes?pageSize=1")
					: STR("/health"),
		.deadline_ms = CALL_MS,
		.answer_max = LOOK_MAX,
	};
	enum status st = call_begin(s->all->control, &wish, told, s, &s->call);

	if (st != ST_OK)
		server_end(s, st);
}

static void
begin(struct server_look *s, const struct image *im, const struct image_exec_server *of)
{
	struct str name = str_head(image_str(im, of->name), sizeof s->copy);

	if (name.n > 0)
		memcpy(s->copy, name.p, name.n);
	s->name = str_of(s->copy, name.n);
	s->tier = (enum exec_tier)of->tier;
	s->sandboxes = -1;
	s->since_ms = loop_now_ms(s->all->control->loop);
	ask(s);
}

void
api_servers(struct admin_conn *a)
{
	const struct image *im = a->control->role.image;
	size_t n;
	const struct image_exec_server *of = image_exec_servers(im, &n);
	struct servers_look *all = calloc(1, sizeof *all + n * sizeof all->of[0]);

	if (all == NULL) {
		api_refuse(a, ST_NOMEM, STR(""));
		return;
	}
	*all = (struct servers_look){ .control = a->control, .conn = a };
	a->is_asked = true;
	all->n = n;
	all->open = n + 1; /* this one, so that none is the last one too early */
	for (size_t i = 0; i < n; i++) {
		all->of[i].all = all;
		begin(&all->of[i], im, &of[i]);
	}
	if (--all->open == 0)
		finish(all);
}
