#include "proxy/base/needle.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/base/needle_form.h"
#include "proxy/base/num.h"

/* A text whose beginnings return in it more often is a pattern, not a secret. */
enum { REPEATS_MAX = NEEDLE_THREADS / 2, DEPTH_SAFE = 3 };
enum { OCTETS = 256, WORD = 64 };
/* Longer jumps save little, and the end of each piece must be read. */
enum { STRIDE = 128 };

struct charset {
	uint64_t bits[OCTETS / WORD];
};

/*
 * pairs: which two characters can stand beside each other in some form of some text.
 * Every match, and every live thread of at least `least` characters, is made of them.
 */
struct needle_set {
	struct needle needles[NEEDLES_MAX];
	uint32_t kept[NEEDLES_MAX][FORM_COUNT];
	size_t needles_n, least, reach;
	uint64_t first[OCTETS]; /* which (needle, form) a character can begin */
	struct charset pairs[OCTETS];
};

static const char *const words[] = {
#define FORM(name, word, what) word,
#include "proxy/base/needle.def"
#undef FORM
};

const char *
needle_form_word(enum needle_form f)
{
	return words[f];
}

static bool
has_char(const struct charset *s, unsigned char c)
{
	return s->bits[c / WORD] >> c % WORD & 1;
}

static struct needle_thread
thread_at(unsigned slot, uint64_t pos)
{
	uint8_t needle = (uint8_t)(slot / FORM_COUNT),
		form = (uint8_t)(slot % FORM_COUNT);
	return (struct needle_thread){ .start = pos,
				       .context = pos,
				       .hold = UINT64_MAX,
				       .needle = needle,
				       .form = form };
}

static enum needle_read
read_char(const struct needle_set *set, struct needle_thread *t, char c)
{
	return needle_form_read(set->needles[t->needle].text, t, c);
}

/* What a form's unit can begin and end with, and what stands inside. */
struct unit {
	char first[NEXT_MAX], last[NEXT_MAX];
	size_t first_n, last_n;
};

static void
add_pair(struct needle_set *set, char a, char b)
{
	unsigned char u = (unsigned char)b;

	set->pairs[(unsigned char)a].bits[u / WORD] |= (uint64_t)1 << u % WORD;
}

static void
follow(struct needle_set *set, const struct unit *before, const struct unit *now)
{
	for (size_t i = 0; i < before->last_n; i++)
		for (size_t k = 0; k < now->first_n; k++)
			add_pair(set, before->last[i], now->first[k]);
}

/* One unit of a form whose units are single characters. */
static void
single(struct str text, const struct needle_thread *t, struct unit *ret_u)
{
	ret_u->first_n = ret_u->last_n = needle_form_next(text, t, ret_u->first);
	memcpy(ret_u->last, ret_u->first, ret_u->first_n);
}

/* An octet in all the ways of plain, percent and JSON: what is read as one of them is
 * made of these pairs as well. */
static void
escaped(struct needle_set *set, char c, struct unit *ret_u)
{
	static const char hex[] = "0123456789abcdef0123456789ABCDEF";
	static const char inside[][2] = { { '\\', 'u' }, { 'u', '0' }, { '0', '0' } };
	static const char shorts[] = "\"\\/bfnrt";
	unsigned o = (unsigned char)c;
	const char high[] = { hex[o >> 4], hex[16 + (o >> 4)] };
	const char low[] = { hex[o & 15], hex[16 + (o & 15)] };

	for (size_t i = 0; i < 4; i++)
		add_pair(set, high[i / 2], low[i % 2]);
	for (size_t i = 0; i < 2; i++) {
		add_pair(set, '%', high[i]);
		add_pair(set, '0', high[i]);
	}
	for (size_t i = 0; i < COUNT_OF(inside); i++)
		add_pair(set, inside[i][0], inside[i][1]);
	for (size_t i = 0; i < sizeof(shorts) - 1; i++)
		add_pair(set, '\\', shorts[i]);
	*ret_u = (struct unit){ { c, '%', '\\' }, { c, low[0], low[1] }, 3, 3 };
	if (needle_form_short(c) != 0)
		ret_u->last[ret_u->last_n++] = needle_form_short(c);
}

static void
learn_escaped(struct needle_set *set, struct str text)
{
	struct unit before = { .last_n = 0 }, now;

	for (size_t i = 0; i < text.n; i++) {
		escaped(set, text.p[i], &now);
		follow(set, &before, &now);
		before = now;
	}
}

