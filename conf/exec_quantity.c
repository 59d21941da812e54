/* Quantities: a decimal number with at most three digits behind the point, and a unit. */
#include "conf/exec.h"
#include "proxy/base/num.h"

struct unit {
	const char *word;
	uint64_t size;
};

static const struct unit cpu_units[] = { { "m", 1 }, { "", 1000 } };
static const struct unit memory_units[] = {
	{ "Ki", UINT64_C(1) << 10 },
	{ "Mi", UINT64_C(1) << 20 },
	{ "Gi", UINT64_C(1) << 30 },
	{ "Ti", UINT64_C(1) << 40 },
	{ "Pi", UINT64_C(1) << 50 },
	{ "k", UINT64_C(1000) },
	{ "M", UINT64_C(1000000) },
	{ "G", UINT64_C(1000000000) },
	{ "T", UINT64_C(1000000000000) },
	{ "P", UINT64_C(1000000000000000) },
	{ "", 1 },
};

/* The digits at the beginning. */
static struct str
cut_digits(struct str *rest)
{
	size_t n = 0;

	while (n < rest->n && ascii_is_digit(rest->p[n]))
		n++;
	struct str digits = str_head(*rest, n);
	*rest = str_skip(*rest, n);
	return digits;
}

/* Thousandths behind the point, if there is one. */
static bool
cut_fraction(struct str *rest, uint64_t *ret_milli)
{
	uint64_t v = 0;

	*ret_milli = 0;
	if (!str_starts(*rest, STR(".")))
		return true;
	*rest = str_skip(*rest, 1);
	struct str digits = cut_digits(rest);
	if (digits.n == 0 || digits.n > 3)
		return false;
	for (size_t i = 0; i < 3; i++)
		v = v * 10 + (i < digits.n ? (uint64_t)(digits.p[i] - '0') : 0);
	*ret_milli = v;
	return true;
}

static bool
parse(struct str s, const struct unit *units, size_t units_n, uint64_t *ret_v)
{
	uint64_t whole, milli, size = 0;
	struct str digits = cut_digits(&s);

	if (!num_parse_strict(digits, UINT64_MAX / 2, &whole) ||
	    !cut_fraction(&s, &milli))
		return false;
	for (size_t i = 0; i < units_n && size == 0; i++)
		if (str_eq(s, str_from(units[i].word)))
			size = units[i].size;
	if (size == 0 || whole > UINT64_MAX / 2 / size)
		return false;
	*ret_v = whole * size + milli * size / 1000;
	return true;
}

bool
exec_parse_cpu(struct str s, uint64_t *ret_milli)
{
	return parse(s, cpu_units, COUNT_OF(cpu_units), ret_milli);
}

bool
exec_parse_memory(struct str s, uint64_t *ret_bytes)
{
	return parse(s, memory_units, COUNT_OF(memory_units), ret_bytes);
}
