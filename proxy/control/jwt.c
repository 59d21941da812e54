#include "proxy/control/jwt.h"

#include "proxy/base/enc.h"
#include "proxy/control/brain_json.h"

/* Seconds since 1970 that a number can tell: far beyond all clocks. */
static const double time_max = 9007199254740992.0; /* 2^53 */

enum { AUDIENCES_MAX = 64 };

/* The form. */

static json_t *
read_object(struct str part)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	json_t *j = NULL;

	buf_init(&text, JWT_TOKEN_MAX);
	if (enc_get_base64url(&text, part) && text.len > 0)
		j = json_loadb(text.p, text.len, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

/* RFC 8725 section 3.11: other things that an issuer signs are no tokens for us.
 * RFC 9068 calls an access token at+jwt. */
static bool
is_access(const json_t *header)
{
	static const char *const types[] = { "jwt", "at+jwt", "application/jwt",
					     "application/at+jwt" };
	struct str typ = brain_json_text(header, "typ");

	if (json_object_get(header, "typ") == NULL)
		return true;
	for (size_t i = 0; i < COUNT_OF(types); i++)
		if (str_ieq(typ, str_from(types[i])))
			return true;
	return false;
}

/* We understand no extension, so what must be understood is refused (RFC 7515 section
 * 4.1.11).  b64 and zip would change what is signed. */
static bool
is_plain(const json_t *header)
{
	static const char *const not_ours[] = { "crit", "b64", "zip", "enc", "cty" };
	const json_t *kid = json_object_get(header, "kid");

	for (size_t i = 0; i < COUNT_OF(not_ours); i++)
		if (json_object_get(header, not_ours[i]) != NULL)
			return false;
	return brain_json_text(header, "alg").p != NULL &&
	       (kid == NULL || json_is_string(kid));
}

static enum status
read_parts(struct str header, struct str claims, struct str signature, struct jwt *j)
{
	buf_init(&j->signature, JWT_TOKEN_MAX);
	if (!enc_get_base64url(&j->signature, signature) || j->signature.len == 0)
		return ST_KEY_INVALID;
	j->header = read_object(header);
	if (j->header == NULL || !is_access(j->header) || !is_plain(j->header))
		return ST_KEY_INVALID;
	j->claims = read_object(claims);
	return j->claims == NULL ? ST_KEY_INVALID : ST_OK;
}

enum status
jwt_read(struct str token, struct jwt *ret_j)
{
	struct jwt j = { .header = NULL };
	struct str rest = token, header, claims;
	enum status st;

	if (token.n == 0 || token.n > JWT_TOKEN_MAX)
		return ST_KEY_INVALID;
	header = str_cut(&rest, '.');
	claims = str_cut(&rest, '.');
	/* A '.' in what is left is no base64url: five parts are not three. */
	if (rest.p == NULL)
		return ST_KEY_INVALID;
	j.input = str_head(token, header.n + 1 + claims.n);
	st = read_parts(header, claims, rest, &j);
	if (st == ST_OK)
		*ret_j = j;
	else
		jwt_done(&j);
	return st;
}

void
jwt_done(struct jwt *j)
{
	json_decref(j->header);
	json_decref(j->claims);
	buf_done(&j->signature);
	j->header = j->claims = NULL;
}

struct str
jwt_text(const struct jwt *j, const char *claim)
{
	return brain_json_text(j->claims, claim);
}

/* The claims. */

/* NumericDate: maybe with a fraction.  False: no such number. */
static bool
get_time(const json_t *j, double *ret_s)
{
	double s;

	if (!json_is_number(j))
		return false;
	s = json_number_value(j);
	if (!(s >= 0 && s <= time_max))
		return false;
	*ret_s = s;
	return true;
}

static bool
is_in_time(const json_t *claims, uint64_t now_s)
{
	const json_t *nbf = json_object_get(claims, "nbf"),
		     *iat = json_object_get(claims, "iat");
	double exp = 0, from = 0, issued = 0, now = (double)now_s;

	if (!get_time(json_object_get(claims, "exp"), &exp) ||
	    (nbf != NULL && !get_time(nbf, &from)) ||
	    (iat != NULL && !get_time(iat, &issued)))
		return false;
	return now < exp + JWT_LEEWAY_S && now + JWT_LEEWAY_S >= from &&
	       now + JWT_LEEWAY_S >= issued;
}

/* One of several is enough, but all must be texts. */
static bool
is_for(const json_t *claims, struct str audience)
{
	const json_t *aud = json_object_get(claims, "aud"), *one;
	bool found = false;
	size_t i;

	if (json_is_string(aud))
		return str_eq(brain_json_text(claims, "aud"), audience);
	if (json_array_size(aud) > AUDIENCES_MAX)
		return false;
	json_array_foreach(aud, i, one)
	{
		if (!json_is_string(one))
			return false;
		found = found ||
			str_eq(str_of(json_string_value(one), json_string_length(one)),
			       audience);
	}
	return found;
}

bool
jwt_is_for(const struct jwt *j, const struct jwt_want *w)
{
	return w->issuer.n > 0 && w->audience.n > 0 &&
	       str_eq(jwt_text(j, "iss"), w->issuer) && is_for(j->claims, w->audience);
}

enum status
jwt_check(const struct jwt *j, const struct jwks *keys, const struct jwt_want *w)
{
	const struct jwks_signed s = {
		.alg = brain_json_text(j->header, "alg"),
		.kid = brain_json_text(j->header, "kid"),
		.input = j->input,
		.signature = str_of(j->signature.p, j->signature.len),
	};

	/* First what costs nothing: who waits for an issuer's new key shows a token that
	 * would be good with it. */
	if (!jwt_is_for(j, w) || !is_in_time(j->claims, w->now_s))
		return ST_KEY_INVALID;
	return keys == NULL ? ST_NOT_FOUND : jwks_verify(keys, &s);
}
