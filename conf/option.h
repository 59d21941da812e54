#ifndef CONF_OPTION_H
#define CONF_OPTION_H
/* option: the rows of options.def at run time, for the parser, the manual and the
 * schema. */
#include "conf/image.h"

enum option_type {
	OPTION_NUMBER,
	OPTION_DURATION,
	OPTION_SIZE,
	OPTION_FLAG,
	OPTION_TEXT,
	OPTION_CHOICE,
};

struct option_row {
	const char *key; /* "limits.connections" */
	enum option_type type;
	uint64_t least, most;
	const char *fallback, *unit, *help;
};

const struct option_row *option_row(enum option opt);
/* OPT_COUNT: no such key. */
enum option option_by_key(struct str key);
/* How many words a CHOICE has. */
uint64_t option_choices(const struct option_row *row);
/* The value of the default as image_number() gives it; 0 for text. */
uint64_t option_default_number(enum option opt);

#endif
