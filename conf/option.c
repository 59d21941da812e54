#include "conf/option.h"

#define OPTION(name, key, type, min, max, def, unit, help)                             \
	[OPT_##name] = { (key), OPTION_##type, (min), (max), (def), (unit), (help) },
static const struct option_row rows[OPT_COUNT] = {
#include "conf/options.def"
};
#undef OPTION

const struct option_row *
option_row(enum option opt)
{
	need((size_t)opt < OPT_COUNT);
	return &rows[opt];
}

enum option
option_by_key(struct str key)
{
	for (size_t i = 0; i < OPT_COUNT; i++)
		if (str_eq(key, str_from(rows[i].key)))
			return (enum option)i;
	return OPT_COUNT;
}

uint64_t
option_choices(const struct option_row *row)
{
	struct str words = str_from(row->unit);
	uint64_t n = 0;

	for (; words.p != NULL; n++)
		(void)str_cut(&words, '|');
	return n;
}
