#include "conf/option.h"

#include <unistd.h>

#include "conf/value.h"
#include "proxy/base/num.h"

/* Apart from the table, which every role reads: reading values leads to the YAML
 * reader, and that is the compiler's alone. */

static uint64_t
choice_index(struct str words, struct str word)
{
	for (uint64_t i = 0; words.p != NULL; i++)
		if (str_eq(str_cut(&words, '|'), word))
			return i;
	return 0;
}

/* auto: one for each two processors. */
static uint64_t
workers(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 2 ? 1 : num_min((size_t)n / 2, 64);
}

uint64_t
option_default_number(enum option opt)
{
	const struct option_row *row = option_row(opt);
	struct str text = str_from(row->fallback);
	uint64_t v = 0;
	bool ok = true;

	if (str_eq(text, STR("auto")))
		return workers();
	if (row->type == OPTION_NUMBER)
		ok = num_parse_strict(text, UINT64_MAX, &v);
	else if (row->type == OPTION_DURATION)
		ok = value_parse_duration(text, &v);
	else if (row->type == OPTION_SIZE)
		ok = value_parse_size(text, &v);
	else if (row->type == OPTION_FLAG)
		v = str_eq(text, STR("true"));
	else if (row->type == OPTION_CHOICE)
		v = choice_index(str_from(row->unit), text);
	need(ok); /* our own table */
	return v;
}
