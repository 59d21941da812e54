/* The texts of a connector's auth: taken from an image, kept beyond it, compared. */
#include "connectors/auth.h"

#define TEXT(member) offsetof(struct auth_conf, member)
static const size_t texts[] = {
	TEXT(vault[0]),    TEXT(vault[1]),    TEXT(vault[2]),     TEXT(vault[3]),
	TEXT(user),        TEXT(name),        TEXT(prefix),       TEXT(token_url),
	TEXT(client_id),   TEXT(audience),    TEXT(issuer),       TEXT(subject),
	TEXT(key_id),      TEXT(scopes),      TEXT(region),       TEXT(service),
	TEXT(assume_role), TEXT(external_id), TEXT(session_name), TEXT(message),
	TEXT(timestamp),
};
#undef TEXT

void
auth_conf_from(const struct image *im, const struct image_auth *a,
	       struct auth_conf *ret_conf)
{
	*ret_conf = (struct auth_conf){
		.kind = (enum auth_kind)a->kind,
		.algorithm = (enum auth_algorithm)a->algorithm,
		.encoding = (enum auth_encoding)a->encoding,
		.style = (enum auth_style)a->style,
		.exchange = (enum auth_exchange)a->exchange,
		.is_delegated = a->is_delegated != 0,
		.vault = { image_str(im, a->secret), image_str(im, a->client_secret),
			   image_str(im, a->session_token),
			   image_str(im, a->certificate) },
		.user = image_str(im, a->user),
		.name = image_str(im, a->name),
		.prefix = image_str(im, a->prefix),
		.token_url = image_str(im, a->token_url),
		.client_id = image_str(im, a->client_id),
		.audience = image_str(im, a->audience),
		.issuer = image_str(im, a->issuer),
		.subject = image_str(im, a->subject),
		.key_id = image_str(im, a->key_id),
		.scopes = image_str(im, a->scopes),
		.region = image_str(im, a->region),
		.service = image_str(im, a->service),
		.assume_role = image_str(im, a->assume_role),
		.external_id = image_str(im, a->external_id),
		.session_name = image_str(im, a->session_name),
		.message = image_str(im, a->message),
		.timestamp = image_str(im, a->timestamp),
	};
}

static struct str *
text_at(struct auth_conf *c, size_t i)
{
	return (struct str *)(void *)((char *)c + texts[i]);
}

static const struct str *
text_of(const struct auth_conf *c, size_t i)
{
	return (const struct str *)(const void *)((const char *)c + texts[i]);
}

enum status
auth_conf_keep(struct auth_conf *c, struct arena *a)
{
	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		struct str *s = text_at(c, i);
		*s = s->n == 0 ? STR("") : arena_copy(a, *s);
		if (s->p == NULL)
			return ST_NOMEM;
	}
	return ST_OK;
}

bool
auth_conf_same(const struct auth_conf *a, const struct auth_conf *b)
{
	if (a->kind != b->kind || a->algorithm != b->algorithm ||
	    a->encoding != b->encoding || a->style != b->style ||
	    a->exchange != b->exchange || a->is_delegated != b->is_delegated)
		return false;
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		if (!str_eq(*text_of(a, i), *text_of(b, i)))
			return false;
	return true;
}
