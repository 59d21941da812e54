#include "proxy/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "proxy/base/clock.h"

static const char *const names[] = { "error", "info", "debug" };

/* Terminal escapes and line breaks in a peer's text must not forge lines. */
static void
put_clean(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c < 0x20 || c >= 0x7f)
			buf_putf(b, "\\x%02x", c);
		else
			buf_putc(b, s.p[i]);
	}
}

void
log_write(const struct log *l, enum log_level level, const char *fmt, ...)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	char text[1024];
	va_list ap;
	struct str line;

	if (level > l->level)
		return;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	size_t len = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;

	buf_init(&b, 8192);
	clock_put(&b, clock_wall_us());
	buf_putf(&b, " %s %s: ", l->role, names[level]);
	put_clean(&b, str_of(text, len));
	buf_putc(&b, '\n');
	if (buf_finish(&b, &line) == ST_OK && write(STDERR_FILENO, line.p, line.n) < 0)
		return; /* nowhere left to say so */
}
