/* The battery: every form x every cut x bodies and fields, and what must come out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "connectors/scrub.h"
#include "connectors/scrub_head.h"
#include "scrub_forms.h"

#define SECRET      "ghp_Ab3/dE%9\"z+Qx7yW2"
#define PLACEHOLDER "ghp_Xc8/kP%1\"f+Lm4nB6"

struct bench {
	struct needle_set *set;
	struct buf in, want;
};

static void
setup(struct bench *b, const char *secret, const char *placeholder)
{
	struct needle n = { str_from(secret), str_from(placeholder) };

	assert_int_equal(needle_set_new(&n, 1, &b->set), ST_OK);
	buf_init(&b->in, TEXT_MAX);
	buf_init(&b->want, TEXT_MAX);
}

static void
teardown(struct bench *b)
{
	needle_set_free(b->set);
	buf_done(&b->in);
	buf_done(&b->want);
}

static void
feed(struct scrub *s, struct str piece, bool is_last, struct buf *out)
{
	char *space = malloc(piece.n + scrub_room(s) + 1);
	struct str got;

	assert_non_null(space);
	assert_int_equal(scrub_feed(s, piece, is_last, space, &got), ST_OK);
	buf_put(out, got);
	free(space);
}

static bool
is_any_case(const char *name)
{
	for (size_t i = 0; i < COUNT_OF(forms); i++)
		if (strcmp(name, forms[i].name) == 0)
			return forms[i].any_case;
	return false;
}

static bool
same(const struct bench *b, struct str out, bool any_case)
{
	struct str want = str_of(b->want.p, b->want.len);

	return any_case ? str_ieq(out, want) : str_eq(out, want);
}

/* In pieces of `each`, the first of `first`. */
static void
expect(const struct bench *b, size_t first, size_t each, const char *what)
{
	bool any_case = is_any_case(what);
	struct scrub s;
	CLEANUP(buf_done) struct buf out = { 0 };
	struct str rest = str_of(b->in.p, b->in.len);

	buf_init(&out, TEXT_MAX);
	scrub_init(&s, b->set);
	feed(&s, str_head(rest, first), first == rest.n, &out);
	for (rest = str_skip(rest, first); rest.n > 0; rest = str_skip(rest, each))
		feed(&s, str_head(rest, each), rest.n <= each, &out);
	scrub_done(&s);
	if (!same(b, str_of(out.p, out.len), any_case))
		fail_msg("%s, cut at %zu, then each %zu:\n%.*s\n%.*s", what, first,
			 each, (int)out.len, out.p, (int)b->want.len, b->want.p);
}

static void
expect_all_cuts(const struct bench *b, const char *what)
{
	for (size_t cut = 0; cut <= b->in.len; cut++)
		expect(b, cut, b->in.len + 1, what);
	expect(b, 0, 1, what);
	expect(b, 1, 3, what);
}

static void
write_both(struct bench *b, put_fn put, const char *secret, const char *placeholder)
{
	buf_clear(&b->in);
	buf_clear(&b->want);
	buf_put(&b->in, STR("{\"you sent\": \""));
	buf_put(&b->want, STR("{\"you sent\": \""));
	put(&b->in, str_from(secret));
	put(&b->want, str_from(placeholder));
	buf_put(&b->in, STR("\", \"by\": 1}\n"));
	buf_put(&b->want, STR("\", \"by\": 1}\n"));
}

static void
every_form_comes_out_as_the_placeholder_at_every_cut(void **state)
{
	struct bench b;

	(void)state;
	setup(&b, SECRET, PLACEHOLDER);
	for (size_t i = 0; i < COUNT_OF(forms); i++) {
		write_both(&b, forms[i].put, SECRET, PLACEHOLDER);
		expect_all_cuts(&b, forms[i].name);
	}
	teardown(&b);
}

static void
secrets_of_every_length_are_found_in_every_form(void **state)
{
	static const char from[] = "Q7f3kP9sLw2Zx8Vb4Nm1Rt6Yc5Hd0Gj",
			  to[] = "W5a8mT2oKe6Bq0Uj7Xi3Pz9Sf1Cn4Ly";

	(void)state;
	for (size_t n = NEEDLE_MIN; n < sizeof(from); n++) {
		char secret[sizeof(from)] = { 0 }, placeholder[sizeof(to)] = { 0 };
		struct bench b;

		memcpy(secret, from, n);
		memcpy(placeholder, to, n);
		setup(&b, secret, placeholder);
		for (size_t i = 0; i < COUNT_OF(forms); i++) {
			write_both(&b, forms[i].put, secret, placeholder);
			expect_all_cuts(&b, forms[i].name);
		}
		teardown(&b);
	}
}

