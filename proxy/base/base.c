#include "proxy/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATUS(name, code, http, socks, rcode, alert, sentence, hint)                  \
	[ST_##name] = { (code), (http), (socks), (rcode), (alert), (sentence), (hint) },
static const struct status_words words[ST_COUNT] = {
#include "proxy/base/status.def"
};
#undef STATUS

const struct status_words *
status_words(enum status st)
{
	need((size_t)st < ST_COUNT);
	return &words[st];
}

const char *
status_code(enum status st)
{
	return status_words(st)->code;
}

bool
status_by_code(const char *code, size_t n, enum status *ret_st)
{
	for (size_t i = 0; i < ST_COUNT; i++) {
		if (strlen(words[i].code) == n && memcmp(words[i].code, code, n) == 0) {
			*ret_st = (enum status)i;
			return true;
		}
	}
	return false;
}

void
need_failed(const char *what, const char *file, int line)
{
	(void)fprintf(stderr, "%s:%d: needed: %s\n", file, line, what);
	abort();
}
