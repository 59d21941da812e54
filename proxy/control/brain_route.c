/* Where requests to a sandbox go: the endpoint that callers are told, which is ours, and the
 * one behind it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/io/sock.h"

/* The server is asked where a port answers; then `got` comes. */
static void
ask_endpoint(struct brain_turn *t, uint16_t port, brain_got_fn got)
{
	char rest[64];

	(void)snprintf(rest, sizeof rest, "/endpoints/%u", port);
	struct brain_call w = { .server = t->box.server,
				.method = "GET",
				.target = brain_target(&t->arena, t->box.upstream,
						       rest) };
	brain_call(t, &w, got);
}

/* Takes in what it says.  False: the turn is over. */
static bool
take_endpoint(struct brain_turn *t, const struct call_got *got)
{
	json_t *said = NULL;
	enum status st;

	brain_server_told(t->brain, t->box.server, got);
	if (!brain_got_object(got, &said)) {
		brain_answer_unread(t, got);
		return false;
	}
	st = brain_endpoint_take(t->brain, &t->box, t->wish.port, said);
	json_decref(said);
	if (st == ST_OK)
		return true;
	brain_refuse(t, st,
		     st == ST_DENIED ? STR("the server names an endpoint outside its "
					   "`endpoints`")
				     : STR("the server names no endpoint"));
	return false;
}

/* What callers are told. */

static bool
read_expires(const struct brain_turn *t, uint64_t *ret_s)
{
	uint64_t now = brain_now_s();
	const struct image *im = t->brain->control->role.image;
	uint64_t last = now + image_number(im, OPT_EXEC_MAX_TIMEOUT) / 1000;

	*ret_s = last;
	if (t->wish.expires.n == 0)
		return true;
	if (t->wish.use_server_proxy ||
	    !num_parse_strict(t->wish.expires, UINT32_MAX, ret_s) || *ret_s <= now)
		return false;
	if (*ret_s > last)
		*ret_s = last;
	return true;
}

static void
endpoint_answer(struct brain_turn *t)
{
	CLEANUP(buf_done) struct buf text = { 0 }, token = { 0 };
	struct capability c = { .principal = &t->who,
				.sandbox = t->box.id,
				.port = t->wish.port };
	json_t *body;

	if (!read_expires(t, &c.expires_s)) {
		brain_answer_error(
			t, 400, "SANDBOX::INVALID_PARAMETER",
			"expires is no time in the future in seconds, or came "
			"with use_server_proxy.");
		return;
	}
	buf_init(&text, 1024);
	buf_put(&text, t->wish.authority);
	buf_put(&text, t->wish.is_v1 ? STR("/v1") : STR(""));
	buf_put(&text, STR("/sandboxes/"));
	buf_put(&text, t->box.id);
	buf_putf(&text, "/proxy/%u", t->wish.port);
	buf_init(&token, CAPABILITY_MAX);
	keys_put_capability(t->brain->control->keys, &token, &c);
	if (text.st != ST_OK || token.st != ST_OK) {
		brain_refuse(t, ST_TOO_BIG, STR(""));
		return;
	}
	body = json_pack("{s:o, s:{s:o}}", "endpoint", json_stringn(text.p, text.len),
			 "headers", "X-Sandgate-Capability",
			 json_stringn(token.p, token.len));
	if (body == NULL)
		brain_refuse(t, ST_NOMEM, STR(""));
	else
		brain_answer(t, 200, body);
}

static void
endpoint_told(struct brain_turn *t, const struct call_got *got)
{
	if (take_endpoint(t, got))
		endpoint_answer(t);
}

/* The egress API is ours; and what doesn't run now will have an endpoint when it is used. */
void
brain_endpoint(struct brain_turn *t)
{
	if (t->box.state == BRAIN_FAILED || t->box.state == BRAIN_KILLING) {
		brain_answer_missing(t);
		return;
	}
	if (t->wish.port == EXEC_PORT_EGRESS || t->box.state != BRAIN_RUNNING ||
	    brain_endpoint_find(t->brain, t->box.id, t->wish.port) != NULL)
		endpoint_answer(t);
	else
		ask_endpoint(t, t->wish.port, endpoint_told);
}

/* What is used: execd and applications. */

struct granting {                /* until the dialer knows */
	struct brain_turn *turn; /* NULL: it has ended */
};

static void
granting_done(void *state)
{
	struct granting *g = state;

	g->turn = NULL; /* the dialer's answer frees it */
}

static void exec_again(struct brain_turn *t);

