#include "conf/risk.h"

#include "conf/risk_private.h"
#include "proxy/base/num.h"

enum { ARENA_EACH = 256, ARENA_LEAST = 1 << 20, WORK_EACH = 128, WORK_LEAST = 1 << 14 };

const char *
risk_level_word(enum risk_level l)
{
	static const char *const words[RISK_LEVELS] = { "low", "medium", "high" };

	return words[l];
}

static void
lift(struct risk_run *run, enum risk_level level, uint32_t rule, enum risk_sign sign)
{
	struct risk_answer *a = &run->answer;
	bool is_said = a->rule != RISK_NO_RULE || a->sign != RISK_SIGN_NONE;
	bool says = rule != RISK_NO_RULE || sign != RISK_SIGN_NONE;

	if (level > a->level || (level == a->level && !is_said && says))
		*a = (struct risk_answer){ level, rule, sign };
}

void
risk_sign(struct risk_run *run, enum risk_sign sign)
{
	lift(run, run->unreadable, RISK_NO_RULE, sign);
}

bool
risk_spend(struct risk_run *run, size_t n)
{
	if (n < run->work) {
		run->work -= n;
		return true;
	}
	run->work = 0;
	risk_sign(run, RISK_SIGN_DEEP);
	return false;
}

void
risk_add(struct risk_run *run, struct risk_deed *d, enum image_cond c, struct str text)
{
	struct risk_fact *f = arena_alloc(&run->arena, sizeof *f);

	if (f == NULL)
		return; /* told at the end */
	*f = (struct risk_fact){ text, d->fact[c] };
	d->fact[c] = f;
}

static bool
holds(const struct risk_run *run, const struct image_risk *r, enum image_cond c,
      const struct risk_fact *f)
{
	bool is_path = c >= COND_PATHS && c <= COND_DELETES;

	for (; f != NULL; f = f->next)
		for (uint32_t i = 0; i < r->cond[c].n; i++)
			if (risk_meets(image_word(run->im, r->cond[c].first + i),
				       f->text, is_path))
				return true;
	return false;
}

static bool
applies(const struct risk_run *run, const struct image_risk *r,
	const struct risk_deed *d)
{
	size_t conds_n = 0;

	for (size_t c = 0; c < IMAGE_CONDS; c++)
		if (r->cond[c].n > 0) {
			conds_n++;
			if (!holds(run, r, (enum image_cond)c, d->fact[c]))
				return false;
		}
	return conds_n > 0;
}

void
risk_apply(struct risk_run *run, const struct risk_deed *d)
{
	size_t n;
	const struct image_risk *r = image_table(run->im, IMAGE_RISKS, &n);
	bool is_met = false;

	for (size_t i = 0; i < n; i++) {
		enum risk_level level = (enum risk_level)r[i].level;
		/* What can't change the answer need not be asked. */
		if (level <= run->answer.level && run->otherwise <= run->answer.level &&
		    run->answer.level > RISK_LOW)
			continue;
		if (!applies(run, &r[i], d))
			continue;
		is_met = true;
		lift(run, level, (uint32_t)i, RISK_SIGN_NONE);
	}
	if (!is_met)
		lift(run, run->otherwise, RISK_NO_RULE, RISK_SIGN_NONE);
}

/* A blank, or what a text may hold: no holes of our own from outside. */
static bool
is_clean(struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c == 0x7f || (c < ' ' && c != '\t' && c != '\n' && c != '\r'))
			return false;
	}
	return true;
}

static size_t
length(const struct risk_question *q)
{
	size_t n = q->text.n + q->language.n;

	for (size_t i = 0; i < q->argv_n; i++)
		if (!num_add(n, q->argv[i].n + 1, &n))
			return SIZE_MAX;
	return n;
}

static bool
is_readable(struct risk_run *run, const struct risk_question *q)
{
	bool is_clean_all = is_clean(q->text) && is_clean(q->language);

	if (length(q) > image_number(run->im, OPT_RISK_TEXT_MAX)) {
		risk_sign(run, RISK_SIGN_LONG);
		return false;
	}
	for (size_t i = 0; i < q->argv_n; i++)
		is_clean_all = is_clean_all && is_clean(q->argv[i]);
	if (!is_clean_all)
		risk_sign(run, RISK_SIGN_CONTROL);
	return is_clean_all;
}

static void
judge_argv(struct risk_run *run, const struct risk_question *q)
{
	struct risk_word *w = arena_alloc(&run->arena, (q->argv_n + 1) * sizeof *w);
	struct risk_call c = { .words = w, .n = q->argv_n };

	if (w == NULL)
		return;
	for (size_t i = 0; i < q->argv_n; i++)
		w[i].text = q->argv[i];
	risk_command(run, &c);
}

static void
judge_fact(struct risk_run *run, const struct risk_question *q)
{
	struct risk_deed d = { { NULL } };

	if (q->kind == RISK_READ)
		risk_add_path(run, &d, TOUCH_READ, q->text);
	else if (q->kind == RISK_WRITE)
		risk_add_path(run, &d, TOUCH_WRITE, q->text);
	else if (q->kind == RISK_DELETE)
		risk_add_path(run, &d, TOUCH_DELETE, q->text);
	else if (q->kind == RISK_NETWORK)
		risk_add_host(run, &d, q->text, true);
	else if (q->kind == RISK_PACKAGE)
		risk_add(run, &d, COND_INSTALLS, risk_lower(run, q->text));
	else
		risk_add(run, &d, COND_ENV, q->text);
	risk_apply(run, &d);
}

static void
judge(struct risk_run *run, const struct risk_question *q)
{
	if (q->kind == RISK_COMMAND)
		risk_shell(run, q->text);
	else if (q->kind == RISK_CODE)
		risk_code(run, risk_lower(run, q->language), q->text);
	else if (q->kind == RISK_ARGV)
		judge_argv(run, q);
	else
		judge_fact(run, q);
}

void
risk_judge(const struct image *im, const struct risk_question *q,
	   struct risk_answer *ret_answer)
{
	struct risk_run run = {
		.im = im,
		.answer = { RISK_LOW, RISK_NO_RULE, RISK_SIGN_NONE },
		.otherwise = (enum risk_level)image_number(im, OPT_RISK_OTHERWISE),
		.unreadable = (enum risk_level)image_number(im, OPT_RISK_UNREADABLE),
		.folder = STR(""),
	};

	if (is_readable(&run, q)) {
		size_t n = length(q);
		arena_init(&run.arena, ARENA_LEAST + n * ARENA_EACH);
		run.work = WORK_LEAST + n * WORK_EACH;
		judge(&run, q);
		if (run.arena.is_over)
			risk_sign(&run, RISK_SIGN_DEEP);
		arena_done(&run.arena);
	}
	*ret_answer = run.answer;
}

void
risk_put_reason(struct buf *b, const struct image *im, const struct risk_answer *a)
{
	static const char *const sentences[RISK_SIGNS] = {
#define SIGN(name, sentence) sentence,
#include "conf/risk_signs.def"
#undef SIGN
	};
	size_t n;
	const struct image_risk *r = image_table(im, IMAGE_RISKS, &n);

	if (a->rule >= n) {
		buf_put(b, str_from(sentences[a->sign]));
		return;
	}
	buf_put(b, image_str(im, r[a->rule].file));
	buf_putf(b, ":%u: ", r[a->rule].line);
	buf_put(b, image_str(im, r[a->rule].why));
}
