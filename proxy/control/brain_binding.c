/* What a credential-vault is to hold, and which connectors take it: see brain_credential.c. */
#include <string.h>

#include "proxy/control/brain_credential_in.h"
#include "proxy/control/brain_json.h"
#include "proxy/http/dest.h"
#include "proxy/io/vault_op.h"

enum { ITEMS_MAX = 64, MATCH_MAX = 8 * 1024, PORT = 443 };

static bool
is_item_name(struct str name)
{
	return str_is_name(name);
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
		return brain_bad(
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
		return brain_bad(why,
				 "customHeaders: one header is what a connector adds");
	*ret = (struct shown){ type, brain_json_text(is_custom ? first : auth, "name"),
			       brain_json_text(is_custom ? first : auth,
					       "credential") };
	if (!is_custom && !str_eq(type, STR("bearer")) && !str_eq(type, STR("basic")) &&
	    !str_eq(type, STR("apiKey")))
		return brain_bad(
			why,
			"auth.type is none of bearer, basic, apiKey, customHeaders");
	return is_item_name(ret->credential)
		       ? ST_OK
		       : brain_bad(why, "auth names no credential");
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
		return brain_bad(
			why,
			"send the value of a bound credential in the same request");
	if (c->puts_n == CREDENTIAL_PUTS)
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

	if (json_dumpb(match, NULL, 0, JSON_COMPACT) > MATCH_MAX)
		return brain_bad(why, "match is longer than 8 KiB");
	if (!json_is_array(json_object_get(match, "hosts")) ||
	    json_array_size(json_object_get(match, "hosts")) == 0)
		return brain_bad(why, "match.hosts is no list of names");
	json_array_foreach(
		json_object_get(match, "schemes"), i,
		one) if (!json_is_string(one) ||
			 strcmp(json_string_value(one), "https") !=
				 0) return brain_bad(why, "match.schemes: a connector "
							  "answers over https only");
	json_array_foreach(json_object_get(match, "ports"), i,
			   one) if (json_integer_value(one) !=
				    PORT) return brain_bad(why,
							   "match.ports: only 443");
	json_array_foreach(
		json_object_get(match, "paths"), i,
		one) if (!json_is_string(one) ||
			 strcmp(json_string_value(one), "/*") !=
				 0) return brain_bad(why, "match.paths: which paths is "
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
					    : brain_bad(why, "a binding wants a name");
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
		return brain_bad(why,
				 "credentials and bindings are lists of at most 64");
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

/* What is bound nowhere would be kept nowhere; what is kept is kept in our memory. */
static enum status
check_whole(const struct change *c, struct buf *why)
{
	if (json_object_size(c->credentials) > ITEMS_MAX ||
	    json_object_size(c->bindings) > ITEMS_MAX)
		return brain_bad(
			why, "a vault holds at most 64 credentials and 64 bindings");
	return json_object_size(c->values) > 0 && c->puts_n == 0
		       ? brain_bad(why,
				   "each credential is to be bound in the same request")
		       : ST_OK;
}

enum status
binding_read(struct brain_turn *t, struct buf *why)
{
	bool is_new = t->wish.op == EXEC_OP_VAULT_CREATE;
	enum status st;

	if (!is_new)
		st = read_patch(t, why);
	else
		st = add_list(t, json_object_get(t->body, "credentials"), false, true,
			      why);
	if (st == ST_OK && is_new)
		st = add_list(t, json_object_get(t->body, "bindings"), true, true, why);
	return st == ST_OK ? check_whole(t->state, why) : st;
}
