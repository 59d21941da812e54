#include "conf/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"

enum { TEXT_MAX = 600, WORD_MAX = 48, ARENA_MAX = 8 * 1024 * 1024 };

enum status
report_init(struct report *r)
{
	*r = (struct report){ 0 };
	arena_init(&r->arena, ARENA_MAX);
	r->lines = arena_alloc(&r->arena, REPORT_MAX * sizeof *r->lines);
	return r->lines == NULL ? ST_NOMEM : ST_OK;
}

void
report_done(struct report *r)
{
	arena_done(&r->arena);
	*r = (struct report){ 0 };
}

PRINTF(4, 0)
static void
add(struct report *r, struct place at, bool is_warning, const char *fmt, va_list args)
{
	char text[TEXT_MAX];
	size_t *count = is_warning ? &r->warnings : &r->errors;

	(*count)++;
	if (r->lines_n == REPORT_MAX)
		return;
	int n = vsnprintf(text, sizeof text, fmt, args);
	if (n < 0)
		n = 0;
	struct str s = str_of(text, num_min((size_t)n, sizeof text - 1));
	r->lines[r->lines_n++] = (struct report_line){ { arena_copy(&r->arena, at.file),
							 at.line, at.column },
						       arena_copy(&r->arena, s),
						       is_warning };
}

void
report_error(struct report *r, struct place at, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add(r, at, false, fmt, args);
	va_end(args);
}

void
report_warning(struct report *r, struct place at, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add(r, at, true, fmt, args);
	va_end(args);
}

static int
compare_lines(const void *left, const void *right)
{
	const struct report_line *a = left, *b = right;
	size_t n = num_min(a->at.file.n, b->at.file.n);
	int c = n == 0 ? 0 : memcmp(a->at.file.p, b->at.file.p, n);

	if (c != 0 || a->at.file.n != b->at.file.n)
		return c != 0 ? c : (a->at.file.n < b->at.file.n ? -1 : 1);
	if (a->at.line != b->at.line)
		return a->at.line < b->at.line ? -1 : 1;
	return (a->at.column > b->at.column) - (a->at.column < b->at.column);
}

static void
sort(struct report *r)
{
	if (r->lines_n > 1)
		qsort(r->lines, r->lines_n, sizeof *r->lines, compare_lines);
}

/* Text out of the file may hold anything; a terminal or a log gets printable bytes. */
static void
put_printable(struct buf *b, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c < 0x20 || c == 0x7f)
			buf_putf(b, "\\x%02x", c);
		else
			buf_putc(b, (char)c);
	}
}

static void
put_line(struct buf *b, const struct report_line *l)
{
	put_printable(b, l->at.file);
	if (l->at.line > 0)
		buf_putf(b, ":%u:%u", l->at.line, l->at.column);
	buf_put(b, l->is_warning ? STR(": warning: ") : STR(": "));
	put_printable(b, l->text);
	buf_putc(b, '\n');
}

/* Takes the line over into out if all of it fits. */
static void
put_whole(struct buf *out, struct buf *line)
{
	struct str view;

	if (buf_finish(line, &view) == ST_OK && view.n <= out->max - out->len)
		buf_put(out, view);
	buf_clear(line);
}

void
report_put(struct buf *b, struct report *r)
{
	CLEANUP(buf_done) struct buf line = { 0 };
	size_t all = r->errors + r->warnings;

	buf_init(&line, 65536);
	sort(r);
	for (size_t i = 0; i < r->lines_n; i++) {
		put_line(&line, &r->lines[i]);
		put_whole(b, &line);
	}
	if (all > r->lines_n)
		buf_putf(&line, "and %zu more\n", all - r->lines_n);
	put_whole(b, &line);
}

static void
put_json(struct buf *b, const struct report_line *l)
{
	buf_put(b, STR("{\"file\":"));
	buf_put_json(b, l->at.file);
	buf_putf(b,
		 ",\"line\":%u,\"column\":%u,\"level\":\"%s\",\"message\":", l->at.line,
		 l->at.column, l->is_warning ? "warning" : "error");
	buf_put_json(b, l->text);
	buf_putc(b, '}');
}

void
report_put_json(struct buf *b, struct report *r)
{
	sort(r);
	buf_putc(b, '[');
	for (size_t i = 0; i < r->lines_n; i++) {
		if (i > 0)
			buf_putc(b, ',');
		put_json(b, &r->lines[i]);
	}
	buf_putc(b, ']');
}

static size_t
min3(size_t a, size_t b, size_t c)
{
	return num_min(a, num_min(b, c));
}

/* Levenshtein, two rows; both at most WORD_MAX long. */
static size_t
distance(struct str a, struct str b)
{
	size_t row[WORD_MAX + 1], before[WORD_MAX + 1];

	for (size_t j = 0; j <= b.n; j++)
		before[j] = j;
	for (size_t i = 1; i <= a.n; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b.n; j++) {
			size_t differs =
				ascii_lower(a.p[i - 1]) != ascii_lower(b.p[j - 1]);
			row[j] = min3(row[j - 1] + 1, before[j] + 1,
				      before[j - 1] + differs);
		}
		memcpy(before, row, sizeof row);
	}
	return before[b.n];
}

static bool
is_before(struct str a, struct str b)
{
	int c = memcmp(a.p, b.p, num_min(a.n, b.n));

	return c < 0 || (c == 0 && a.n < b.n);
}

struct str
report_nearest(struct str typed, struct str words)
{
	struct str best = { NULL, 0 };
	size_t least = SIZE_MAX;

	if (typed.n == 0 || typed.n > WORD_MAX)
		return best;
	while (words.p != NULL) {
		struct str word = str_cut(&words, '|');
		if (word.n == 0 || word.n > WORD_MAX)
			continue;
		size_t d = distance(typed, word);
		/* A third of the word wrong is still a mistake, more is another word.
		 */
		if (d > least || d > 1 + num_max(typed.n, word.n) / 3)
			continue;
		/* Of those equally near the first by name: their order is a map's. */
		if (best.p == NULL || d < least || is_before(word, best)) {
			least = d;
			best = word;
		}
	}
	return best;
}