static void
two_echoes_beside_each_other_are_both_masked(void **state)
{
	struct bench b;

	(void)state;
	setup(&b, SECRET, PLACEHOLDER);
	for (size_t i = 0; i < COUNT_OF(forms); i++) {
		buf_clear(&b.in);
		buf_clear(&b.want);
		for (int twice = 0; twice < 2; twice++) {
			forms[i].put(&b.in, STR(SECRET));
			forms[i].put(&b.want, STR(PLACEHOLDER));
		}
		expect_all_cuts(&b, forms[i].name);
	}
	teardown(&b);
}

/* What stands before an echo is often what the sandbox sent. */
static void
no_neighbour_hides_an_echo(void **state)
{
	static const char *const before[] = { "%",   "%4",   "%%",    "\\",
					      "\\u", "\\u0", "\\u00", "\\u004",
					      "A",   "ghp_", "gh",    "ghp_Ab3/dE" };
	struct bench b;

	(void)state;
	setup(&b, "41ab/cdE", "73kq/xyW");
	for (size_t k = 0; k < COUNT_OF(before); k++) {
		buf_clear(&b.in);
		buf_clear(&b.want);
		buf_putf(&b.in, "%s41ab%%2Fcd%%45 %s41ab\\/cdE %s41ab/cdE", before[k],
			 before[k], before[k]);
		buf_putf(&b.want, "%s73kq%%2Fxy%%57 %s73kq\\/xyW %s73kq/xyW", before[k],
			 before[k], before[k]);
		expect_all_cuts(&b, before[k]);
	}
	teardown(&b);
}

static void
what_is_no_echo_passes_octet_for_octet(void **state)
{
	static const char *const texts[] = { "",
					     "ghp_",
					     "ghp_Ab3/dE%9\"z+Qx7yW",
					     "hp_Ab3/dE%9\"z+Qx7yW2",
					     "ghp_Ab3/dE%9\"z+Qx7yW3 \x00\x01\xff",
					     "Z2hwX0FiMy9kRSU5Inor" };
	struct bench b;

	(void)state;
	setup(&b, SECRET, PLACEHOLDER);
	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		buf_clear(&b.in);
		buf_clear(&b.want);
		buf_put(&b.in, str_from(texts[i]));
		buf_put(&b.want, str_from(texts[i]));
		expect_all_cuts(&b, texts[i]);
	}
	teardown(&b);
}

/* Server-sent events and messages must not wait for the next one. */
static void
only_a_live_match_is_held_back_and_only_from_what_would_change(void **state)
{
	char space[256];
	struct bench b;
	struct scrub s;
	struct str out;

	(void)state;
	setup(&b, SECRET, PLACEHOLDER);
	scrub_init(&s, b.set);
	assert_int_equal(scrub_feed(&s, STR("data: one\n\n"), false, space, &out),
			 ST_OK);
	assert_int_equal(out.n, 11);
	/* The known prefix is the placeholder's as well. */
	assert_int_equal(scrub_feed(&s, STR("data: ghp_"), false, space, &out), ST_OK);
	assert_int_equal(out.n, 10);
	assert_int_equal(scrub_feed(&s, STR("Ab"), false, space, &out), ST_OK);
	assert_int_equal(out.n, 0);
	assert_int_equal(scrub_feed(&s, STR("c\n\n"), false, space, &out), ST_OK);
	assert_true(str_eq(out, STR("Abc\n\n")));
	assert_int_equal(s.count, 0);
	scrub_done(&s);
	teardown(&b);
}

static void
a_clean_piece_is_not_copied(void **state)
{
	char space[64];
	struct bench b;
	struct scrub s;
	struct str in = STR("a piece without any trace"), out;

	(void)state;
	setup(&b, SECRET, PLACEHOLDER);
	scrub_init(&s, b.set);
	assert_int_equal(scrub_feed(&s, in, true, space, &out), ST_OK);
	assert_ptr_equal(out.p, in.p);
	scrub_done(&s);
	teardown(&b);
}

static void
several_secrets_are_masked_each_by_its_own(void **state)
{
	const struct needle two[] = { { STR("AKIAQ7F3KP9SLW2Z"),
					STR("AKIAW5A8MT2OKE6B") },
				      { STR("hunter22"), STR("marble57") } };
	char text[] = "key AKIAQ7F3KP9SLW2Z and hunter22, 68756e7465723232";
	uint32_t count = 0;
	struct needle_set *set;

	(void)state;
	assert_int_equal(needle_set_new(two, 2, &set), ST_OK);
	assert_int_equal(scrub_text(set, text, sizeof(text) - 1, &count), ST_OK);
	assert_string_equal(text,
			    "key AKIAW5A8MT2OKE6B and marble57, 6d6172626c653537");
	assert_int_equal(count, 3);
	needle_set_free(set);
}