static void
learn_single(struct needle_set *set, unsigned slot)
{
	struct needle_thread t = thread_at(slot, 0);
	struct str text = set->needles[t.needle].text;
	size_t units = needle_form_least(t.form, text);
	struct unit before = { .last_n = 0 }, now;

	for (; t.at < units; t.at++) {
		single(text, &t, &now);
		follow(set, &before, &now);
		before = now;
	}
}

static void
learn(struct needle_set *set, unsigned slot)
{
	struct needle_thread t = thread_at(slot, 0);
	struct str text = set->needles[t.needle].text;
	char next[NEXT_MAX];

	set->least = num_min(set->least, needle_form_least(t.form, text));
	for (size_t n = needle_form_next(text, &t, next); n > 0; n--)
		set->first[(unsigned char)next[n - 1]] |= (uint64_t)1 << slot;
	if (t.form == FORM_PLAIN)
		learn_escaped(set, text);
	else if (t.form != FORM_PERCENT && t.form != FORM_JSON)
		learn_single(set, slot);
}

/* A mask must not bring in what it is to take out. */
static bool
is_in_a_mask(const struct needle_set *set, struct str text)
{
	for (size_t i = 0; i < set->needles_n; i++) {
		struct str mask = set->needles[i].mask;

		if (mask.p != NULL && memmem(mask.p, mask.n, text.p, text.n) != NULL)
			return true;
	}
	return false;
}

/* How often a beginning of the text is also an end of a beginning: threads of one form
 * that can live at the same time. */
static bool
repeats(const struct needle_set *set, unsigned slot)
{
	struct needle_thread t = thread_at(slot, 0);
	struct str text = set->needles[t.needle].text;
	struct needle_run run = { 0 };
	size_t most = 0;

	for (; t.at < needle_form_least(t.form, text); t.at++) {
		char next[NEXT_MAX];
		struct needle_thread ignored;

		need(needle_form_next(text, &t, next) > 0);
		if (needle_step(set, &run, next[0], &ignored))
			break;
		most = num_max(most, run.threads_n);
	}
	return run.st != ST_OK || most > REPEATS_MAX;
}

/*
 * How many beginnings of the text are an end of one at the same time: the depth of the
 * failure function of Knuth, Morris and Pratt.  In the other forms it is at most four
 * times that.  SIZE_MAX: no memory.
 */
static size_t
depth_of(struct str text)
{
	uint16_t *fail = calloc(2 * text.n, sizeof(*fail)), *depth = fail + text.n;
	size_t k = 0, most = 1;

	if (fail == NULL)
		return SIZE_MAX;
	depth[0] = 1;
	for (size_t i = 1; i < text.n; i++) {
		while (k > 0 && text.p[i] != text.p[k])
			k = fail[k - 1];
		k += text.p[i] == text.p[k];
		fail[i] = (uint16_t)k;
		depth[i] = (uint16_t)(k > 0 ? depth[k - 1] + 1 : 1);
		most = num_max(most, depth[i]);
	}
	free(fail);
	return most;
}

static enum status
check(const struct needle *n)
{
	if (n->text.n < NEEDLE_MIN || n->text.n > NEEDLE_MAX)
		return ST_TOO_BIG;
	if (n->mask.p != NULL && (n->mask.n != n->text.n || str_eq(n->mask, n->text)))
		return ST_CONFLICT;
	return ST_OK;
}

static enum status
add(struct needle_set *set, const struct needle *n)
{
	enum status st = check(n);
	unsigned slot = (unsigned)set->needles_n * FORM_COUNT;

	if (st != ST_OK)
		return st;
	for (int f = 0; f < FORM_COUNT; f++)
		set->kept[set->needles_n][f] = needle_form_kept((enum needle_form)f, n);
	set->needles[set->needles_n++] = *n;
	set->reach = num_max(set->reach, NEEDLE_GROWTH * n->text.n);
	for (unsigned f = 0; f < FORM_COUNT; f++)
		learn(set, slot + f);
	return ST_OK;
}

static enum status
check_set(const struct needle_set *set)
{
	for (size_t i = 0; i < set->needles_n; i++)
		if (is_in_a_mask(set, set->needles[i].text))
			return ST_CONFLICT;
	for (unsigned i = 0; i < set->needles_n; i++) {
		size_t depth = depth_of(set->needles[i].text);

		if (depth == SIZE_MAX)
			return ST_NOMEM;
		/* Nearly all are safe; the others are tried out. */
		for (unsigned f = 0; depth > DEPTH_SAFE && f < FORM_COUNT; f++)
			if (repeats(set, i * FORM_COUNT + f))
				return ST_CONFLICT;
	}
	return ST_OK;
}

