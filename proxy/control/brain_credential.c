/*
 * credential-vault of the egress API.  A sandbox has no vault of its own: what a caller brings
 * goes into the gateway's, as the user's own secret of the connector that the operator has
 * made for those hosts (its `secret` holds {user}).  So a binding is good only where such a
 * connector is, shows its credential in that way, and its policy lists it: else 412.  Which
 * methods and paths may be called is the connector's to say.
 *
 * Of a value nothing is kept here, and nothing comes back: names, and revisions for who
 * changes them.  Those are forgotten when control starts anew, as a sidecar does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/http/dest.h"
#include "proxy/io/memfd.h"
#include "proxy/io/sock.h"
#include "proxy/io/vault_op.h"

enum { ITEMS_MAX = 64, PUTS_MAX = 64, PORT = 443 };

struct brain_vault {                    /* of one sandbox */
	json_t *credentials, *bindings; /* name -> object */
	json_int_t revision;
};

struct put {
	struct str secret, connector, user, value;
};

struct keeping {                 /* the keeper is asked */
	struct brain_turn *turn; /* NULL: it has ended */
};

struct change {                         /* t->state */
	json_t *credentials, *bindings; /* as they will be */
	json_t *values;                 /* name -> text, of this request */
	json_int_t revision;
	struct put puts[PUTS_MAX];
	size_t puts_n, at;
	bool is_rotating; /* it is there: a new version */
	uint16_t http;
	struct keeping *keeping;
};

/* What is there. */

static void
vault_free(struct brain_vault *v)
{
	if (v == NULL)
		return;
	json_decref(v->credentials);
	json_decref(v->bindings);
	free(v);
}

void
brain_vault_forget(struct brain *b, struct str id)
{
	vault_free(map_take(&b->vaults, id));
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
		say(t, 404, "no such name");
	else
		brain_answer(t, 200, json_incref(one));
}

/* A change. */

static void
change_done(void *state)
{
	struct change *c = state;
	const char *key;
	json_t *v;

	json_object_foreach(c->values, key, v) explicit_bzero(
		(char *)(uintptr_t)json_string_value(v), json_string_length(v));
	json_decref(c->values);
	json_decref(c->credentials);
	json_decref(c->bindings);
	if (c->keeping != NULL)
		c->keeping->turn = NULL;
	*c = (struct change){ 0 };
}

static bool
is_item_name(struct str name)
{
	return str_is_name(name);
}

static enum status
bad(struct buf *why, const char *text)
{
	buf_put(why, str_from(text));
	return ST_BAD_PARAMETER;
}

static enum status
add_credential(struct change *c, const json_t *from, bool is_new, struct buf *why)
{
	struct str name = brain_json_text(from, "name");
	const json_t *source = json_object_get(from, "source");
	json_t *value = json_object_get(source, "value");
	json_t *made;

	if (!is_item_name(name) || !json_is_string(value) ||
	    json_string_length(value) == 0 ||
	    json_string_length(value) > VAULT_VALUE_MAX ||
	    !str_eq(brain_json_text(source, "type"), STR("inline")))
		return bad(
			why,
			"a credential wants a name and an inline source with a value");
	if ((json_object_getn(c->credentials, name.p, name.n) != NULL) == is_new)
		return ST_CONFLICT;
	made = json_pack("{s:o, s:s, s:I}", "name", json_stringn(name.p, name.n),
			 "sourceType", "inline", "revision", c->revision);
	return json_object_setn_new(c->credentials, name.p, name.n, made) == 0 &&
			       json_object_setn(c->values, name.p, name.n, value) == 0
		       ? ST_OK
		       : ST_NOMEM;
}

/* The way in which a binding shows its credential: a connector's kind, and a field's name. */
struct shown {
	struct str type, field, credential;
};

static enum status
read_auth(const json_t *auth, struct shown *ret, struct buf *why)
{
	const json_t *headers = json_object_get(auth, "headers");
	const json_t *first = json_array_get(headers, 0);
	struct str type = brain_json_text(auth, "type");
	bool is_custom = str_eq(type, STR("customHeaders"));

	if (is_custom && json_array_size(headers) != 1)
		return bad(why, "customHeaders: one header is what a connector adds");
	*ret = (struct shown){ type, brain_json_text(is_custom ? first : auth, "name"),
			       brain_json_text(is_custom ? first : auth,
					       "credential") };
	if (!is_custom && !str_eq(type, STR("bearer")) && !str_eq(type, STR("basic")) &&
	    !str_eq(type, STR("apiKey")))
		return bad(why,
			   "auth.type is none of bearer, basic, apiKey, customHeaders");
	return is_item_name(ret->credential) ? ST_OK
					     : bad(why, "auth names no credential");
}

