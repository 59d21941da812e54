#ifndef PROXY_IO_EXEC_NOTE_H
#define PROXY_IO_EXEC_NOTE_H
/*
 * exec_note: what a row tells of an execution request (row.h, `exec`), put together from
 * its parts.  Whatever they are, it is a JSON object of at most ROW_EXEC_MAX octets: texts
 * are redacted, then cut to EXEC_NOTE_TEXT or to what room there is; a list ends where it
 * would not fit.  Then "cut" is true in it, and "sha256" is of the first text that was cut,
 * whole and as it was, unless a hash of that name was put before.
 *
 *	{"op":"command.run","server":"standard","command":"make test","cwd":"/src"}
 *	{"op":"command.run","exit":0,"ms":812,"stdout":{"bytes":9,"sha256":"..."}}
 *
 * Keys are the caller's own words, each used once.  Out of memory the note is {"cut":true}.
 */
#include "proxy/base/redact.h"
#include "proxy/io/row.h"

enum { EXEC_NOTE_TEXT = 4096, EXEC_NOTE_HASH = 32 };

struct exec_note {
	struct buf b;
	struct redact_keep
		keep; /* the caller's, to set after begin; values that stay */
	bool is_first, is_first_file, is_cut, has_hash, is_hashed, has_files;
	uint8_t hash[EXEC_NOTE_HASH]; /* of what was cut, if is_hashed */
	uint64_t files_more;
};

struct exec_file {
	struct str path, owner; /* owner: user, or user:group; may be empty */
	uint64_t bytes;
	const uint8_t *hash; /* EXEC_NOTE_HASH octets; NULL: not known */
	uint16_t mode;       /* as execd takes it: 755; 0: not said */
};

void exec_note_begin(struct exec_note *n, struct str op);
void exec_note_done(struct exec_note *n); /* safe on a zeroed one */

/* An empty text is left out. */
void exec_note_text(struct exec_note *n, const char *key, struct str text);
/* All are shown, or as many as there is room for. */
void exec_note_list(struct exec_note *n, const char *key, const struct str *texts,
		    size_t count);
/* As a list; a value that stands behind its flag is redacted, too. */
void exec_note_argv(struct exec_note *n, const char *key, const struct str *argv,
		    size_t count);
void exec_note_number(struct exec_note *n, const char *key, int64_t v);
void exec_note_hash(struct exec_note *n, const char *key,
		    const uint8_t hash[EXEC_NOTE_HASH]);
/* "stdout": what came out. */
void exec_note_stream(struct exec_note *n, const char *key, uint64_t bytes,
		      const uint8_t hash[EXEC_NOTE_HASH]);
/* "files": what was moved.  Those that don't fit are counted in "files_more". */
void exec_note_files_begin(struct exec_note *n);
void exec_note_file(struct exec_note *n, const struct exec_file *f);
void exec_note_files_end(struct exec_note *n);

/* For row.exec; it lives until exec_note_done(). */
struct str exec_note_end(struct exec_note *n);

#endif