enum status
needle_set_new(const struct needle *needles, size_t n, struct needle_set **ret_set)
{
	enum status st = n > NEEDLES_MAX ? ST_TOO_BIG : ST_OK;
	struct needle_set *set = calloc(1, sizeof(*set));

	if (set == NULL)
		return ST_NOMEM;
	set->least = SIZE_MAX;
	for (size_t i = 0; i < n && st == ST_OK; i++)
		st = add(set, &needles[i]);
	if (st == ST_OK)
		st = check_set(set);
	if (st == ST_OK)
		*ret_set = set;
	else
		needle_set_free(set);
	return st;
}

void
needle_set_free(struct needle_set *set)
{
	if (set == NULL)
		return;
	explicit_bzero(set, sizeof(*set));
	free(set);
}

size_t
needle_reach(const struct needle_set *set)
{
	return set->reach;
}

/* A match that begins in the next least - 1 characters holds the pair at their end.  The
 * last part that none begins in is read all the same: needle_thread.context must not
 * depend on what was passed over. */
size_t
needle_skip(const struct needle_set *set, const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;
	size_t at = 0, step;

	if (set->needles_n == 0)
		return n;
	step = num_min(set->least, STRIDE) - 1;
	while (n - at > step && !has_char(&set->pairs[u[at + step - 1]], u[at + step]))
		at += step;
	return at > 0 ? at - step : 0;
}

void
needle_pass(struct needle_run *run, size_t n)
{
	need(run->threads_n == 0);
	run->pos += n;
}

struct step {
	char c;
	uint64_t first; /* start of the first thread that lives before c */
	struct needle_thread match;
};

/* False: the thread is dead or has matched. */
static bool
lives(const struct needle_set *set, const struct needle_run *run,
      struct needle_thread *t, struct step *s)
{
	enum needle_read read;

	if (t->sub == 0 && t->at == set->kept[t->needle][t->form]) {
		t->hold = run->pos;
		t->context = s->first;
	}
	read = read_char(set, t, s->c);
	if (read == READ_DONE && t->start < s->match.start)
		s->match = *t;
	return read == READ_LIVE;
}

static void
begin(const struct needle_set *set, struct needle_run *run, struct step *s)
{
	uint64_t slots = set->first[(unsigned char)s->c];

	for (; slots != 0; slots &= slots - 1) {
		struct needle_thread t =
			thread_at((unsigned)__builtin_ctzll(slots), run->pos);

		(void)lives(set, run, &t, s);
		if (run->threads_n == NEEDLE_THREADS)
			run->st = ST_INTERNAL;
		else
			run->threads[run->threads_n++] = t;
	}
}

bool
needle_step(const struct needle_set *set, struct needle_run *run, char c,
	    struct needle_thread *ret_match)
{
	struct step s = { .c = c,
			  .first = needle_first(run),
			  .match = { .start = UINT64_MAX } };
	size_t kept = 0;

	for (size_t i = 0; i < run->threads_n; i++) {
		struct needle_thread t = run->threads[i];

		if (lives(set, run, &t, &s))
			run->threads[kept++] = t;
	}
	run->threads_n = kept;
	begin(set, run, &s);
	run->pos++;
	if (s.match.start == UINT64_MAX)
		return false;
	*ret_match = s.match;
	return true;
}

bool
needle_read(const struct needle_set *set, struct needle_run *run, struct str s,
	    struct needle_thread *ret_match)
{
	size_t at = 0;

	while (at < s.n) {
		if (run->threads_n == 0) {
			size_t n = needle_skip(set, s.p + at, s.n - at);

			needle_pass(run, n);
			at += n;
		}
		if (at < s.n && needle_step(set, run, s.p[at++], ret_match))
			return true;
	}
	return false;
}

uint64_t
needle_first(const struct needle_run *run)
{
	return run->threads_n > 0 ? run->threads[0].start : run->pos;
}

uint64_t
needle_context(const struct needle_run *run)
{
	uint64_t context = run->pos;

	for (size_t i = 0; i < run->threads_n; i++)
		if (run->threads[i].context < context)
			context = run->threads[i].context;
	return context;
}

uint64_t
needle_safe(const struct needle_run *run)
{
	uint64_t safe = run->pos;

	for (size_t i = 0; i < run->threads_n; i++)
		if (run->threads[i].hold < safe)
			safe = run->threads[i].hold;
	return safe;
}

void
needle_mask(const struct needle_set *set, const struct needle_thread *match, char *p,
	    size_t n, size_t from)
{
	needle_form_mask((enum needle_form)match->form, &set->needles[match->needle], p,
			 n, from);
}