static void
route(struct brain_turn *t)
{
	const struct brain_endpoint *e =
		brain_endpoint_find(t->brain, t->box.id, t->wish.port);
	struct brain_ticket ticket = { .line = t->line,
				       .number = t->wish.ticket,
				       .who = t->who,
				       .began_s = brain_now_s() };
	struct place_answer a = { 0 };
	enum status st;

	/* It was unused until now: perhaps it is just being put to sleep. */
	if (brain_turn_wait(t, exec_again))
		return;
	if (e == NULL && ++t->looks <= BRAIN_LOOKS) {
		exec_again(t); /* forgotten while the dialer was told */
		return;
	}
	if (e == NULL || t->line == NULL) {
		brain_refuse(t, ST_CONFLICT, STR("it was changed meanwhile"));
		return;
	}
	memcpy(ticket.id, t->box.id.p, num_min(t->box.id.n, BRAIN_ID));
	/* A ticket is the last that may fail: nobody gives back one that isn't answered. */
	st = t->box.used_s < ticket.began_s
		     ? brain_store_touch(t->brain->store, t->box.id, ticket.began_s)
		     : ST_OK;
	if (st == ST_OK)
		st = brain_ticket_add(t->brain, &ticket);
	if (st != ST_OK) {
		brain_refuse(t, st, STR(""));
		return;
	}
	brain_used(t->brain, &t->box);
	a.host = arena_copy(&t->arena, e->host);
	a.prefix = arena_copy(&t->arena, e->prefix);
	a.port = e->at_port;
	for (a.fields_n = 0; a.fields_n < e->fields_n; a.fields_n++) {
		a.fields[a.fields_n].name =
			arena_copy(&t->arena, e->fields[a.fields_n].name);
		a.fields[a.fields_n].value =
			arena_copy(&t->arena, e->fields[a.fields_n].value);
	}
	a.keeps_login = t->wish.op == EXEC_OP_APP &&
			!keys_has_bearer(t->brain->control->keys, &t->wish) &&
			exec_login_goes_on(t->brain->control->role.image, t->wish.port);
	if (t->wish.op == EXEC_OP_CODE_RUN)
		a.language = brain_context_language(t->brain, t->box.id, t->wish.id);
	brain_route(t, &a);
}

static void
granted(void *ctx, enum status st, struct ask_msg *m)
{
	struct granting *g = ctx;
	struct brain_turn *t = g->turn;
	struct wire w = wire_from(st == ST_OK ? m->body : STR(""));
	uint16_t told = wire_u16(&w);

	if (st == ST_OK)
		st = w.is_bad || told >= ST_COUNT ? ST_BAD_MESSAGE : (enum status)told;
	free(g);
	if (t == NULL)
		return;
	t->state = NULL;
	t->state_done = NULL;
	if (st == ST_OK)
		route(t);
	else
		brain_refuse(t, st == ST_END ? ST_NO_DIALER : st, STR(""));
}

static enum status
ask_dialer(struct brain_turn *t, const struct brain_endpoint *e, struct granting *g)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct ask_line *dialer = t->brain->control->dialer;
	struct str body = STR("");
	uint64_t cookie = 0;
	enum status st = t->fd < 0 ? ST_BAD_MESSAGE : sock_cookie(t->fd, &cookie);

	if (st == ST_OK && dialer == NULL)
		st = ST_NO_DIALER;
	buf_init(&b, ask_rule(ASK_GRANT_REACH)->size);
	buf_put_u64(&b, cookie);
	wire_put_str(&b, t->box.server);
	wire_put_str(&b, e->host);
	buf_put_u16(&b, e->at_port);
	if (st == ST_OK)
		st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_call(dialer, ASK_GRANT_REACH, ASK_LOAD(body, NULL, 0), granted,
			      g, NULL);
	return st;
}

/* The dialer must know it before the worker can ask. */
static void
grant(struct brain_turn *t, const struct brain_endpoint *e)
{
	struct granting *g = calloc(1, sizeof *g);
	enum status st = g == NULL ? ST_NOMEM : ask_dialer(t, e, g);

	if (st != ST_OK) {
		free(g);
		brain_refuse(t, st, STR(""));
		return;
	}
	g->turn = t;
	t->state = g;
	t->state_done = granting_done;
}

static void
exec_told(struct brain_turn *t, const struct call_got *got)
{
	if (take_endpoint(t, got))
		grant(t, brain_endpoint_find(t->brain, t->box.id, t->wish.port));
}

static void
exec_again(struct brain_turn *t)
{
	if (brain_look(t))
		brain_exec(t);
}

/* Woken if it sleeps: its caller needs not know. */
void
brain_exec(struct brain_turn *t)
{
	const struct brain_endpoint *e =
		brain_endpoint_find(t->brain, t->box.id, t->wish.port);

	if (t->box.state == BRAIN_PENDING || t->box.state == BRAIN_PLACING) {
		brain_refuse(t, ST_SANDBOX_PENDING,
			     t->box.state == BRAIN_PENDING ? STR("awaiting_approval")
							   : STR("it is being made"));
		return;
	}
	if (t->box.state == BRAIN_FAILED || t->box.state == BRAIN_KILLING) {
		brain_answer_missing(t);
		return;
	}
	if (brain_turn_wait(t, exec_again))
		return;
	/* It may have been started anew by another hand, on other ports. */
	if (e != NULL && e->since_s + BRAIN_ENDPOINT_S < brain_now_s()) {
		brain_endpoints_forget(t->brain, t->box.id);
		e = NULL;
	}
	if (t->box.state != BRAIN_RUNNING)
		brain_turn_job(t, BRAIN_RESUME, exec_again);
	else if (e != NULL)
		grant(t, e);
	else
		ask_endpoint(t, t->wish.port, exec_told);
}
