/* What is typed into a terminal, line by line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/base/buf.h"
#include "proxy/flow/pty_line.h"

/* "[line]" for each that is whole, "<line>" for one that is not. */
static void
tell(void *ctx, struct str line, bool is_whole)
{
	struct buf *b = ctx;

	buf_putc(b, is_whole ? '[' : '<');
	buf_put(b, line);
	buf_putc(b, is_whole ? ']' : '>');
}

static void
expect(const char *typed, const char *want)
{
	static struct pty_line l;
	struct str all = str_from(typed);

	for (size_t piece = 1; piece <= all.n; piece++) {
		CLEANUP(buf_done) struct buf b = { 0 };

		buf_init(&b, 65536);
		pty_line_init(&l);
		for (struct str in = all; in.n > 0; in = str_skip(in, piece))
			pty_line_put(&l, str_head(in, piece), tell, &b);
		assert_string_equal(b.len == 0 ? "" : buf_cstr(&b), want);
	}
}

static void
lines_end_with_enter_and_empty_ones_are_none(void **state)
{
	(void)state;
	expect("ls -l\rid\n\r\nwhoami", "[ls -l][id]");
	expect("\r\r\n", "");
}

static void
what_is_taken_back_is_not_in_the_line(void **state)
{
	(void)state;
	expect("lx\bs\177s\r", "[ls]");
	expect("rm -rf /\025ls\r", "[ls]");
	expect("rm -rf /\003ls\r", "[ls]");
	expect("echo a  b  \027\027c\r", "[echo c]");
	expect("a\b\b\b\bb\r", "[b]");
	expect("\xc3\xa4\xe2\x82\xac\177x\r", "[\xc3\xa4x]");
}

static void
pasted_lines_are_as_typed(void **state)
{
	(void)state;
	expect("\033[200~ls\rid\033[201~\r", "[ls][id]");
}

static void
keys_that_are_not_known_make_a_line_not_whole(void **state)
{
	(void)state;
	expect("\033[A\r", "<>");
	expect("ls\033[Dx\rid\r", "<lsx>[id]");
	expect("ls\t\r", "<ls>");
	expect("\022rm\r", "<rm>");
	expect("a\033bc\r", "<ac>");
	expect("a\033[1;5\r", "<a>");
	expect("a\033[\001b\r", "<ab>");
	expect("a\033\r", "<a>");
	/* What takes back the line takes back that it isn't whole. */
	expect("\033[A\025id\r", "[id]");
}

static void
a_long_line_is_told_up_to_its_bound(void **state)
{
	static struct pty_line l;
	static char text[PTY_LINE_MAX + 10];
	CLEANUP(buf_done) struct buf b = { 0 };

	(void)state;
	memset(text, 'a', sizeof text);
	buf_init(&b, 65536);
	pty_line_init(&l);
	pty_line_put(&l, str_of(text, sizeof text), tell, &b);
	pty_line_put(&l, STR("\rid\r"), tell, &b);
	assert_int_equal(b.len, PTY_LINE_MAX + 2 + 4);
	assert_int_equal(b.p[0], '<');
	assert_memory_equal(b.p + PTY_LINE_MAX + 2, "[id]", 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_end_with_enter_and_empty_ones_are_none),
		cmocka_unit_test(what_is_taken_back_is_not_in_the_line),
		cmocka_unit_test(pasted_lines_are_as_typed),
		cmocka_unit_test(keys_that_are_not_known_make_a_line_not_whole),
		cmocka_unit_test(a_long_line_is_told_up_to_its_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
