/* How sensitive is it?  The shipped rules against tests/risk.tsv, and the rules' own
 * language. */
#include "tests/unit/make_image.h"

#include <stdlib.h>

#include "conf/risk.h"
#include "tests/unit/risk_files.h"

enum { ROWS_LEAST = 200, WORDS_MAX = 64 };

struct row {
	struct str kind, text, level;
};

static const char *const kinds[RISK_KINDS] = { "command", "argv",    "code",
					       "read",    "write",   "delete",
					       "network", "package", "secret" };

static void
judge(const struct image *im, struct str kind, struct str text, struct risk_answer *a)
{
	struct str words[WORDS_MAX], rest = text, language = kind;
	struct str name = str_cut(&language, ':');
	struct risk_question q = { .text = text, .language = language, .argv = words };

	while (q.kind < RISK_KINDS && !str_eq(name, str_from(kinds[q.kind])))
		q.kind++;
	assert_true(q.kind < RISK_KINDS);
	while (q.kind == RISK_ARGV && rest.p != NULL && q.argv_n < WORDS_MAX)
		words[q.argv_n++] = str_cut(&rest, ' ');
	risk_judge(im, &q, a);
}

/* U+2424 to an end of line, in place. */
static size_t
unfold(char *p, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++)
		if (i + 3 <= n && memcmp(p + i, "\xe2\x90\xa4", 3) == 0) {
			p[out++] = '\n';
			i += 2;
		} else {
			p[out++] = p[i];
		}
	return out;
}

static bool
is_right(const struct image *im, const struct row *r)
{
	CLEANUP(buf_done) struct buf text = { 0 }, why = { 0 };
	struct risk_answer a, again;

	buf_init(&text, 1 << 16);
	buf_init(&why, 1 << 16);
	buf_put(&text, r->text);
	text.len = unfold(text.p, text.len);
	struct str s = str_of(text.p, text.len);
	judge(im, r->kind, s, &a);
	judge(im, r->kind, s, &again);
	assert_memory_equal(&a, &again, sizeof a);
	risk_put_reason(&why, im, &a);
	/* Who is asked to approve is told why. */
	assert_true(a.level == RISK_LOW || why.len > 0);
	if (str_eq(r->level, str_from(risk_level_word(a.level))))
		return true;
	print_message("%.*s\t%.*s: %s, not %.*s (%s)\n", STR_ARG(r->kind),
		      STR_ARG(r->text), risk_level_word(a.level), STR_ARG(r->level),
		      buf_cstr(&why));
	return false;
}

static void
the_shipped_rules_find_what_the_table_says(void **state)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct image *im = risk_image_shipped();
	size_t rows_n = 0, wrong = 0;

	(void)state;
	risk_read_file(SG_ROOT "/tests/risk.tsv", &b);
	struct str rest = str_of(b.p, b.len);
	while (rest.n > 0) {
		struct str line = str_cut(&rest, '\n');
		if (line.n == 0 || line.p[0] == '#')
			continue;
		struct row r = { .kind = str_cut(&line, '\t') };
		r.text = str_cut(&line, '\t');
		r.level = line;
		assert_true(r.level.n > 0);
		rows_n++;
		wrong += !is_right(im, &r);
	}
	assert_int_equal(wrong, 0);
	assert_true(rows_n >= ROWS_LEAST);
	image_close(im);
}

static const char own[] =
	"risk:\n"
	"  otherwise: medium\n"
	"  text_max: 100B\n"
	"  rules:\n"
	"  - {level: low, why: it looks, command: [ls, 'git']}\n"
	"  - {level: high, why: it goes away, command: git, verb: push, args: ['-f']}\n"
	"  - {level: high, why: it is far, hosts: ['*.far.example'], ports: ['22']}\n";

static void
expect(const struct image *im, const char *command, enum risk_level level,
       const char *why)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct risk_question q = { .kind = RISK_COMMAND, .text = str_from(command) };
	struct risk_answer a;

	buf_init(&b, 4096);
	risk_judge(im, &q, &a);
	risk_put_reason(&b, im, &a);
	assert_string_equal(b.len == 0 ? "" : buf_cstr(&b), why);
	assert_int_equal(a.level, level);
}