static void
masks_and_neighbours_never_make_a_secret(void **state)
{
	/* The mask ends as the secret begins, so a mask before the rest would be one. */
	const struct needle one = { STR("abcdefgh"), STR("zyxwvuta") };
	char text[] = "abcdefghbcdefgh";
	uint32_t count = 0;
	struct needle_set *set;

	(void)state;
	assert_int_equal(needle_set_new(&one, 1, &set), ST_OK);
	assert_int_equal(scrub_text(set, text, sizeof(text) - 1, &count), ST_OK);
	assert_string_equal(text, "zyxwvutzyxwvuta");
	needle_set_free(set);
}

static void
what_can_not_be_scrubbed_is_refused_at_birth(void **state)
{
	static const char letters[] =
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	static const char others[] =
		"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
	static const struct {
		const char *text, *mask;
		enum status st;
	} rows[] = {
		{ "short", "trohs", ST_TOO_BIG },
		{ "secret1", "secret1", ST_CONFLICT },
		{ "secret1", "longer12", ST_CONFLICT },
		{ letters, others, ST_CONFLICT },
	};
	struct needle_set *set = NULL;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct needle n = { str_from(rows[i].text), str_from(rows[i].mask) };

		assert_int_equal(needle_set_new(&n, 1, &set), rows[i].st);
	}
	assert_null(set);
}

static void
long_secrets_are_masked_as_well(void **state)
{
	char *secret = malloc(NEEDLE_MAX), *mask = malloc(NEEDLE_MAX), *space;
	struct needle n;
	struct needle_set *set;
	uint64_t seed = 7;
	uint32_t count = 0;

	(void)state;
	assert_true(secret != NULL && mask != NULL);
	for (size_t i = 0; i < NEEDLE_MAX; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		secret[i] = (char)('a' + (seed >> 33) % 26);
		mask[i] = (char)(secret[i] == 'z' ? 'a' : secret[i] + 1);
	}
	n = (struct needle){ str_of(secret, NEEDLE_MAX), str_of(mask, NEEDLE_MAX) };
	assert_int_equal(needle_set_new(&n, 1, &set), ST_OK);
	space = malloc(NEEDLE_MAX);
	assert_non_null(space);
	memcpy(space, secret, NEEDLE_MAX);
	assert_int_equal(scrub_text(set, space, NEEDLE_MAX, &count), ST_OK);
	assert_memory_equal(space, mask, NEEDLE_MAX);
	assert_int_equal(count, 1);
	needle_set_free(set);
	free(space);
	free(secret);
	free(mask);
}

static struct str
value_of(const struct head *h, const char *name)
{
	const struct field *f = head_find(h, str_from(name));

	assert_non_null(f);
	return f->value;
}

static void
fields_are_masked_in_every_form(void **state)
{
	struct arena a;
	struct bench b;
	struct head h;
	uint32_t count = 0;

	(void)state;
	arena_init(&a, 1 << 20);
	setup(&b, SECRET, PLACEHOLDER);
	for (size_t i = 0; i < COUNT_OF(forms); i++) {
		head_init(&h, &a);
		write_both(&b, forms[i].put, SECRET, PLACEHOLDER);
		assert_int_equal(head_add(&h, STR("x-clean"), STR("nothing here")),
				 ST_OK);
		assert_int_equal(head_add(&h, STR("x-echo"), str_of(b.in.p, b.in.len)),
				 ST_OK);
		assert_int_equal(scrub_fields(b.set, &h, &count), ST_OK);
		assert_true(
			str_eq(value_of(&h, "x-echo"), str_of(b.want.p, b.want.len)));
		assert_true(str_eq(value_of(&h, "x-clean"), STR("nothing here")));
	}
	assert_int_equal(count, COUNT_OF(forms));
	teardown(&b);
	arena_done(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_form_comes_out_as_the_placeholder_at_every_cut),
		cmocka_unit_test(secrets_of_every_length_are_found_in_every_form),
		cmocka_unit_test(two_echoes_beside_each_other_are_both_masked),
		cmocka_unit_test(no_neighbour_hides_an_echo),
		cmocka_unit_test(what_is_no_echo_passes_octet_for_octet),
		cmocka_unit_test(
			only_a_live_match_is_held_back_and_only_from_what_would_change),
		cmocka_unit_test(a_clean_piece_is_not_copied),
		cmocka_unit_test(several_secrets_are_masked_each_by_its_own),
		cmocka_unit_test(masks_and_neighbours_never_make_a_secret),
		cmocka_unit_test(what_can_not_be_scrubbed_is_refused_at_birth),
		cmocka_unit_test(long_secrets_are_masked_as_well),
		cmocka_unit_test(fields_are_masked_in_every_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
