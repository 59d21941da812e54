#ifndef TESTS_UNIT_STATUS_ROW_H
#define TESTS_UNIT_STATUS_ROW_H
/* status_row: a text, and what reading it comes to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proxy/base/base.h"

struct row {
	const char *text;
	enum status want;
};

static inline void
expect(const char *text, enum status got, enum status want)
{
	if (got != want)
		fail_msg("%s: %s, not %s", text, status_code(got), status_code(want));
}

#endif
