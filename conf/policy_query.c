/* The keys of a query, as application/x-www-form-urlencoded has them. */
#include "conf/policy_rule.h"

#include "proxy/base/enc.h"

/* The octet that key starts with after decoding; *ret_n is how many it took. */
static char
octet(struct str key, size_t *ret_n)
{
	int hi = key.n > 2 && key.p[0] == '%' ? enc_hex_digit(key.p[1]) : -1;
	int lo = hi < 0 ? -1 : enc_hex_digit(key.p[2]);

	*ret_n = lo < 0 ? 1 : 3;
	if (lo >= 0)
		return (char)((unsigned)hi << 4 | (unsigned)lo);
	if (key.p[0] == '+')
		return ' ';
	return key.p[0];
}

static bool
is_key(struct str word, struct str key)
{
	size_t used;

	while (key.n > 0 && word.n > 0 && octet(key, &used) == word.p[0]) {
		key = str_skip(key, used);
		word = str_skip(word, 1);
	}
	return key.n == 0 && word.n == 0;
}

bool
policy_may_be_key(struct str word, struct str key)
{
	size_t used;

	while (key.n > 0 && octet(key, &used) == ' ')
		key = str_skip(key, used);
	while (key.n > 0 && word.n > 0 &&
	       ascii_lower(octet(key, &used)) == ascii_lower(word.p[0])) {
		key = str_skip(key, used);
		word = str_skip(word, 1);
	}
	if (word.n > 0)
		return false;
	return key.n == 0 || octet(key, &used) == '[' || octet(key, &used) == '\0';
}

typedef bool (*key_fn)(struct str word, struct str key);

static bool
is_listed(const struct image *im, const struct image_rule *r, struct str key, key_fn is)
{
	for (uint32_t i = 0; i < r->query_n; i++)
		if (is(image_word(im, r->query + i), key))
			return true;
	return false;
}

/* The pair up to the next `&`, or `;`, where old servers end one too. */
static struct str
cut_pair(struct str *rest)
{
	struct str all = *rest, and = all, semicolon = all;
	struct str a = str_cut(&and, '&'), b = str_cut(&semicolon, ';');

	*rest = a.n < b.n ? and : semicolon;
	return a.n < b.n ? a : b;
}

bool
policy_next_key(struct str *rest, struct str *ret_key, struct str *ret_value)
{
	while (rest->p != NULL) {
		struct str value = cut_pair(rest);
		if (value.n == 0)
			continue;
		*ret_key = str_cut(&value, '=');
		*ret_value = value;
		return true;
	}
	return false;
}

bool
policy_query_fits(const struct image *im, const struct image_rule *r, struct str query)
{
	struct str key, value;

	while (r->query_n > 0 && policy_next_key(&query, &key, &value))
		if (!is_listed(im, r, key, is_key))
			return false;
	return true;
}

bool
policy_query_meets(const struct image *im, const struct image_rule *r, struct str query)
{
	struct str key, value;

	while (r->query_n > 0 && policy_next_key(&query, &key, &value))
		if (is_listed(im, r, key, policy_may_be_key))
			return true;
	return r->query_n == 0;
}
