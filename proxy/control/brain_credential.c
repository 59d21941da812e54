/*
 * credential-vault of the egress API.  A sandbox has no vault of its own: what a caller brings
 * goes into the gateway's, as the user's own secret of the connector that the operator has
 * made for those hosts (its `secret` holds {user}).  So a binding is good only where such a
 * connector is, shows its credential in that way, and its policy lists it: else 412.  Which
 * methods and paths may be called is the connector's to say.
 *
 * One change of a sandbox's at a time: who comes meanwhile waits, and is read by what there is
 * then.  So of two that expect the same revision one is refused, before the keeper is asked.
 *
 * Of a value nothing is kept here, and nothing comes back: names, and revisions for who
 * changes them.  Those are forgotten when control starts anew, as a sidecar does.
 */
#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain_credential_in.h"
#include "proxy/io/memfd.h"
#include "proxy/io/sock.h"
#include "proxy/io/vault_op.h"

struct brain_vault {                    /* of one sandbox */
	json_t *credentials, *bindings; /* name -> object; NULL: the first is coming */
	json_int_t revision;
	const struct change *changing; /* or NULL */
	struct list waits;             /* of turns, for its end */
	struct loop_timer over; /* it has ended: they are told, not from inside */
};

struct keeping {                 /* the keeper is asked */
	struct brain_turn *turn; /* NULL: it has ended */
};

/* What is there. */

static void
vault_free(struct brain_vault *v)
{
	if (v == NULL)
		return;
	while (list_pop(&v->waits) != NULL)
		;
	loop_timer_clear(&v->over);
	json_decref(v->credentials);
	json_decref(v->bindings);
	free(v);
}

/* In the order in which they came.  The first may begin to change it: others wait again. */
static void
tell_waiting(struct brain_vault *v)
{
	struct list told;
	struct list *link;

	list_init(&told);
	while ((link = list_pop(&v->waits)) != NULL)
		list_append(&told, link);
	while ((link = list_pop(&told)) != NULL) {
		struct brain_wait *w = LIST_OF(link, struct brain_wait, link);

		w->fn(w->ctx, ST_OK, NULL);
	}
}

void
brain_vault_forget(struct brain *b, struct str id)
{
	struct brain_vault *v = map_take(&b->vaults, id);

	if (v == NULL)
		return;
	tell_waiting(v);
	vault_free(v);
}

void
brain_vaults_close(struct brain *b)
{
	struct str key;
	void *value;

	for (size_t at = 0; map_next(&b->vaults, &at, &key, &value);)
		vault_free(value);
	map_done(&b->vaults);
}

static void
say(struct brain_turn *t, uint16_t http, const char *text)
{
	brain_answer_text(t, http, STR("text/plain; charset=utf-8"), str_from(text));
}

static json_t *
list_of(const json_t *all)
{
	json_t *o = (json_t *)(uintptr_t)all; /* Jansson's iterator changes nothing */
	json_t *list = json_array();

	for (void *it = json_object_iter(o); it != NULL;
	     it = json_object_iter_next(o, it))
		(void)json_array_append(list, json_object_iter_value(it));
	return list;
}

static void
answer_state(struct brain_turn *t, uint16_t http, const struct brain_vault *v)
{
	bool has_credentials = t->wish.op != EXEC_OP_BINDING_LIST;
	bool has_bindings = t->wish.op != EXEC_OP_CREDENTIAL_LIST;
	json_t *body = json_object();

	(void)json_object_set_new(body, "revision", json_integer(v->revision));
	if (has_credentials)
		(void)json_object_set_new(body, "credentials", list_of(v->credentials));
	if (has_bindings)
		(void)json_object_set_new(body, "bindings", list_of(v->bindings));
	brain_answer(t, http, body);
}

static void
answer_one(struct brain_turn *t, const json_t *all)
{
	json_t *one = json_object_getn(all, t->wish.id.p, t->wish.id.n);

	if (one == NULL)
		say(t, 404, "no credential or binding of this name is there");
	else
		brain_answer(t, 200, json_incref(one));
}

/* A change. */

static void
on_over(void *ctx)
{
	tell_waiting(ctx);
}

/* Whoever waits may go on; of a first one that came to nothing, nothing stays. */
static void
let_go(const struct change *c)
{
	struct brain_vault *v;

	if (c->brain == NULL)
		return;
	v = map_get(&c->brain->vaults, str_from(c->id));
	if (v == NULL || v->changing != c)
		return;
	v->changing = NULL;
	if (v->credentials == NULL && list_is_empty(&v->waits))
		vault_free(map_take(&c->brain->vaults, str_from(c->id)));
	else
		loop_timer_set(&v->over, 0);
}

