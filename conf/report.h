#ifndef CONF_REPORT_H
#define CONF_REPORT_H
/*
 * report: what is wrong with a configuration, all of it in one go, each line with its
 * place.  Errors refuse the file; warnings don't.  Above REPORT_MAX lines only the
 * number grows.
 */
#include "proxy/base/arena.h"
#include "proxy/base/buf.h"

enum { REPORT_MAX = 500 };

struct place {
	struct str file;
	uint32_t line, column; /* from 1; 0: the file as a whole */
};

struct report_line {
	struct place at;
	struct str text;
	bool is_warning;
};

struct report {
	struct arena arena;
	struct report_line *lines; /* REPORT_MAX */
	size_t lines_n, errors, warnings;
};

enum status report_init(struct report *r) MUSTCHECK;
void report_done(struct report *r);

void report_error(struct report *r, struct place at, const char *fmt, ...) PRINTF(3, 4);
void report_warning(struct report *r, struct place at, const char *fmt, ...)
	PRINTF(3, 4);

/* "file:line:col: text", in the order of the files and their lines.  What no longer
 * fits into the buf is left out, whole lines only. */
void report_put(struct buf *b, struct report *r);
/* [{"file":,"line":,"column":,"level":,"message":}, ...] */
void report_put_json(struct buf *b, struct report *r);

/*
 * The word that a typing mistake may have meant: the nearest of the words, separated
 * by '|' in one string, if it is near enough; else p == NULL.
 */
struct str report_nearest(struct str typed, struct str words);

#endif
