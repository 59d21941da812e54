#ifndef CONF_RISK_H
#define CONF_RISK_H
/*
 * risk: how sensitive is what somebody wants to run, touch, reach or install?  Rules of
 * the configuration (`risk`, risk/ *.yaml) give low, medium or high, and the sentence
 * that says why; the worst that applies wins, the first of equals.  Text that can't be
 * read, because it is too long, broken or hides what it does, is `risk.unreadable`.
 *
 * The same question gets the same answer.  Time is linear in the text: what would take
 * more is unreadable.  Nothing is run, opened or looked up.
 */
#include "conf/image.h"

enum risk_level { RISK_LOW, RISK_MEDIUM, RISK_HIGH, RISK_LEVELS };

enum risk_kind {
	RISK_COMMAND, /* text: a command line, as a shell reads it */
	RISK_ARGV,    /* argv: one command, no shell */
	RISK_CODE,    /* text, in language */
	RISK_READ,    /* text: a path; and so the next two */
	RISK_WRITE,
	RISK_DELETE,
	RISK_NETWORK, /* text: HOST, HOST:PORT or a URL */
	RISK_PACKAGE, /* text: MANAGER:NAME */
	RISK_SECRET,  /* text: name of a variable */
	RISK_KINDS
};

#define SIGN(name, sentence) RISK_SIGN_##name,
enum risk_sign {
#include "conf/risk_signs.def"
	RISK_SIGNS
};
#undef SIGN

#define RISK_NO_RULE UINT32_MAX

struct risk_question {
	enum risk_kind kind;
	struct str text;
	struct str language;    /* of code: "python", "js", "bash", ... */
	const struct str *argv; /* of RISK_ARGV */
	size_t argv_n;
};

struct risk_answer {
	enum risk_level level;
	uint32_t rule;       /* of IMAGE_RISKS, or RISK_NO_RULE */
	enum risk_sign sign; /* without a rule: why it can't be read; or NONE */
};

void risk_judge(const struct image *im, const struct risk_question *q,
		struct risk_answer *ret_answer);

const char *risk_level_word(enum risk_level l); /* "low" */
/* "FILE:LINE: sentence"; nothing when neither a rule nor a sign decided. */
void risk_put_reason(struct buf *b, const struct image *im,
		     const struct risk_answer *a);

#endif
