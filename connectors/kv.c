#include "connectors/kv.h"

#include <jansson.h>
#include <string.h>

#include "connectors/token.h"

enum status
kv_status(uint16_t http)
{
	switch (http) {
	case 200:
		return ST_OK;
	case 404:
		return ST_NO_SECRET;
	case 400:
	case 401:
	case 403:
	case 405:
		return ST_SOURCE_REFUSED;
	default:
		return ST_SOURCE_SILENT;
	}
}

/* Answers are objects; a NUL in a text is the reader's to refuse. */
static json_t *
load(struct str body)
{
	json_t *object;

	if (body.n > KV_BODY_MAX)
		return NULL;
	object = json_loadb(body.p, body.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
			    NULL);
	if (object != NULL && !json_is_object(object)) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static struct str
text_of(const json_t *v)
{
	return json_is_string(v) ? str_of(json_string_value(v), json_string_length(v))
				 : (struct str){ NULL, 0 };
}

static bool
is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

/* Tokens. */

static bool
read_lease(const json_t *seconds, const json_t *renewable, struct kv_token *t)
{
	json_int_t n = json_is_integer(seconds) ? json_integer_value(seconds) : -1;

	if (n < 0 || !json_is_boolean(renewable))
		return false;
	t->lease_s = n > KV_LEASE_MAX ? KV_LEASE_MAX : (uint64_t)n;
	t->is_renewable = json_is_true(renewable);
	return true;
}

static enum status
read_login(const json_t *object, struct kv_token *ret_t)
{
	const json_t *auth = json_object_get(object, "auth");
	struct str token = text_of(json_object_get(auth, "client_token"));
	struct kv_token t = { .lease_s = 0 };

	if (!is_visible(token) || token.n > KV_TOKEN_MAX ||
	    !read_lease(json_object_get(auth, "lease_duration"),
			json_object_get(auth, "renewable"), &t))
		return ST_SOURCE_SILENT;
	cred_init(&t.text, token.n);
	cred_put(&t.text, token);
	if (t.text.st != ST_OK) {
		cred_done(&t.text);
		return ST_NOMEM;
	}
	*ret_t = t;
	return ST_OK;
}

enum status
kv_parse_login(struct str body, struct kv_token *ret_t)
{
	json_t *object = load(body);
	enum status st = object == NULL ? ST_SOURCE_SILENT : read_login(object, ret_t);

	json_decref(object);
	return st;
}

enum status
kv_parse_self(struct str body, struct kv_token *ret_t)
{
	json_t *object = load(body);
	const json_t *data = json_object_get(object, "data");
	const json_t *renewable = json_object_get(data, "renewable");
	struct kv_token t = { .lease_s = 0 };
	bool ok = object != NULL && json_is_object(data);

	/* Of a root token neither is told as of others. */
	if (ok && renewable == NULL)
		renewable = json_false();
	ok = ok && read_lease(json_object_get(data, "ttl"), renewable, &t);
	json_decref(object);
	if (!ok)
		return ST_SOURCE_SILENT;
	*ret_t = t;
	return ST_OK;
}

void
kv_token_done(struct kv_token *t)
{
	cred_done(&t->text);
	*t = (struct kv_token){ .lease_s = 0 };
}

/* Secrets. */

static enum status
read_metadata(const json_t *data, uint32_t version, uint64_t now_s,
	      struct kv_value *ret_v)
{
	const json_t *m = json_object_get(data, "metadata");
	const json_t *number = json_object_get(m, "version");
	struct str end = text_of(json_object_get(m, "deletion_time"));
	json_int_t n = json_is_integer(number) ? json_integer_value(number) : 0;

	if (n < 1 || n > UINT32_MAX || (version != 0 && n != version))
		return ST_SOURCE_SILENT;
	if (json_is_true(json_object_get(m, "destroyed")))
		return ST_NO_SECRET;
	if (end.n > 0 && !token_parse_time(end, &ret_v->expires_s))
		return ST_SOURCE_SILENT;
	if (end.n > 0 && ret_v->expires_s <= now_s)
		return ST_NO_SECRET;
	ret_v->version = (uint32_t)n;
	return ST_OK;
}

static const json_t *
member(const json_t *object, struct str key)
{
	return json_object_getn(object, key.p, key.n);
}

static enum status
read_value(const json_t *object, struct str field, uint32_t version, uint64_t now_s,
	   struct kv_value *ret_v)
{
	const json_t *data = json_object_get(object, "data");
	const json_t *of = json_object_get(data, "data");
	struct kv_value v = { .version = 0 };
	enum status st = json_is_object(data) ? read_metadata(data, version, now_s, &v)
					      : ST_SOURCE_SILENT;

	if (st != ST_OK)
		return st;
	const json_t *value = member(of, field);
	struct str s = text_of(value);
	if (value == NULL)
		return ST_NO_SECRET;
	if (s.n == 0 || s.n > KV_VALUE_MAX || memchr(s.p, '\0', s.n) != NULL)
		return ST_SOURCE_BAD;
	cred_init(&v.text, s.n);
	cred_put(&v.text, s);
	if (v.text.st != ST_OK) {
		cred_done(&v.text);
		return ST_NOMEM;
	}
	*ret_v = v;
	return ST_OK;
}

enum status
kv_parse_value(struct str body, struct str field, uint32_t version, uint64_t now_s,
	       struct kv_value *ret_v)
{
	json_t *object = load(body);
	enum status st = object == NULL
				 ? ST_SOURCE_SILENT
				 : read_value(object, field, version, now_s, ret_v);

	json_decref(object);
	return st;
}

void
kv_value_done(struct kv_value *v)
{
	cred_done(&v->text);
	*v = (struct kv_value){ .version = 0 };
}

/* The body of a login. */

static void
put_json(struct cred *out, struct str s)
{
	static const char digits[] = "0123456789abcdef";

	cred_putc(out, '"');
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c >= ' ' && c != '"' && c != '\\') {
			cred_putc(out, s.p[i]);
			continue;
		}
		cred_put(out, STR("\\u00"));
		cred_putc(out, digits[c >> 4]);
		cred_putc(out, digits[c & 15]);
	}
	cred_putc(out, '"');
}

void
kv_put_login(struct cred *out, bool is_approle, struct str role, struct str secret)
{
	cred_put(out, is_approle ? STR("{\"role_id\":") : STR("{\"role\":"));
	put_json(out, role);
	cred_put(out, is_approle ? STR(",\"secret_id\":") : STR(",\"jwt\":"));
	put_json(out, secret);
	cred_putc(out, '}');
}
