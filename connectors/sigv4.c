#include "connectors/sigv4.h"

#include <time.h>

#include "connectors/mac.h"
#include "connectors/pair.h"

static const char scheme[] = "AWS4-HMAC-SHA256";

enum { DAY = 8, SECRET_MAX = 256 };

static void
put_digits(char *at, unsigned v, size_t n)
{
	while (n-- > 0) {
		at[n] = (char)('0' + v % 10);
		v /= 10;
	}
}

void
sigv4_date(uint64_t now_s, char ret_date[SIGV4_DATE])
{
	time_t t = (time_t)now_s;
	struct tm tm = { 0 };

	(void)gmtime_r(&t, &tm);
	put_digits(ret_date, (unsigned)(tm.tm_year + 1900), 4);
	put_digits(ret_date + 4, (unsigned)(tm.tm_mon + 1), 2);
	put_digits(ret_date + 6, (unsigned)tm.tm_mday, 2);
	ret_date[8] = 'T';
	put_digits(ret_date + 9, (unsigned)tm.tm_hour, 2);
	put_digits(ret_date + 11, (unsigned)tm.tm_min, 2);
	put_digits(ret_date + 13, (unsigned)tm.tm_sec, 2);
	ret_date[15] = 'Z';
}

static void
put_scope(struct cred *out, const struct sigv4_scope *scope)
{
	char date[SIGV4_DATE];

	sigv4_date(scope->now_s, date);
	cred_put(out, str_of(date, DAY));
	cred_putc(out, '/');
	cred_put(out, scope->region);
	cred_putc(out, '/');
	cred_put(out, scope->service);
	cred_put(out, STR("/aws4_request"));
}

/* key = HMAC(HMAC(HMAC(HMAC("AWS4" secret, day), region), service), "aws4_request") */
static enum status
signing_key(const struct sigv4_scope *scope, struct str secret, struct mac *ret_key)
{
	CLEANUP(cred_done) struct cred first = { 0 };
	char date[SIGV4_DATE];
	struct mac key = { .n = 0 };
	enum status st = ST_OK;

	sigv4_date(scope->now_s, date);
	cred_init(&first, SECRET_MAX);
	cred_put(&first, STR("AWS4"));
	cred_put(&first, secret);
	struct str last = cred_since(&first, 0);
	const struct str parts[] = { str_of(date, DAY), scope->region, scope->service,
				     STR("aws4_request") };

	st = first.st;
	for (size_t i = 0; st == ST_OK && i < COUNT_OF(parts); i++) {
		st = mac_keyed(MAC_HASH_SHA256, last, parts[i], &key);
		last = mac_view(&key);
	}
	if (st == ST_OK)
		*ret_key = key;
	mac_wipe(&key);
	return st;
}

static enum status
put_statement(struct cred *out, const struct canon *c, const struct sigv4_scope *scope)
{
	CLEANUP(cred_done) struct cred text = { 0 };
	char date[SIGV4_DATE];
	struct str canonical;
	struct mac digest;
	enum status st;

	cred_init(&text, canon_bound(c));
	canon_put(&text, c);
	st = cred_finish(&text, &canonical);
	if (st == ST_OK)
		st = mac_digest(MAC_HASH_SHA256, canonical, &digest);
	if (st != ST_OK)
		return st;
	sigv4_date(scope->now_s, date);
	cred_put(out, str_from(scheme));
	cred_putc(out, '\n');
	cred_put(out, str_of(date, sizeof date));
	cred_putc(out, '\n');
	put_scope(out, scope);
	cred_putc(out, '\n');
	cred_put_hex(out, mac_view(&digest));
	return out->st;
}

static enum status
signature(const struct canon *c, const struct sigv4_scope *scope, struct str secret,
	  struct mac *ret_signature)
{
	CLEANUP(cred_done) struct cred statement = { 0 };
	struct mac key = { .n = 0 };
	enum status st;

	cred_init(&statement, 512);
	st = put_statement(&statement, c, scope);
	if (st == ST_OK)
		st = signing_key(scope, secret, &key);
	if (st == ST_OK)
		st = mac_keyed(MAC_HASH_SHA256, mac_view(&key),
			       cred_since(&statement, 0), ret_signature);
	mac_wipe(&key);
	return st;
}

enum status
sigv4_put_authorization(struct cred *out, const struct canon *c,
			const struct sigv4_scope *scope, const struct sigv4_keys *keys)
{
	struct mac m;
	enum status st = signature(c, scope, keys->secret, &m);

	if (st != ST_OK)
		return st;
	cred_put(out, str_from(scheme));
	cred_put(out, STR(" Credential="));
	cred_put(out, keys->id);
	cred_putc(out, '/');
	put_scope(out, scope);
	cred_put(out, STR(", SignedHeaders="));
	canon_put_names(out, c);
	cred_put(out, STR(", Signature="));
	cred_put_hex(out, mac_view(&m));
	return out->st;
}

static bool
says_4a(const struct field *f)
{
	return (f->token == TOKEN_AUTHORIZATION &&
		str_starts(f->value, STR("AWS4-ECDSA-"))) ||
	       str_ieq(f->name, STR("x-amz-region-set"));
}

/* Chunks with signatures are signed by whoever holds the key; chunks without, and the
 * trailer with a plain checksum, need none. */
static bool
says_chunk_signatures(const struct field *f)
{
	return str_ieq(f->name, STR("x-amz-content-sha256")) &&
	       str_starts(f->value, STR("STREAMING-")) &&
	       !str_eq(f->value, STR("STREAMING-UNSIGNED-PAYLOAD-TRAILER"));
}

enum status
sigv4_refuses(const struct head *h, struct str query)
{
	if (pair_has(query, STR("X-Amz-Signature")) ||
	    pair_has(query, STR("X-Amz-Algorithm")))
		return ST_SIGV4_FORM;
	for (size_t i = 0; i < h->fields_len; i++)
		if (says_4a(&h->fields[i]) || says_chunk_signatures(&h->fields[i]))
			return ST_SIGV4_FORM;
	return ST_OK;
}
