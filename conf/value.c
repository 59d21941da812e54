#include "conf/value.h"

#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"

enum { TEXT_MAX_LEN = 4096 };

struct unit {
	const char *word;
	uint64_t factor;
};

static const struct unit durations[] = {
	{ "ms", 1 },    { "s", 1000 },    { "min", 60000 },
	{ "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
};
static const struct unit sizes[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "KiB", 1024 },
	{ "MiB", 1048576 },
	{ "GiB", 1073741824 },
	{ "TiB", 1099511627776 },
};

static bool
is_scalar(struct report *r, const struct node *n)
{
	if (n->kind == NODE_SCALAR)
		return true;
	report_error(r, n->at, "%s where one value belongs", node_kind_name(n->kind));
	return false;
}

bool
value_text(struct report *r, const struct node *n, struct str *ret_s)
{
	if (!is_scalar(r, n))
		return false;
	if (n->text.n == 0 && !n->is_quoted) {
		report_error(r, n->at, "a value is missing");
		return false;
	}
	if (n->text.n > TEXT_MAX_LEN || str_has(n->text, '\0')) {
		report_error(r, n->at, "longer than %d bytes or with a NUL byte",
			     TEXT_MAX_LEN);
		return false;
	}
	*ret_s = n->text;
	return true;
}

bool
value_flag(struct report *r, const struct node *n, bool *ret_f)
{
	if (!is_scalar(r, n))
		return false;
	bool is_true = str_eq(n->text, STR("true"));
	if (!is_true && !str_eq(n->text, STR("false"))) {
		report_error(r, n->at, "`%.*s` is neither true nor false",
			     STR_ARG(n->text));
		return false;
	}
	*ret_f = is_true;
	return true;
}

bool
value_number(struct report *r, const struct node *n, uint64_t least, uint64_t most,
	     uint64_t *ret_v)
{
	uint64_t v;

	if (!is_scalar(r, n))
		return false;
	if (!num_parse_strict(n->text, UINT64_MAX, &v)) {
		report_error(r, n->at, "`%.*s` is not a whole number",
			     STR_ARG(n->text));
		return false;
	}
	if (v < least || v > most) {
		report_error(r, n->at, "%.*s is out of bounds: %llu to %llu",
			     STR_ARG(n->text), (unsigned long long)least,
			     (unsigned long long)most);
		return false;
	}
	*ret_v = v;
	return true;
}

static bool
with_unit(struct str s, const struct unit *units, size_t units_n, uint64_t *ret_v)
{
	size_t digits = 0;
	uint64_t v;
	size_t product;

	while (digits < s.n && ascii_is_digit(s.p[digits]))
		digits++;
	if (!num_parse_strict(str_head(s, digits), UINT64_MAX, &v))
		return false;
	struct str word = str_skip(s, digits);
	for (size_t i = 0; i < units_n; i++) {
		if (!str_eq(word, str_from(units[i].word)))
			continue;
		if (!num_mul(v, units[i].factor, &product))
			return false;
		*ret_v = product;
		return true;
	}
	return false;
}

bool
value_parse_duration(struct str s, uint64_t *ret_ms)
{
	if (str_eq(s, STR("0"))) {
		*ret_ms = 0;
		return true;
	}
	return with_unit(s, durations, COUNT_OF(durations), ret_ms);
}

bool
value_parse_size(struct str s, uint64_t *ret_bytes)
{
	return with_unit(s, sizes, COUNT_OF(sizes), ret_bytes);
}

bool
value_duration(struct report *r, const struct node *n, uint64_t least, uint64_t most,
	       uint64_t *ret_ms)
{
	uint64_t v;

	if (!is_scalar(r, n))
		return false;
	if (!value_parse_duration(n->text, &v)) {
		report_error(r, n->at,
			     "`%.*s` is not a time; write a whole number and ms, s, m, "
			     "h or d",
			     STR_ARG(n->text));
		return false;
	}
	if (v < least || v > most) {
		report_error(r, n->at, "%.*s is out of bounds: %llums to %llums",
			     STR_ARG(n->text), (unsigned long long)least,
			     (unsigned long long)most);
		return false;
	}
	*ret_ms = v;
	return true;
}

bool
value_size(struct report *r, const struct node *n, uint64_t least, uint64_t most,
	   uint64_t *ret_bytes)
{
	uint64_t v;

	if (!is_scalar(r, n))
		return false;
	if (!value_parse_size(n->text, &v)) {
		report_error(r, n->at,
			     "`%.*s` is not a size; write a whole number and KiB, MiB, "
			     "GiB or nothing",
			     STR_ARG(n->text));
		return false;
	}
	if (v < least || v > most) {
		report_error(r, n->at, "%.*s is out of bounds: %llu to %llu bytes",
			     STR_ARG(n->text), (unsigned long long)least,
			     (unsigned long long)most);
		return false;
	}
	*ret_bytes = v;
	return true;
}

