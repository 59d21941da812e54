#ifndef CONF_AUTH_TEXT_H
#define CONF_AUTH_TEXT_H
/* auth_text: the rows of auth_kinds.def at run time; the keys of a connector's `auth`
 * whose value is one text, and what each may hold. */
#include "conf/image.h"

struct auth_row {
	const char *word, *needs, *takes, *help; /* lists of keys, separated by '|' */
};

const struct auth_row *auth_row_of(enum auth_kind k);
const char *auth_kind_word(enum auth_kind k);
struct str auth_kind_words(void); /* all, separated by '|' */

typedef bool (*text_fn)(struct str s);
struct auth_text { /* a key whose value is one text */
	const char *key;
	size_t member; /* offset in struct image_auth */
	text_fn is_fit;
	const char *fault;
};

const struct auth_text *auth_text_by_key(struct str key); /* NULL: no such key */
bool auth_is_printable(struct str s);                     /* ASCII, not empty */
bool auth_has_user(struct str secret);                    /* holds {user} */
/* A name in the vault that is asked for without a user. */
bool auth_is_shared_secret(struct str s);

#endif
