#ifndef CONF_RISK_PRIVATE_H
#define CONF_RISK_PRIVATE_H
/*
 * What the readers of risk share.  A reader takes a text apart into deeds: one command,
 * one piece of code, one path.  A deed is facts, by the kinds of risk_conds.def; rules
 * are held against it.
 *
 * Bytes of a word that are not known before it runs ($X, $(...), *) are holes, which
 * meet whatever a pattern has there.  All memory is the run's arena; when that or the
 * work is used up, the text is unreadable.
 */
#include "conf/image_format.h"
#include "conf/risk.h"
#include "proxy/base/arena.h"

enum {
	HOLE_ANY = 1, /* anything */
	HOLE_PART = 2 /* anything without a slash */
};
enum { RISK_DEPTH_MAX = 8, RISK_HOLES_MAX = 256 };

struct risk_fact {
	struct str text;
	struct risk_fact *next;
};

struct risk_deed {
	struct risk_fact *fact[IMAGE_CONDS];
};

struct risk_run {
	const struct image *im;
	struct arena arena;
	struct risk_answer answer;
	enum risk_level otherwise, unreadable;
	size_t work; /* bytes that may still be looked at, again and again */
	unsigned depth, holes;
	struct str folder; /* where `cd` led; empty: not known */
};

struct risk_word {
	struct str text; /* without quotes, with holes */
	struct str name; /* "$X" when all of it is one hole; else empty */
	bool is_odd;     /* quotes or backslashes amid its letters */
};

/* False: enough was looked at; it was said. */
bool risk_spend(struct risk_run *run, size_t n);
void risk_sign(struct risk_run *run, enum risk_sign sign);
void risk_add(struct risk_run *run, struct risk_deed *d, enum image_cond c,
	      struct str text);
/* Hold all rules against it. */
void risk_apply(struct risk_run *run, const struct risk_deed *d);

/* Does the pattern meet the word?  In a path `*` and `?` stop at slashes, `**` does not,
 * and a last slash with `**` covers the folder itself. */
bool risk_meets(struct str pattern, struct str word, bool is_path);
bool risk_has_hole(struct str s);

/* The byte there, or NUL behind the end. */
static inline char
risk_at(struct str s, size_t i)
{
	if (i >= s.n)
		return '\0';
	return s.p[i];
}

/* A byte that was written as a number; what would be no text is a blank. */
static inline char
risk_byte(unsigned v)
{
	v &= 0xff;
	if (v < ' ' || v == 0x7f)
		v = ' ';
	return (char)(unsigned char)v;
}

/* Facts out of a word; risk_fact.c. */
enum risk_touch { TOUCH_NAME, TOUCH_READ, TOUCH_WRITE, TOUCH_DELETE };
void risk_add_path(struct risk_run *run, struct risk_deed *d, enum risk_touch t,
		   struct str text);
/* All that looks like a path in a word: itself, behind '=' or '@', behind an option. */
void risk_add_paths(struct risk_run *run, struct risk_deed *d, enum risk_touch t,
		    struct str word);
/* The host of a URL in it; with is_host also USER@HOST:PORT or HOST. */
void risk_add_host(struct risk_run *run, struct risk_deed *d, struct str word,
		   bool is_host);
struct str risk_lower(struct risk_run *run, struct str s);
/* Without dots and doubled slashes, in the folder at hand. */
struct str risk_path(struct risk_run *run, struct str text);

/* Texts. */
void risk_shell(struct risk_run *run, struct str text);
/* Only $(...) and the like in it: here-documents, arithmetic. */
void risk_expansions(struct risk_run *run, struct str text);
void risk_code(struct risk_run *run, struct str language, struct str text);
bool risk_is_shell(struct str name);

/* One word at the beginning of *rest, which is no blank or operator; its bytes go to
 * out, which has room for as many as rest. */
struct risk_lex {
	struct risk_run *run;
	struct str rest;
	char *out;
	size_t used;
};
void risk_word_read(struct risk_lex *l, struct risk_word *ret_w);
/* Bytes up to the closing one, quotes and nesting minded; s.n when there is none. */
size_t risk_span(struct str s, char open, char close);

/* A simple command with all that stands around it; risk_command.c. */
struct risk_call {
	const struct risk_word *words;
	size_t n;
	struct risk_deed *around;       /* what its redirections are; or NULL */
	struct risk_fact *piped;        /* programs before it in the pipe */
	bool is_piped_in, is_piped_out; /* in: from a program */
	struct risk_fact *names;        /* out: what it is called */
	bool is_shell_body; /* out: what stands on its standard input is run */
	struct str body_language;
};
void risk_command(struct risk_run *run, struct risk_call *c);

#endif
