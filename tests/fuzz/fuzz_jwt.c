/*
 * Signed claims: whatever the operator's words are, header and claims are JSON that says
 * exactly those words, in an alphabet that needs no escaping in a field or a form, and
 * the signature is of the size that its algorithm has.
 *
 * Input: issuer, subject, audience, scope and key id, one a line.
 */
#include <jansson.h>
#include <string.h>

#include "connectors/jwt.h"
#include "proxy/base/enc.h"
#include "tests/unit/rfc7515.h"

enum { WORDS = 5, WORD_MAX = 512, ES256_TEXT = 86 };

/* What a configuration may hold: printable ASCII. */
static struct str
word_of(struct str *rest, char space[WORD_MAX])
{
	struct str line = str_cut(rest, '\n');
	size_t n = line.n < WORD_MAX ? line.n : WORD_MAX;

	for (size_t i = 0; i < n; i++)
		space[i] = (char)(' ' + (unsigned char)line.p[i] % 95);
	return str_of(space, n);
}

static json_t *
decoded(struct str part)
{
	CLEANUP(buf_done) struct buf plain = { 0 };
	CLEANUP(buf_done) struct buf out = { 0 };
	json_t *j;

	buf_init(&plain, JWT_MAX);
	buf_init(&out, JWT_MAX);
	for (size_t i = 0; i < part.n; i++) {
		need(ascii_is_alpha(part.p[i]) || ascii_is_digit(part.p[i]) ||
		     part.p[i] == '-' || part.p[i] == '_');
		buf_putc(&plain, part.p[i] == '-'   ? '+'
				 : part.p[i] == '_' ? '/'
						    : part.p[i]);
	}
	need(enc_get_base64(&out, str_of(plain.p, plain.len)));
	j = json_loadb(out.p, out.len, JSON_REJECT_DUPLICATES, NULL);
	need(j != NULL);
	return j;
}

static void
says(const json_t *j, const char *key, struct str word)
{
	const json_t *v = json_object_get(j, key);

	need((v == NULL) == (word.n == 0));
	need(v == NULL || str_eq(str_from(json_string_value(v)), word));
}

static void
check(struct str text, const struct jwt_claims *c)
{
	json_t *header = decoded(str_cut(&text, '.')),
	       *claims = decoded(str_cut(&text, '.'));

	need(text.n == ES256_TEXT && !str_has(text, '.'));
	says(header, "kid", c->key_id);
	says(header, "alg", STR("ES256"));
	says(claims, "iss", c->issuer);
	says(claims, "sub", c->subject);
	says(claims, "aud", c->audience);
	says(claims, "scope", c->scope);
	need(json_integer_value(json_object_get(claims, "exp")) == 60);
	json_decref(header);
	json_decref(claims);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(cred_done) struct cred out = { 0 };
	char space[WORDS][WORD_MAX];
	struct str rest = str_of(data, size), words[WORDS];
	struct jwt_claims c = { .issued_s = 1, .expires_s = 60 };

	for (size_t i = 0; i < WORDS; i++)
		words[i] = word_of(&rest, space[i]);
	c.issuer = words[0];
	c.subject = words[1];
	c.audience = words[2];
	c.scope = words[3];
	c.key_id = words[4];
	cred_init(&out, 2 * JWT_MAX);
	need(jwt_put(&out, JWT_ES256, str_from(rfc7515_ec_key), &c) == ST_OK);
	check(cred_since(&out, 0), &c);
	return 0;
}