static bool
fits(const struct image *im, const struct image_connector *k, const struct shown *s)
{
	if (!k->auth.is_delegated)
		return false;
	if (str_eq(s->type, STR("bearer")))
		return k->auth.kind == AUTH_BEARER && k->auth.user.length == 0;
	if (str_eq(s->type, STR("basic")))
		return k->auth.kind == AUTH_BASIC && k->auth.user.length == 0;
	return k->auth.kind == AUTH_HEADER &&
	       str_ieq(image_str(im, k->auth.name), s->field);
}

/* The connector that requests of the sandbox to this host go through. */
static const struct image_connector *
connector_for(const struct image *im, struct str host)
{
	struct dest d;
	struct policy_question q = { .may = mandate_of(image_exec(im)->policy),
				     .dest = &d,
				     .way = WAY_TLS };
	struct policy_answer a = { .connector = CONNECTOR_NONE };
	size_t n;
	const struct image_connector *k = image_connectors(im, &n);

	if (dest_from_host(host, PORT, &d) != ST_OK)
		return NULL;
	policy_judge(im, &q, &a);
	return a.connector < n ? &k[a.connector] : NULL;
}

/* A part at a time: a user's name can't make another part. */
static struct str
secret_name(struct arena *a, struct str secret, struct str user)
{
	char text[VAULT_NAME_MAX + 1];
	size_t n = 0;

	if (!str_is_name(user))
		return (struct str){ NULL, 0 };
	while (secret.p != NULL) {
		struct str part = str_cut(&secret, '/');

		if (str_eq(part, STR("{user}")))
			part = user;
		if (part.n + 1 > sizeof text - n)
			return (struct str){ NULL, 0 };
		memcpy(text + n, part.p, part.n);
		n += part.n;
		if (secret.p != NULL)
			text[n++] = '/';
	}
	return arena_copy(a, str_of(text, n));
}

static enum status
add_put(struct brain_turn *t, struct change *c, const struct shown *s, struct str host,
	struct buf *why)
{
	const struct image *im = t->brain->control->role.image;
	const struct image_connector *k = connector_for(im, host);
	struct str user = str_from(t->who.on_behalf_of[0] != '\0' ? t->who.on_behalf_of
								  : t->who.user);
	const json_t *value =
		json_object_getn(c->values, s->credential.p, s->credential.n);
	struct put p = { .user = user,
			 .value = str_of(json_string_value(value),
					 json_string_length(value)) };

	if (k != NULL && fits(im, k, s)) {
		p.connector = arena_copy(&t->arena, image_str(im, k->name));
		p.secret = secret_name(&t->arena, image_str(im, k->auth.secret), user);
	}
	if (p.secret.p == NULL) {
		buf_putf(why,
			 "no connector of the operator's takes a user's own credential "
			 "of "
			 "this kind for %.*s",
			 STR_ARG(str_head(host, 100)));
		return ST_DENIED;
	}
	if (p.value.n == 0)
		return bad(why,
			   "send the value of a bound credential in the same request");
	if (c->puts_n == PUTS_MAX)
		return ST_TOO_BIG;
	c->puts[c->puts_n++] = p;
	return ST_OK;
}

/* Only what a connector does: https on 443; methods and paths are its own. */
static enum status
check_match(const json_t *match, struct buf *why)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(json_object_get(match, "hosts")) ||
	    json_array_size(json_object_get(match, "hosts")) == 0)
		return bad(why, "match.hosts is no list of names");
	json_array_foreach(json_object_get(match, "schemes"), i,
			   one) if (!json_is_string(one) ||
				    strcmp(json_string_value(one), "https") !=
					    0) return bad(why,
							  "match.schemes: a connector "
							  "answers over https only");
	json_array_foreach(json_object_get(match, "ports"), i,
			   one) if (json_integer_value(one) !=
				    PORT) return bad(why, "match.ports: only 443");
	json_array_foreach(json_object_get(match, "paths"), i,
			   one) if (!json_is_string(one) ||
				    strcmp(json_string_value(one), "/*") !=
					    0) return bad(why,
							  "match.paths: which paths is "
							  "the connector's to say");
	return ST_OK;
}

static json_t *
binding_view(const struct change *c, const json_t *from, const struct shown *s)
{
	json_t *auth = json_pack("{s:o}", "type", json_stringn(s->type.p, s->type.n));

	if (s->field.n > 0)
		(void)json_object_set_new(auth, "name",
					  json_stringn(s->field.p, s->field.n));
	return json_pack("{s:O, s:I, s:o, s:o}", "name", json_object_get(from, "name"),
			 "revision", c->revision, "match",
			 json_deep_copy(json_object_get(from, "match")), "auth", auth);
}

static enum status
add_binding(struct brain_turn *t, struct change *c, const json_t *from, bool is_new,
	    struct buf *why)
{
	const json_t *match = json_object_get(from, "match"), *host;
	struct str name = brain_json_text(from, "name");
	struct shown s = { 0 };
	enum status st = is_item_name(name) ? check_match(match, why)
					    : bad(why, "a binding wants a name");
	size_t i;

