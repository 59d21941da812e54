#ifndef PROXY_BASE_NEEDLE_H
#define PROXY_BASE_NEEDLE_H
/*
 * needle: known texts, found in a stream in every form of needle.def, and overwritten
 * in place by another text of the same length in the same form.
 *
 * A thread is one try to read one text in one form from one place of the stream; it dies
 * at the first character that does not fit.  Which threads live depends on the bytes
 * seen and on nothing else, so it does not matter how a stream is cut into pieces.
 *
 *	start .. hold   characters of the form that the mask leaves as they are
 *	hold  .. pos    what would change: not to be passed on while the thread lives
 *
 * Making a set takes some 10 us for a text of 40 octets.
 *
 * Linear: at most NEEDLE_THREADS at once, more fail the run; texts that repeat
 * themselves enough to need more are refused at birth.  Where no thread lives, most
 * bytes are not looked at: needle_skip().
 *
 * Texts are views, owned by the caller, who keeps them until needle_set_free().  What is
 * derived from them is wiped there.
 */
#include "proxy/base/str.h"

#define FORM(name, word, what) FORM_##name,
enum needle_form {
#include "proxy/base/needle.def"
	FORM_COUNT
};
#undef FORM

const char *needle_form_word(enum needle_form f);

enum {
	NEEDLE_MIN = 6, /* less is found in ordinary text all the time */
	NEEDLE_MAX = 8192,
	NEEDLES_MAX = 8,
	NEEDLE_THREADS = 64,
	NEEDLE_GROWTH = 6, /* the longest form of an octet: \u00XX */
};

struct needle {
	struct str text;
	struct str mask; /* as long as text and different; p == NULL: only look */
};

struct needle_set;

/* ST_TOO_BIG: too many, too long or too short; ST_CONFLICT: a mask that holds a text, or
 * a text that repeats itself too often. */
enum status needle_set_new(const struct needle *needles, size_t n,
			   struct needle_set **ret_set) MUSTCHECK;
void needle_set_free(struct needle_set *set);
/* No match is longer than this many characters. */
size_t needle_reach(const struct needle_set *set);

struct needle_thread {
	uint64_t start, hold; /* hold: UINT64_MAX while nothing would change */
	uint64_t
		context; /* start of the first thread that lived at hold: what a mask can
			     bring back to life is no longer than that */
	uint32_t at;     /* octets, nibbles or sextets read */
	uint8_t needle, form;
	uint8_t sub; /* inside an escape */
};

struct needle_run {   /* all zero: the start of a stream */
	uint64_t pos; /* characters consumed */
	size_t threads_n;
	enum status st; /* ST_INTERNAL: threads ran out; nothing may pass any more */
	struct needle_thread threads[NEEDLE_THREADS]; /* by start */
};

/* How many of n characters can be passed over: no match begins in them.  Only where no
 * thread lives. */
size_t needle_skip(const struct needle_set *set, const char *p, size_t n);
/* Consume what needle_skip() said. */
void needle_pass(struct needle_run *run, size_t n);
/* One character.  True: a text ends with it; *ret_match began first of those. */
bool needle_step(const struct needle_set *set, struct needle_run *run, char c,
		 struct needle_thread *ret_match);

/* As many as there are up to the first match; true: there was one, which ends at pos. */
bool needle_read(const struct needle_set *set, struct needle_run *run, struct str s,
		 struct needle_thread *ret_match);

/* The start of the first live thread, or pos. */
uint64_t needle_first(const struct needle_run *run);
/* What must be at hand to read again after a mask: at most 2 * needle_reach(). */
uint64_t needle_context(const struct needle_run *run);
/* Everything before this may be passed on. */
uint64_t needle_safe(const struct needle_run *run);

/* Overwrite a match: p[0 .. n) are its characters, those before `from` stay. */
void needle_mask(const struct needle_set *set, const struct needle_thread *match,
		 char *p, size_t n, size_t from);

#endif