static struct brain_vault *
vault_new(struct brain *b, struct str id)
{
	struct brain_vault *v = calloc(1, sizeof *v);

	if (v == NULL)
		return NULL;
	list_init(&v->waits);
	loop_timer_init(&v->over, b->control->loop, on_over, v);
	if (map_put(&b->vaults, id, v) == ST_OK)
		return v;
	free(v);
	return NULL;
}

/* Nobody else changes it until let_go(). */
static enum status
take_hold(struct brain_turn *t, struct change *c)
{
	struct brain_vault *v = map_get(&t->brain->vaults, t->box.id);

	if (v == NULL)
		v = vault_new(t->brain, t->box.id);
	if (v == NULL)
		return ST_NOMEM;
	v->changing = c;
	c->brain = t->brain;
	memcpy(c->id, t->box.id.p, num_min(t->box.id.n, STR_NAME_MAX));
	return ST_OK;
}

static void
change_done(void *state)
{
	struct change *c = state;
	const char *key;
	json_t *v;

	let_go(c);

	json_object_foreach(c->values, key, v) explicit_bzero(
		(char *)(uintptr_t)json_string_value(v), json_string_length(v));
	json_decref(c->values);
	json_decref(c->credentials);
	json_decref(c->bindings);
	if (c->keeping != NULL)
		c->keeping->turn = NULL;
	*c = (struct change){ 0 };
}

/* The keeper's part. */

static void put_next(struct brain_turn *t);

static void
all_kept(struct brain_turn *t)
{
	struct change *c = t->state;
	struct brain_vault *v = map_get(&t->brain->vaults, t->box.id);

	/* Its sandbox was ended meanwhile. */
	if (v == NULL || v->changing != c) {
		brain_answer_missing(t);
		return;
	}
	json_decref(v->credentials);
	json_decref(v->bindings);
	v->credentials = json_incref(c->credentials);
	v->bindings = json_incref(c->bindings);
	v->revision = c->revision;
	answer_state(t, c->http, v);
}

static void
revoked(void *ctx)
{
	(void)ctx; /* leases of the version before are gone; nobody waits for it */
}

static void
kept(void *ctx, enum status st, struct ask_msg *m)
{
	struct keeping *k = ctx;
	struct brain_turn *t = k->turn;
	struct wire w = wire_from(st == ST_OK ? m->body : STR(""));
	uint16_t told = wire_u16(&w);

	if (st == ST_OK)
		st = w.is_bad || told >= ST_COUNT ? ST_BAD_MESSAGE : (enum status)told;
	free(k);
	if (t == NULL)
		return;
	struct change *c = t->state;
	c->keeping = NULL;
	if (st == ST_CONFLICT && !c->is_rotating) {
		c->is_rotating = true;
		put_next(t);
		return;
	}
	if (st != ST_OK) {
		brain_refuse(t, st == ST_END ? ST_NO_KEEPER : st, STR(""));
		return;
	}
	st = revoke_begin(t->brain->control, str_from(t->who.tenant),
			  c->puts[c->at].secret, revoked, NULL);
	if (st != ST_OK)
		log_error(&t->brain->control->role.log,
			  "connectors were not told to forget: %s", status_code(st));
	c->is_rotating = false;
	c->at++;
	put_next(t);
}

static enum status
ask_keeper(struct brain_turn *t, const struct put *p, struct keeping *k)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct change *c = t->state;
	struct vault_ask ask = { .op = c->is_rotating ? VAULT_OP_ROTATE : VAULT_OP_PUT,
				 .name = p->secret,
				 .tenant = str_from(t->who.tenant) };
	struct str body;
	int fd;
	enum status st;

	if (t->brain->control->keeper == NULL)
		return ST_NO_KEEPER;
	if (!c->is_rotating) {
		ask.connector = p->connector;
		ask.user = p->user;
		ask.kind = VAULT_TEXT;
	}
	buf_init(&b, VAULT_ASK_MAX);
	vault_ask_put(&b, &ask);
	st = buf_finish(&b, &body);
	/* The keeper would hang up on what it can't read. */
	if (st == ST_OK && vault_ask_get(body, &ask) != ST_OK)
		st = ST_BAD_PARAMETER;
	if (st != ST_OK)
		return st;
	fd = memfd_sealed("secret", p->value);
	if (fd < 0)
		return ST_NO_FILES;
	st = ask_call(t->brain->control->keeper, ASK_VAULT, ASK_LOAD(body, &fd, 1),
		      kept, k, NULL);
	sock_close_passed(fd);
	return st;
}

