#ifndef PROXY_FLOW_PTY_LINE_H
#define PROXY_FLOW_PTY_LINE_H
/*
 * pty_line: what is typed into a terminal, line by line, as a shell that reads its input
 * with simple editing would take it: backspace (8, 127), ^W, ^U and ^C take back, CR or LF
 * ends, marks of bracketed paste are left out.
 *
 * A line that ends with a backslash is told, and once more with the line that continues it.  ^D,
 * ^O and ^X may hand over what there is: so much is told, not whole, and stays.  Where it isn't
 * known what keys did (nor where the cursor is), nothing is believed to be taken back, and a
 * line feed stands for them: what comes behind it may stand elsewhere, or by itself.
 *
 * It is a guess by nature.  What programs do with keys that it doesn't know (arrows, history,
 * completion, ^R, a program in raw mode) can't be seen here, and neither can what was typed
 * before this connection: a line with such keys in it is not whole.  Nor are the parts, which
 * overlap by half, in which one is told that is longer than PTY_LINE_MAX.
 */
#include "proxy/base/str.h"

enum { PTY_LINE_MAX = 4096 };

struct pty_line {
	char text[PTY_LINE_MAX];
	size_t n;
	bool is_odd; /* keys in it did something that is not known */
	bool is_tty; /* the caller's: there is a terminal, which takes back what keys say */
	uint8_t escape;
	uint8_t parameters_n;
	char parameters[8]; /* of a control sequence */
};

/* A line is over; the view is good for the call.  The empty line is none, if whole. */
typedef void (*pty_line_fn)(void *ctx, struct str line, bool is_whole);

void pty_line_init(struct pty_line *l);
void pty_line_put(struct pty_line *l, struct str typed, pty_line_fn fn, void *ctx);
/* Nothing more comes; what stands there without its end is told, not whole. */
void pty_line_end(struct pty_line *l, pty_line_fn fn, void *ctx);

#endif
