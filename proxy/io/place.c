#include "proxy/io/place.h"

enum { WISH_V1 = 1, WISH_TLS = 2, WISH_PROXY = 4 };

void
place_wish_put(struct buf *b, const struct place_wish *w)
{
	const struct str *const texts[] = {
		&w->key,          &w->bearer,  &w->capability, &w->authority,
		&w->on_behalf_of, &w->session, &w->task,       &w->idempotency,
		&w->sandbox,      &w->id,      &w->query,      &w->expires,
		&w->peer,         &w->body,    &w->reuse,      &w->request,
		&w->why,          &w->text
	};

	buf_put_u64(b, w->ticket);
	buf_put_u16(b, w->op);
	buf_put_u16(b, w->port);
	buf_put_u8(b, (uint8_t)((w->is_v1 ? WISH_V1 : 0) | (w->is_tls ? WISH_TLS : 0) |
				(w->use_server_proxy ? WISH_PROXY : 0)));
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		wire_put_str(b, *texts[i]);
	buf_put_u8(b, w->level);
	buf_put_u64(b, w->turn);
}

enum status
place_wish_get(struct str body, struct place_wish *ret_w)
{
	struct wire in = wire_from(body);
	struct place_wish w = { .ticket = wire_u64(&in) };
	struct str *const texts[] = { &w.key,       &w.bearer,       &w.capability,
				      &w.authority, &w.on_behalf_of, &w.session,
				      &w.task,      &w.idempotency,  &w.sandbox,
				      &w.id,        &w.query,        &w.expires,
				      &w.peer,      &w.body,         &w.reuse,
				      &w.request,   &w.why,          &w.text };
	uint8_t flags;

	w.op = wire_u16(&in);
	w.port = wire_u16(&in);
	flags = wire_u8(&in);
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		*texts[i] = wire_str(&in);
	w.level = wire_u8(&in);
	w.turn = wire_u64(&in);
	if (wire_end(&in) != ST_OK || w.ticket == 0 || flags > 7 || w.level > 2 ||
	    w.body.n > PLACE_BODY_MAX || w.text.n > PLACE_TEXT_MAX)
		return ST_BAD_MESSAGE;
	w.is_v1 = (flags & WISH_V1) != 0;
	w.is_tls = (flags & WISH_TLS) != 0;
	w.use_server_proxy = (flags & WISH_PROXY) != 0;
	*ret_w = w;
	return ST_OK;
}

void
place_answer_put(struct buf *b, const struct place_answer *a)
{
	const struct str *const texts[] = { &a->tenant,  &a->user,    &a->agent,
					    &a->session, &a->task,    &a->on_behalf_of,
					    &a->sandbox, &a->server,  &a->words,
					    &a->type,    &a->body,    &a->host,
					    &a->prefix,  &a->language };

	buf_put_u8(b, (uint8_t)a->kind);
	buf_put_u16(b, (uint16_t)a->st);
	buf_put_u16(b, a->http);
	buf_put_u16(b, a->port);
	buf_put_u8(b, a->keeps_login ? 1 : 0);
	buf_put_u32(b, a->body_n);
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		wire_put_str(b, *texts[i]);
	buf_put_u8(b, (uint8_t)a->fields_n);
	for (size_t i = 0; i < a->fields_n; i++) {
		wire_put_str(b, a->fields[i].name);
		wire_put_str(b, a->fields[i].value);
	}
}

static bool
answer_fits(const struct place_answer *a)
{
	if (a->kind == PLACE_REFUSE)
		return a->st != ST_OK;
	if (a->st != ST_OK)
		return false;
	if (a->kind == PLACE_ROUTE)
		return a->host.n > 0 && a->port != 0;
	return a->http >= 200 && a->http <= 599 && a->body_n <= PLACE_ANSWER_MAX &&
	       (a->body.n == a->body_n || (a->body.n == 0 && a->body_n > PLACE_INLINE));
}

enum status
place_answer_get(struct str body, struct place_answer *ret_a)
{
	struct wire in = wire_from(body);
	struct place_answer a = { 0 };
	struct str *const texts[] = { &a.tenant,  &a.user,    &a.agent,
				      &a.session, &a.task,    &a.on_behalf_of,
				      &a.sandbox, &a.server,  &a.words,
				      &a.type,    &a.body,    &a.host,
				      &a.prefix,  &a.language };
	uint8_t kind = wire_u8(&in);
	uint16_t st = wire_u16(&in);

	a.http = wire_u16(&in);
	a.port = wire_u16(&in);
	a.keeps_login = wire_u8(&in) != 0;
	a.body_n = wire_u32(&in);
	for (size_t i = 0; i < COUNT_OF(texts); i++)
		*texts[i] = wire_str(&in);
	a.fields_n = wire_u8(&in);
	if (kind > PLACE_ROUTE || st >= ST_COUNT || a.fields_n > PLACE_FIELDS)
		return ST_BAD_MESSAGE;
	for (size_t i = 0; i < a.fields_n; i++) {
		a.fields[i].name = wire_str(&in);
		a.fields[i].value = wire_str(&in);
	}
	a.kind = (enum place_kind)kind;
	a.st = (enum status)st;
	if (wire_end(&in) != ST_OK || !answer_fits(&a))
		return ST_BAD_MESSAGE;
	*ret_a = a;
	return ST_OK;
}

void
hold_wish_put(struct buf *b, const struct hold_wish *w)
{
	buf_put_u64(b, w->ticket);
	buf_put_u8(b, w->level);
	wire_put_str(b, w->what);
	wire_put_str(b, w->why);
	wire_put_str(b, w->text);
	buf_put(b, str_of((const char *)w->hash, sizeof w->hash));
}

enum status
hold_wish_get(struct str body, struct hold_wish *ret_w)
{
	struct wire in = wire_from(body);
	struct hold_wish w = { .ticket = wire_u64(&in) };
	struct str hash;

	w.level = wire_u8(&in);
	w.what = wire_str(&in);
	w.why = wire_str(&in);
	w.text = wire_str(&in);
	hash = wire_bytes(&in, sizeof w.hash);
	if (wire_end(&in) != ST_OK || w.ticket == 0 || w.level > 2 ||
	    w.text.n > PLACE_TEXT_MAX)
		return ST_BAD_MESSAGE;
	for (size_t i = 0; i < sizeof w.hash; i++)
		w.hash[i] = (uint8_t)hash.p[i];
	*ret_w = w;
	return ST_OK;
}
