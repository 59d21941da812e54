#include "proxy/control/brain_label.h"

#include <openssl/evp.h>
#include <string.h>

#include "proxy/base/enc.h"

enum { PREFIX_MAX = 253, HASH_HEX = 32 };

static bool
is_alnum(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c);
}

bool
label_value_is_good(struct str value)
{
	if (value.n == 0)
		return true;
	if (value.n > LABEL_MAX || !is_alnum(value.p[0]) ||
	    !is_alnum(value.p[value.n - 1]))
		return false;
	for (size_t i = 0; i < value.n; i++) {
		char c = value.p[i];

		if (!is_alnum(c) && c != '-' && c != '_' && c != '.')
			return false;
	}
	return true;
}

/* A DNS name in lower case. */
static bool
is_prefix(struct str s)
{
	if (s.n == 0 || s.n > PREFIX_MAX)
		return false;
	for (struct str rest = s; rest.p != NULL;) {
		struct str part = str_cut(&rest, '.');

		if (part.n == 0 || !label_value_is_good(part))
			return false;
		for (size_t i = 0; i < part.n; i++)
			if (part.p[i] == '_' || part.p[i] != ascii_lower(part.p[i]))
				return false;
	}
	return true;
}

bool
label_key_is_good(struct str key)
{
	struct str name = key, prefix;

	if (str_has(key, '/')) {
		prefix = str_cut(&name, '/');
		if (!is_prefix(prefix))
			return false;
	}
	return name.n > 0 && label_value_is_good(name);
}

bool
label_is_reserved(struct str key)
{
	static const struct str reserved[] = { { "sandgate", 8 },
					       { "opensandbox.io", 14 } };
	struct str name = key, prefix = str_cut(&name, '/');

	if (name.p == NULL)
		return false;
	for (size_t i = 0; i < COUNT_OF(reserved); i++) {
		struct str r = reserved[i];

		if (prefix.n < r.n || !str_ieq(str_skip(prefix, prefix.n - r.n), r))
			continue;
		if (prefix.n == r.n || prefix.p[prefix.n - r.n - 1] == '.')
			return true;
	}
	return false;
}

static void
put_digest(struct buf *b, struct str bytes)
{
	unsigned char hash[32];
	unsigned n = sizeof hash;

	if (EVP_Digest(bytes.p, bytes.n, hash, &n, EVP_sha256(), NULL) != 1)
		memset(hash, 0, sizeof hash);
	enc_put_hex(b, str_of(hash, HASH_HEX / 2));
}

void
label_put_value(struct buf *b, struct str text)
{
	if (label_value_is_good(text)) {
		buf_put(b, text);
		return;
	}
	buf_put(b, STR("h-"));
	put_digest(b, text);
}

void
label_put_user(struct buf *b, struct str tenant, struct str user)
{
	CLEANUP(buf_done) struct buf both = { 0 };

	buf_init(&both, tenant.n + user.n + 1);
	buf_put(&both, tenant);
	buf_putc(&both, '\0'); /* in neither of them */
	buf_put(&both, user);
	buf_put(b, STR("u-"));
	put_digest(b, str_of(both.p, both.len));
}

bool
label_set(json_t *labels, const char *key, struct str value)
{
	if (value.n == 0)
		return true;
	return json_object_set_new(labels, key, json_stringn(value.p, value.n)) == 0;
}

void
label_hide(json_t *labels)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(
		labels, next, key,
		value) if (str_starts(str_from(key), STR("sandgate/")))(void)
		json_object_del(labels, key);
}

static enum status
check_one(struct str key, const json_t *value, bool is_patch, struct buf *why)
{
	struct str text = str_of(json_string_value(value), json_string_length(value));

	if (!label_key_is_good(key))
		buf_putf(why, "metadata: '%.*s' is no name of a label",
			 STR_ARG(str_head(key, 80)));
	else if (label_is_reserved(key))
		buf_putf(why, "metadata: the prefix of '%.*s' is reserved",
			 STR_ARG(str_head(key, 80)));
	else if (!json_is_string(value) && !(is_patch && json_is_null(value)))
		buf_putf(why, "metadata: the value of '%.*s' is no text",
			 STR_ARG(str_head(key, 80)));
	else if (json_is_string(value) && !label_value_is_good(text))
		buf_putf(why, "metadata: the value of '%.*s' is no value of a label",
			 STR_ARG(str_head(key, 80)));
	else
		return ST_OK;
	return ST_BAD_PARAMETER;
}

enum status
label_check(const json_t *labels, bool is_patch, struct buf *why)
{
	const char *key;
	json_t *value;

	if (!json_is_object(labels) || json_object_size(labels) > LABELS_MAX) {
		buf_putf(why, "metadata is no object of at most %d texts", LABELS_MAX);
		return ST_BAD_PARAMETER;
	}
	/* The iterator of Jansson wants what isn't const and changes nothing. */
	for (void *it = json_object_iter((json_t *)(uintptr_t)labels); it != NULL;
	     it = json_object_iter_next((json_t *)(uintptr_t)labels, it)) {
		key = json_object_iter_key(it);
		value = json_object_iter_value(it);
		enum status st = check_one(str_from(key), value, is_patch, why);
		if (st != ST_OK)
			return st;
	}
	return ST_OK;
}