	if (st == ST_OK)
		st = read_auth(json_object_get(from, "auth"), &s, why);
	if (st == ST_OK &&
	    (json_object_getn(c->bindings, name.p, name.n) != NULL) == is_new)
		st = ST_CONFLICT;
	json_array_foreach(json_object_get(match, "hosts"), i, host) if (st == ST_OK)
		st = add_put(t, c, &s,
			     str_of(json_string_value(host), json_string_length(host)),
			     why);
	if (st != ST_OK)
		return st;
	return json_object_setn_new(c->bindings, name.p, name.n,
				    binding_view(c, from, &s)) == 0
		       ? ST_OK
		       : ST_NOMEM;
}

static enum status
add_list(struct brain_turn *t, const json_t *list, bool is_binding, bool is_new,
	 struct buf *why)
{
	struct change *c = t->state;
	const json_t *one;
	size_t i;
	enum status st = ST_OK;

	if (list != NULL && (!json_is_array(list) || json_array_size(list) > ITEMS_MAX))
		return bad(why, "credentials and bindings are lists of at most 64");
	json_array_foreach(list, i, one) if (st == ST_OK) st =
		is_binding ? add_binding(t, c, one, is_new, why)
			   : add_credential(c, one, is_new, why);
	return st;
}

static void
drop_list(const json_t *list, json_t *from)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one) if (json_is_string(one))(void)
		json_object_deln(from, json_string_value(one), json_string_length(one));
}

static enum status
read_patch(struct brain_turn *t, struct buf *why)
{
	struct change *c = t->state;
	const json_t *credentials = json_object_get(t->body, "credentials");
	const json_t *bindings = json_object_get(t->body, "bindings");
	enum status st = ST_OK;

	drop_list(json_object_get(bindings, "delete"), c->bindings);
	drop_list(json_object_get(credentials, "delete"), c->credentials);
	st = add_list(t, json_object_get(credentials, "add"), false, true, why);
	if (st == ST_OK)
		st = add_list(t, json_object_get(credentials, "replace"), false, false,
			      why);
	if (st == ST_OK)
		st = add_list(t, json_object_get(bindings, "add"), true, true, why);
	if (st == ST_OK)
		st = add_list(t, json_object_get(bindings, "replace"), true, false,
			      why);
	return st;
}

/* What is bound nowhere would be kept nowhere. */
static enum status
check_bound(const struct change *c, struct buf *why)
{
	return json_object_size(c->values) > 0 && c->puts_n == 0
		       ? bad(why, "each credential is to be bound in the same request")
		       : ST_OK;
}

/* The keeper's part. */

static void put_next(struct brain_turn *t);

static void
all_kept(struct brain_turn *t)
{
	struct change *c = t->state;
	struct brain_vault *v = map_get(&t->brain->vaults, t->box.id);
	enum status st = ST_OK;

	if (v == NULL) {
		v = calloc(1, sizeof *v);
		st = v == NULL ? ST_NOMEM : map_put(&t->brain->vaults, t->box.id, v);
	}
	if (st != ST_OK) {
		free(v);
		brain_refuse(t, st, STR(""));
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
	st = is_new ? add_list(t, json_object_get(t->body, "credentials"), false, true,
			       &why)
		    : read_patch(t, &why);
	if (st == ST_OK && is_new)
		st = add_list(t, json_object_get(t->body, "bindings"), true, true,
			      &why);
	if (st == ST_OK)
		st = check_bound(c, &why);
	if (st == ST_OK)
		put_next(t);
	else if (st == ST_DENIED)
		say(t, 412, buf_cstr(&why));
	else if (st == ST_CONFLICT)
		say(t, 409, "a name is there already, or isn't there");
	else if (st == ST_BAD_PARAMETER)
		say(t, 400, buf_cstr(&why));
	else
		brain_refuse(t, st, STR(""));
}

static bool
is_stale(const struct brain_turn *t, const struct brain_vault *v)
{
	const json_t *expected = json_object_get(t->body, "expectedRevision");

	return json_is_integer(expected) && json_integer_value(expected) != v->revision;
}

void
brain_credentials(struct brain_turn *t)
{
	struct brain_vault *v = map_get(&t->brain->vaults, t->box.id);
	int op = t->wish.op;

	if (op == EXEC_OP_VAULT_CREATE && v != NULL)
		say(t, 409, "there is one already");
	else if (op == EXEC_OP_VAULT_CREATE)
		change_vault(t, NULL);
	else if (v == NULL)
		say(t, 404, "no credential vault");
	else if (op == EXEC_OP_VAULT_PATCH && is_stale(t, v))
		say(t, 409, "another revision than expected");
	else if (op == EXEC_OP_VAULT_PATCH)
		change_vault(t, v);
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