static void
put_next(struct brain_turn *t)
{
	struct change *c = t->state;
	struct keeping *k;
	enum status st;

	if (c->at == c->puts_n) {
		all_kept(t);
		return;
	}
	k = calloc(1, sizeof *k);
	st = k == NULL ? ST_NOMEM : ask_keeper(t, &c->puts[c->at], k);
	if (st != ST_OK) {
		free(k);
		brain_refuse(t, st, STR(""));
		return;
	}
	k->turn = t;
	c->keeping = k;
}

/* The routes. */

static void
change_vault(struct brain_turn *t, const struct brain_vault *v)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	struct change *c = arena_alloc(&t->arena, sizeof *c);
	bool is_new = t->wish.op == EXEC_OP_VAULT_CREATE;
	enum status st;

	if (c == NULL) {
		brain_refuse(t, ST_NOMEM, STR(""));
		return;
	}
	t->state = c;
	t->state_done = change_done;
	c->credentials = v == NULL ? json_object() : json_deep_copy(v->credentials);
	c->bindings = v == NULL ? json_object() : json_deep_copy(v->bindings);
	c->values = json_object();
	c->revision = v == NULL ? 1 : v->revision + 1;
	c->http = is_new ? 201 : 200;
	buf_init(&why, 512);
	st = binding_read(t, &why);
	if (st == ST_OK)
		st = take_hold(t, c);
	if (st == ST_OK)
		put_next(t);
	else if (st == ST_DENIED)
		say(t, 412, buf_cstr(&why));
	else if (st == ST_CONFLICT)
		say(t, 409,
		    "a name to add is there already, or one to replace isn't: read "
		    "the vault anew");
	else if (st == ST_BAD_PARAMETER)
		say(t, 400, buf_cstr(&why));
	else
		brain_refuse(t, st, STR(""));
}

static void
patch(struct brain_turn *t, const struct brain_vault *v)
{
	const json_t *expected = json_object_get(t->body, "expectedRevision");
	bool is_said = expected != NULL && !json_is_null(expected);

	if (is_said && !json_is_integer(expected))
		say(t, 400, "expectedRevision is no whole number");
	else if (is_said && json_integer_value(expected) != v->revision)
		say(t, 409,
		    "the revision is another than expectedRevision: read the vault "
		    "anew");
	else
		change_vault(t, v);
}

/* Another change is over. */
static void
again(void *ctx, enum status st, const struct call_got *got)
{
	struct brain_turn *t = ctx;

	(void)st;
	(void)got;
	if (brain_look(t))
		brain_credentials(t);
}

static bool
waits_for_another(struct brain_turn *t, struct brain_vault *v)
{
	int op = t->wish.op;

	if (v == NULL || v->changing == NULL ||
	    (op != EXEC_OP_VAULT_CREATE && op != EXEC_OP_VAULT_PATCH &&
	     op != EXEC_OP_VAULT_DELETE))
		return false;
	t->wait.fn = again;
	t->wait.ctx = t;
	list_append(&v->waits, &t->wait.link);
	return true;
}

void
brain_credentials(struct brain_turn *t)
{
	struct brain_vault *v = map_get(&t->brain->vaults, t->box.id);
	int op = t->wish.op;

	if (waits_for_another(t, v))
		return;
	if (v != NULL && v->credentials == NULL)
		v = NULL;
	if (op == EXEC_OP_VAULT_CREATE && v != NULL)
		say(t, 409,
		    "this sandbox has a credential vault already: PATCH changes it");
	else if (op == EXEC_OP_VAULT_CREATE)
		change_vault(t, NULL);
	else if (v == NULL)
		say(t, 404, "this sandbox has no credential vault: POST makes one");
	else if (op == EXEC_OP_VAULT_PATCH)
		patch(t, v);
	else if (op == EXEC_OP_CREDENTIAL_GET)
		answer_one(t, v->credentials);
	else if (op == EXEC_OP_BINDING_GET)
		answer_one(t, v->bindings);
	else if (op == EXEC_OP_VAULT_DELETE) {
		brain_vault_forget(t->brain, t->box.id);
		brain_answer(t, 204, NULL);
	} else
		answer_state(t, 200, v);
}