bool
value_choice(struct report *r, const struct node *n, struct str words, uint64_t *ret_i)
{
	struct str rest = words;

	if (!is_scalar(r, n))
		return false;
	for (uint64_t i = 0; rest.p != NULL; i++) {
		if (str_eq(str_cut(&rest, '|'), n->text)) {
			*ret_i = i;
			return true;
		}
	}
	struct str near = report_nearest(n->text, words);
	if (near.p != NULL)
		report_error(r, n->at, "`%.*s` is not one of %.*s; did you mean %.*s?",
			     STR_ARG(n->text), STR_ARG(words), STR_ARG(near));
	else
		report_error(r, n->at, "`%.*s` is not one of %.*s", STR_ARG(n->text),
			     STR_ARG(words));
	return false;
}

static bool
parse_port(struct str s, uint16_t *ret_port)
{
	uint64_t v;

	if (!num_parse_strict(s, UINT16_MAX, &v) || v == 0)
		return false;
	*ret_port = (uint16_t)v;
	return true;
}

bool
value_ports(struct report *r, const struct node *n, uint16_t *ret_low,
	    uint16_t *ret_high)
{
	uint16_t low = 0, high = 0;

	if (!is_scalar(r, n))
		return false;
	struct str rest = n->text, first = str_cut(&rest, '-');
	bool ok = parse_port(first, &low);
	if (ok && rest.p == NULL)
		high = low;
	else
		ok = ok && parse_port(rest, &high);
	if (!ok) {
		report_error(r, n->at,
			     "`%.*s` is not a port; write 1 to 65535, or a range like "
			     "9000-9100",
			     STR_ARG(n->text));
		return false;
	}
	if (high < low) {
		report_error(r, n->at, "the range %.*s ends before it starts",
			     STR_ARG(n->text));
		return false;
	}
	*ret_low = low;
	*ret_high = high;
	return true;
}

bool
value_addr(struct report *r, const struct node *n, struct addr *ret_a)
{
	struct addr a = { 0 };

	if (!is_scalar(r, n))
		return false;
	if (!addr_parse(n->text, &a)) {
		report_error(r, n->at, "`%.*s` is not an IP address", STR_ARG(n->text));
		return false;
	}
	*ret_a = a;
	return true;
}

bool
value_cidr(struct report *r, const struct node *n, struct cidr *ret_c)
{
	struct cidr c = { 0 };

	if (!is_scalar(r, n))
		return false;
	if (!str_has(n->text, '/') && addr_parse(n->text, &c.net))
		c.bits = c.net.family == 4 ? 32 : 128;
	else if (!cidr_parse(n->text, &c)) {
		report_error(r, n->at,
			     "`%.*s` is not a range of addresses like 10.0.0.0/8 (bits "
			     "behind the prefix must be 0)",
			     STR_ARG(n->text));
		return false;
	}
	*ret_c = c;
	return true;
}

/* The host part without brackets and the text behind the colon (p == NULL: none). */
static bool
split_addr(struct str s, struct str *ret_host, struct str *ret_port)
{
	struct str rest = s;

	if (!str_starts(s, STR("["))) {
		*ret_host = str_cut(&rest, ':');
		*ret_port = rest;
		return true;
	}
	rest = str_skip(s, 1);
	*ret_host = str_cut(&rest, ']');
	if (rest.n == 0) {
		*ret_port = (struct str){ NULL, 0 };
		return rest.p != NULL;
	}
	*ret_port = str_skip(rest, 1);
	return rest.p[0] == ':';
}

bool
value_addr_port(struct report *r, const struct node *n, uint16_t default_port,
		struct addr *ret_a, uint16_t *ret_port)
{
	struct addr a = { 0 };
	struct str host, port_text;
	uint16_t port = default_port;

	if (!is_scalar(r, n))
		return false;
	bool ok = split_addr(n->text, &host, &port_text) && addr_parse(host, &a) &&
		  (a.family == 6) == str_starts(n->text, STR("["));
	/* Without a port an IPv6 address needs no brackets. */
	if (!ok && default_port != 0 && addr_parse(n->text, &a)) {
		port_text = (struct str){ NULL, 0 };
		ok = true;
	}
	if (!ok || (port_text.p != NULL && !parse_port(port_text, &port)) ||
	    port == 0) {
		report_error(
			r, n->at,
			"`%.*s` is not ADDRESS:PORT, like 127.0.0.1:3128 or [::1]:3128",
			STR_ARG(n->text));
		return false;
	}
	*ret_a = a;
	*ret_port = port;
	return true;
}

bool
value_sha256(struct report *r, const struct node *n, uint8_t ret_hash[32])
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 64);
	if (!is_scalar(r, n))
		return false;
	if (n->text.n != 64 || !enc_get_hex(&b, n->text) || b.len != 32) {
		report_error(r, n->at,
			     "not a SHA-256: 64 hex digits; make one with `sha256sum`");
		return false;
	}
	memcpy(ret_hash, b.p, 32);
	return true;
}

bool
value_name(struct report *r, const struct node *n, struct str *ret_s)
{
	if (!is_scalar(r, n))
		return false;
	if (!str_is_name(n->text)) {
		report_error(r, n->at,
			     "`%.*s` is not a name: letters, digits, `-`, `_` and `.`, "
			     "at most %d",
			     STR_ARG(n->text), STR_NAME_MAX);
		return false;
	}
	*ret_s = n->text;
	return true;
}
