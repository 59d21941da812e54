#include "conf/auth_text.h"

#include <stddef.h>

#include "proxy/base/shape.h"

#define AUTH(name, word, needs, takes, help)                                           \
	[AUTH_##name] = { (word), (needs), (takes), (help) },
static const struct auth_row rows[AUTH_KINDS] = {
#include "conf/auth_kinds.def"
};
#undef AUTH

#define AUTH(name, word, needs, takes, help) "|" word
static const char kinds[] =
#include "conf/auth_kinds.def"
	;
#undef AUTH

enum { SECRET_MAX = 200, ROLE_MAX = 2048 };

bool
auth_is_printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < ' ' || s.p[i] > '~')
			return false;
	return s.n > 0;
}

static bool
is_segment(struct str s)
{
	if (str_eq(s, STR("{user}")))
		return true;
	return str_is_name(s) && !str_eq(s, STR(".")) && !str_eq(s, STR(".."));
}

static bool
is_secret(struct str s)
{
	struct str rest = s;

	if (s.n == 0 || s.n > SECRET_MAX)
		return false;
	while (rest.p != NULL)
		if (!is_segment(str_cut(&rest, '/')))
			return false;
	return true;
}

bool
auth_has_user(struct str s)
{
	struct str rest = s;

	while (rest.p != NULL)
		if (str_eq(str_cut(&rest, '/'), STR("{user}")))
			return true;
	return false;
}

bool
auth_is_shared_secret(struct str s)
{
	return is_secret(s) && !auth_has_user(s);
}

static bool
is_basic_user(struct str s)
{
	return auth_is_printable(s) && !str_has(s, ':');
}

static bool
is_place(struct str s) /* a region or a service */
{
	return str_is_name(s) && !str_has(s, '.');
}

static bool
is_role(struct str s)
{
	return auth_is_printable(s) && s.n <= ROLE_MAX && str_starts(s, STR("arn:"));
}

static bool
is_variable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alpha(s.p[i]) && s.p[i] != '_' &&
		    (i == 0 || !ascii_is_digit(s.p[i])))
			return false;
	return s.n > 0 && s.n <= STR_NAME_MAX;
}

static const char *const message_words[] = { "{method}",     "{path}",      "{query}",
					     "{host}",       "{timestamp}", "{body}",
					     "{body_sha256}" };

static bool
is_word_at(struct str s)
{
	for (size_t i = 0; i < COUNT_OF(message_words); i++)
		if (str_starts(s, str_from(message_words[i])))
			return true;
	return false;
}

static bool
is_message(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '{' && !is_word_at(str_skip(s, i)))
			return false;
	return s.n > 0;
}

#define TEXT(key, fn, fault)                                                           \
	{                                                                              \
#key, offsetof(struct image_auth, key), (fn), (fault)                  \
	}
static const struct auth_text texts[] = {
	TEXT(secret, is_secret,
	     "a name in the vault: letters, digits, `-`, `_`, `.` and `/`; {user} may "
	     "be a "
	     "whole part of it"),
	TEXT(client_secret, auth_is_shared_secret,
	     "a name in the vault, without {user}"),
	TEXT(session_token, auth_is_shared_secret,
	     "a name in the vault, without {user}"),
	TEXT(certificate, auth_is_shared_secret, "a name in the vault, without {user}"),
	TEXT(user, is_basic_user, "printable ASCII without `:`"),
	TEXT(client_id, auth_is_printable, "printable ASCII"),
	TEXT(audience, auth_is_printable, "printable ASCII"),
	TEXT(issuer, auth_is_printable, "printable ASCII"),
	TEXT(subject, auth_is_printable, "printable ASCII"),
	TEXT(key_id, auth_is_printable, "printable ASCII"),
	TEXT(prefix, auth_is_printable, "printable ASCII"),
	TEXT(region, is_place, "letters, digits and `-`"),
	TEXT(service, is_place, "letters, digits and `-`"),
	TEXT(assume_role, is_role, "the ARN of a role"),
	TEXT(external_id, auth_is_printable, "printable ASCII"),
	TEXT(session_name, str_is_name, "letters, digits, `-`, `_` and `.`"),
	TEXT(placeholder, shape_is_good,
	     "printable ASCII with 16 or more `*`, each of which becomes a random "
	     "letter or "
	     "digit"),
	TEXT(env, is_variable, "the name of an environment variable"),
	TEXT(message, is_message,
	     "text with {method}, {path}, {query}, {host}, {timestamp}, {body} or "
	     "{body_sha256}"),
};
#undef TEXT

const struct auth_row *
auth_row_of(enum auth_kind k)
{
	need((size_t)k < AUTH_KINDS);
	return &rows[k];
}

const char *
auth_kind_word(enum auth_kind k)
{
	return auth_row_of(k)->word;
}

struct str
auth_kind_words(void)
{
	return str_skip(STR(kinds), 1);
}

const struct auth_text *
auth_text_by_key(struct str key)
{
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		if (str_eq(key, str_from(texts[i].key)))
			return &texts[i];
	return NULL;
}
