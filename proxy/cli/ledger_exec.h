#ifndef PROXY_CLI_LEDGER_EXEC_H
#define PROXY_CLI_LEDGER_EXEC_H
/*
 * ledger_exec: what a row tells of an execution request, for people.  Its texts were
 * chosen by who is watched, and its object perhaps written by a process that was taken:
 * nothing of it moves the cursor, and what is no object is shown as the text it is.
 */
#include <jansson.h>

#include "proxy/io/row.h"

/* The object of row.exec; NULL: it is none.  json_decref() it. */
json_t *ledger_exec_load(struct str exec);
/* A member that is text; "" where there is none. */
struct str ledger_exec_str(const json_t *exec, const char *key);
/* Which approval it names, as `approvals list` has it: control writes a number, the worker an
 * id.  What is neither is as it stands; empty: none.  In b, or a view into exec. */
struct str ledger_exec_approval(const json_t *exec, struct buf *b);

/* In one line, escaped as in C. */
void ledger_exec_put_shown(struct buf *b, struct str s);
/* Each of its lines behind the indent, and with an end. */
void ledger_exec_put_lines(struct buf *b, const char *indent, struct str s);

/* What was to run, in one line: a command, its words, code or paths. */
void ledger_exec_put_text(struct buf *b, const json_t *exec);
/* " exit=0 ms=12 stdout=9 up=1 down=2": how it ended, as far as the row tells. */
void ledger_exec_put_end(struct buf *b, const struct row *r, const json_t *exec);
/* The line of `audit --exec`. */
void ledger_exec_put_line(struct buf *b, const struct row *r);
/* All members but op, a line for each, and more for files and texts of more lines. */
void ledger_exec_put_all(struct buf *b, const char *indent, const json_t *exec);

#endif
