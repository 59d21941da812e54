#include "proxy/http/params.h"

#include "proxy/base/enc.h"

bool
params_next(struct str *rest, struct str *ret_name, struct str *ret_value)
{
	while (rest->n > 0) {
		struct str value = str_cut(rest, '&');
		if (value.n == 0)
			continue;
		*ret_name = str_cut(&value, '=');
		*ret_value = value;
		return true;
	}
	return false;
}

static char
take_octet(struct str *s)
{
	char c = s->p[0];
	int hi = s->n > 2 && c == '%' ? enc_hex_digit(s->p[1]) : -1;
	int lo = hi < 0 ? -1 : enc_hex_digit(s->p[2]);

	*s = str_skip(*s, lo < 0 ? 1 : 3);
	if (lo >= 0)
		return (char)(hi << 4 | lo);
	if (c == '+')
		return ' ';
	return c;
}

bool
params_is(struct str coded, struct str plain)
{
	while (coded.n > 0 && plain.n > 0) {
		if (take_octet(&coded) != plain.p[0])
			return false;
		plain = str_skip(plain, 1);
	}
	return coded.n == 0 && plain.n == 0;
}

bool
params_is_folded(struct str coded, struct str plain)
{
	while (coded.n > 0 && plain.n > 0) {
		if (ascii_lower(take_octet(&coded)) != ascii_lower(plain.p[0]))
			return false;
		plain = str_skip(plain, 1);
	}
	return coded.n == 0 && plain.n == 0;
}

void
params_put(struct buf *b, struct str coded)
{
	while (coded.n > 0)
		buf_putc(b, take_octet(&coded));
}

enum status
params_find(struct str query, struct str name, struct str *ret_value)
{
	struct str key, value, found = { NULL, 0 };
	size_t seen = 0;

	while (params_next(&query, &key, &value)) {
		if (!params_is(key, name))
			continue;
		found = value;
		seen++;
	}
	if (seen == 1)
		*ret_value = found;
	return seen == 0 ? ST_NOT_FOUND : seen == 1 ? ST_OK : ST_BAD_TARGET;
}
