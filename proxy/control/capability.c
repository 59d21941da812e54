/*
 * What goes on with an endpoint: who asked for it, until when, and a MAC (RFC 2104) over
 * that with the sandbox and the port, which don't stand in it: they are those of the
 * request.
 *
 *	base64url( MAC, body )
 *	body: version u8, expires u64, scopes u8, may_delegate u8, seven names: str16
 */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "proxy/base/enc.h"
#include "proxy/control/principal.h"
#include "proxy/io/wire.h"

enum { MAC = 32, VERSION = 1 };

#define PURPOSE STR("sandgate capability")

static bool
make_mac(const uint8_t *key, const struct capability *c, struct str body,
	 uint8_t ret_mac[MAC])
{
	CLEANUP(buf_done) struct buf b = { 0 };
	unsigned n = MAC;

	buf_init(&b, (size_t)2 * CAPABILITY_MAX);
	wire_put_str(&b, PURPOSE);
	wire_put_str(&b, c->sandbox);
	buf_put_u16(&b, c->port);
	wire_put_str(&b, body);
	return b.st == ST_OK &&
	       HMAC(EVP_sha256(), key, CAPABILITY_KEY, (const unsigned char *)b.p,
		    b.len, ret_mac, &n) != NULL;
}

static void
put_body(struct buf *b, const struct capability *c)
{
	const struct principal *p = c->principal;
	const char *const names[] = { p->tenant,       p->user,    p->agent, p->key_id,
				      p->on_behalf_of, p->session, p->task };

	buf_put_u8(b, VERSION);
	buf_put_u64(b, c->expires_s);
	buf_put_u8(b, (uint8_t)p->scopes);
	buf_put_u8(b, p->may_delegate);
	for (size_t i = 0; i < COUNT_OF(names); i++)
		wire_put_str(b, str_from(names[i]));
}

void
capability_put(struct buf *b, const uint8_t *key, const struct capability *c)
{
	CLEANUP(buf_done) struct buf body = { 0 };
	CLEANUP(buf_done) struct buf all = { 0 };
	uint8_t mac[MAC];

	buf_init(&body, CAPABILITY_MAX);
	buf_init(&all, CAPABILITY_MAX);
	put_body(&body, c);
	if (body.st != ST_OK || !make_mac(key, c, str_of(body.p, body.len), mac)) {
		b->st = b->st == ST_OK ? ST_NOMEM : b->st;
		return;
	}
	buf_put(&all, str_of(mac, sizeof mac));
	buf_put(&all, str_of(body.p, body.len));
	if (all.st == ST_OK)
		enc_put_base64url(b, str_of(all.p, all.len));
	else if (b->st == ST_OK)
		b->st = all.st;
}

static enum status
get_body(struct str body, uint64_t now_s, struct principal *ret_p)
{
	struct principal p = { .scopes = 0 };
	char *const names[] = { p.tenant,       p.user,    p.agent, p.key_id,
				p.on_behalf_of, p.session, p.task };
	struct wire w = wire_from(body);
	uint8_t version = wire_u8(&w);
	uint64_t expires_s = wire_u64(&w);

	p.scopes = wire_u8(&w);
	p.may_delegate = wire_u8(&w) == 1;
	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (principal_set(names[i], wire_str(&w)) != ST_OK)
			return ST_KEY_INVALID;
	if (wire_end(&w) != ST_OK || version != VERSION || now_s >= expires_s ||
	    p.user[0] == '\0')
		return ST_KEY_INVALID;
	principal_own(&p);
	*ret_p = p;
	return ST_OK;
}

/* Whoever is in execd is in the sandbox, and reaches all that listens there; the egress API
 * is ours. */
static bool
fits_through_execd(const struct capability *c)
{
	return c->port != 0 && c->port != EXEC_PORT_EGRESS;
}

enum status
capability_check(struct str text, const uint8_t *key, const struct capability *c,
		 struct principal *ret_p)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct capability execd = { .sandbox = c->sandbox, .port = EXEC_PORT_EXECD };
	uint8_t mac[MAC], execd_mac[MAC];

	buf_init(&b, CAPABILITY_MAX);
	if (text.n > CAPABILITY_MAX || !enc_get_base64url(&b, text) || b.len < MAC)
		return ST_KEY_INVALID;
	struct str body = str_skip(str_of(b.p, b.len), MAC);
	if (!make_mac(key, c, body, mac) || !make_mac(key, &execd, body, execd_mac))
		return ST_NOMEM;
	if (CRYPTO_memcmp(mac, b.p, MAC) != 0 &&
	    !(CRYPTO_memcmp(execd_mac, b.p, MAC) == 0 && fits_through_execd(c)))
		return ST_KEY_INVALID;
	return get_body(body, c->expires_s, ret_p);
}
