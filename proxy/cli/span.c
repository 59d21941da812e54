#include "proxy/cli/span.h"

#include <stdio.h>
#include <time.h>

#include "proxy/base/num.h"

enum { SPAN_MAX = 1000000000 };

bool
span_read(struct str text, uint64_t *ret_s)
{
	static const struct {
		char unit;
		uint64_t seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
	uint64_t n = 0;

	if (text.n < 2 || !num_parse_u64(str_head(text, text.n - 1), SPAN_MAX, &n))
		return false;
	for (size_t i = 0; i < COUNT_OF(units); i++) {
		if (text.p[text.n - 1] == units[i].unit) {
			*ret_s = n * units[i].seconds;
			return true;
		}
	}
	return false;
}

void
span_shorten(uint64_t s, char ret_text[SPAN_SHORT])
{
	static const struct {
		char unit;
		uint64_t seconds;
	} units[] = { { 'd', 86400 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
	size_t i = 0;

	while (i + 1 < COUNT_OF(units) && s / units[i].seconds < 2)
		i++;
	(void)snprintf(ret_text, SPAN_SHORT, "%llu%c",
		       (unsigned long long)num_min(s / units[i].seconds, SPAN_MAX),
		       units[i].unit);
}

bool
span_read_point(struct str text, uint64_t *ret_s)
{
	struct tm tm = { 0 };
	char copy[32];

	if (text.n >= sizeof copy)
		return false;
	(void)snprintf(copy, sizeof copy, "%.*s", STR_ARG(text));
	const char *end = strptime(copy, "%Y-%m-%dT%H:%M:%S", &tm);
	if (end == NULL)
		return false;
	struct str rest = str_from(end);
	if (rest.n > 0 && rest.p[0] == '.')
		do
			rest = str_skip(rest, 1);
		while (rest.n > 0 && ascii_is_digit(rest.p[0]));
	time_t at = timegm(&tm);
	if (!str_eq(rest, STR("Z")) || at < 0)
		return false;
	*ret_s = (uint64_t)at;
	return true;
}