static void
the_worst_rule_says_why_and_where_it_stands(void **state)
{
	struct image *im = make_image(own);

	(void)state;
	expect(im, "ls", RISK_LOW, "t.yaml:5: it looks");
	expect(im, "git log", RISK_LOW, "t.yaml:5: it looks");
	expect(im, "make", RISK_MEDIUM, "");
	expect(im, "ls; make", RISK_MEDIUM, "");
	expect(im, "ls; git push -f", RISK_HIGH, "t.yaml:6: it goes away");
	expect(im, "git push x", RISK_LOW, "t.yaml:5: it looks");
	expect(im, "ssh a@b.far.example:22", RISK_HIGH, "t.yaml:7: it is far");
	expect(im, "ssh a@b.far.example:23", RISK_MEDIUM, "");
	image_close(im);
}

static void
what_cannot_be_read_is_high_unless_told_otherwise(void **state)
{
	char longer[120];
	struct image *im = make_image(own);
	struct image *easy = make_image("risk: {unreadable: medium}\n");

	(void)state;
	memset(longer, 'a', sizeof longer);
	longer[sizeof longer - 1] = '\0';
	expect(im, longer, RISK_HIGH, "longer than risk.text_max");
	expect(easy, longer, RISK_LOW, "");
	expect(im, "ls 'a", RISK_HIGH, "a quote or bracket is not closed");
	expect(easy, "ls 'a", RISK_MEDIUM, "a quote or bracket is not closed");
	expect(easy, "ls \x01", RISK_MEDIUM, "holds control characters");
	expect(easy, "a | sh", RISK_MEDIUM,
	       "an interpreter reads what it runs from another program");
	image_close(im);
	image_close(easy);
}

static const struct {
	const char *text, *messages;
} faults[] = {
	{ "risk: {rules: [{level: low, why: w, comand: ls}]}",
	  "t.yaml:1:37: unknown key `comand`; did you mean command?\n" },
	{ "risk: {rules: [{level: hihg, why: w, command: ls}]}",
	  "t.yaml:1:24: `hihg` is not one of low|medium|high; did you mean high?\n" },
	{ "risk: {rules: [{command: ls}]}",
	  "t.yaml:1:16: `level` is missing: one of low|medium|high\n"
	  "t.yaml:1:16: `why` is missing: the sentence that people are told\n" },
	{ "risk: {rules: [{level: low, why: w}]}",
	  "t.yaml:1:16: a rule without a condition would apply to everything; that is "
	  "risk.otherwise\n" },
	{ "risk: {rules: [{level: low, why: w, args: []}]}",
	  "t.yaml:1:43: 1 to 1000 patterns belong here\n" },
	{ "risk: {rules: {level: low}}",
	  "t.yaml:1:15: a mapping where a list belongs\n" },
	{ "risk: {unreadabel: low}",
	  "t.yaml:1:8: unknown key `unreadabel`; did you mean unreadable?\n" },
	{ "risk: {rules: [{level: low, why: w, args: "
	  "'0123456789012345678901234567890123456789012345678901234567890'}]}",
	  "t.yaml:1:43: longer than 60 bytes or with control characters\n" },
};

static void
every_fault_of_a_rule_is_told_with_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(faults); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 65536);
		assert_int_equal(make_messages(faults[i].text, &b), ST_BAD_CONFIG);
		assert_string_equal(buf_cstr(&b), faults[i].messages);
	}
}

/* 64 KiB of what is worst for a reader, in well under a second each even when watched
 * by a sanitizer: ctest's time-out is the judge of "never". */
static void
the_worst_texts_take_no_longer_than_their_length(void **state)
{
	static const char *const parts[] = { "{",     "[",     "$(",      "`",
					     "a;",    "\"",    "http://", "a|",
					     "sudo ", "${a:-", "<<a ",    "$a",
					     "f(",    "'a'+",  "x=y;",    "{a,b}",
					     "@",     "../",   "(",       "eval " };
	struct image *im = risk_image_shipped();
	struct risk_answer a;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(parts); i++) {
		CLEANUP(buf_done) struct buf b = { 0 };
		buf_init(&b, 1 << 17);
		while (b.len < 30000)
			buf_put(&b, str_from(parts[i]));
		judge(im, STR("command"), str_of(b.p, b.len), &a);
		judge(im, STR("code:python"), str_of(b.p, b.len), &a);
		judge(im, STR("code:js"), str_of(b.p, b.len), &a);
	}
	image_close(im);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_shipped_rules_find_what_the_table_says),
		cmocka_unit_test(the_worst_rule_says_why_and_where_it_stands),
		cmocka_unit_test(what_cannot_be_read_is_high_unless_told_otherwise),
		cmocka_unit_test(every_fault_of_a_rule_is_told_with_its_place),
		cmocka_unit_test(the_worst_texts_take_no_longer_than_their_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
