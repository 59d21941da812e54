#include "connectors/pair.h"

#include "proxy/base/enc.h"

bool
pair_next(struct str *rest, struct pair *ret_pair)
{
	while (rest->n > 0) {
		struct str raw = str_cut(rest, '&'), value = raw, name;

		if (raw.n == 0)
			continue;
		name = str_cut(&value, '=');
		if (value.p == NULL)
			value = str_skip(raw, raw.n);
		*ret_pair = (struct pair){ raw, name, value };
		return true;
	}
	return false;
}

char
pair_octet(struct str *text, bool plus_is_space)
{
	char c = text->p[0];
	int hi = text->n >= 3 ? enc_hex_digit(text->p[1]) : -1;
	int lo = text->n >= 3 ? enc_hex_digit(text->p[2]) : -1;

	if (c == '%' && hi >= 0 && lo >= 0) {
		*text = str_skip(*text, 3);
		return (char)(hi << 4 | lo);
	}
	*text = str_skip(*text, 1);
	if (c == '+' && plus_is_space)
		return ' ';
	return c;
}

/* Octets are compared decoded, without the blanks that some servers drop in front. */
static bool
is_named(struct str encoded, struct str name)
{
	char octet = ' ';

	while (encoded.n > 0 && octet == ' ')
		octet = ascii_lower(pair_octet(&encoded, true));
	while (name.n > 0 && octet == ascii_lower(name.p[0])) {
		name = str_skip(name, 1);
		if (encoded.n == 0)
			return name.n == 0;
		octet = ascii_lower(pair_octet(&encoded, true));
	}
	return false;
}

bool
pair_is_named(const struct pair *pair, struct str name)
{
	struct str rest = pair->raw;

	if (is_named(pair->name, name))
		return true;
	/* Old servers end a pair at ';' too. */
	while (rest.p != NULL) {
		struct str part = str_cut(&rest, ';');
		if (is_named(str_cut(&part, '='), name))
			return true;
	}
	return false;
}

void
pair_put_without(struct cred *out, struct str query, struct str name, bool *is_first)
{
	struct pair pair;

	while (pair_next(&query, &pair)) {
		if (pair_is_named(&pair, name))
			continue;
		if (!*is_first)
			cred_putc(out, '&');
		cred_put(out, pair.raw);
		*is_first = false;
	}
}

bool
pair_has(struct str query, struct str name)
{
	struct pair pair;

	while (pair_next(&query, &pair))
		if (pair_is_named(&pair, name))
			return true;
	return false;
}
