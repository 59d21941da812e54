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
expect_of(bool is_tty, const char *typed, const char *want)
{
	static struct pty_line l;
	struct str all = str_from(typed);

	for (size_t piece = 1; piece <= all.n; piece++) {
		CLEANUP(buf_done) struct buf b = { 0 };

		buf_init(&b, 65536);
		pty_line_init(&l);
		l.is_tty = is_tty;
		for (struct str in = all; in.n > 0; in = str_skip(in, piece))
			pty_line_put(&l, str_head(in, piece), tell, &b);
		pty_line_end(&l, tell, &b);
		assert_string_equal(b.len == 0 ? "" : buf_cstr(&b), want);
	}
}

static void
expect(const char *typed, const char *want)
{
	expect_of(true, typed, want);
}

static void
lines_end_with_enter_and_empty_ones_are_none(void **state)
{
	(void)state;
	expect("ls -l\rid\n\r\n", "[ls -l][id]");
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
	expect("ls\033[Dx\rid\r", "<ls\nx>[id]");
	expect("ls\t\r", "<ls\n>");
	expect("\022rm\r", "<rm>");
	expect("a\033bc\r", "<a\nc>");
	expect("a\033[1;5\r", "<a>");
	expect("a\033[\001b\r", "<a\nb>");
	expect("a\033\r", "<a>");
	expect("\033[A\025id\r", "<id>");
}

/* ^A ^K takes back all, an arrow goes elsewhere, ^O begins anew. */
static void
what_comes_behind_such_a_key_is_told_apart(void **state)
{
	(void)state;
	expect(": #\001\013rm\r", "<: #\nrm>");
	expect(": #\017rm\r", "<: #><: #\nrm>");
	expect("echo '\033[Hrm #\r", "<echo '\nrm #>");
}

/* ^A ^U and ^V ^C take back nothing, ^A and backspaces neither. */
static void
nothing_is_taken_back_where_the_cursor_is_not_known(void **state)
{
	(void)state;
	expect("rm -rf /\001\025\r", "<rm -rf /\n>");
	expect("rm -rf / #\026\003\rid\r", "<rm -rf / #\n>[id]");
	expect("rm\001\177\b\027\r", "<rm\n>");
	expect("ls\t\003id\r", "<ls\nid>");
}

static void
without_a_terminal_nothing_is_taken_back(void **state)
{
	(void)state;
	expect_of(false, "ls\r", "[ls]");
	expect_of(false, "rm x;\025:\nid\n", "<rm x;\n:>[id]");
	expect_of(false, "rm x #\003\n", "<rm x #\n>");
	expect_of(false, "rm x;e\b\027\n", "<rm x;e\n>");
}

static void
what_is_handed_over_without_an_end_of_line_is_told(void **state)
{
	(void)state;
	expect("rm -rf /\017\025", "<rm -rf /><rm -rf /\n>");
	expect("rm -rf /\004\004", "<rm -rf /><rm -rf /\n><rm -rf /\n>");
	expect("rm \004-rf /\r", "<rm ><rm \n-rf />");
	expect("rm -rf /\030\005", "<rm -rf /><rm -rf /\n>");
	expect("\004", "<>");
	expect("rm -rf /", "<rm -rf />");
}

static void
a_line_that_goes_on_is_told_with_what_continues_it(void **state)
{
	(void)state;
	expect("rm -rf \\\r/\rid\r", "[rm -rf \\][rm -rf /][id]");
	expect("r\\\rm\\\r x\r", "[r\\][rm\\][rm x]");
	expect("echo \\\\\rid\r", "[echo \\\\][id]");
	expect("rm \\\r\003id\r", "[rm \\][id]");
	expect("rm \\\005\r/\r", "<rm \\\n><rm />");
}

static void
a_long_line_is_told_in_parts_that_overlap(void **state)
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
	assert_int_equal(b.len, PTY_LINE_MAX + 2 + PTY_LINE_MAX / 2 + 2 + 10 + 4);
	assert_int_equal(b.p[0], '<');
	assert_memory_equal(b.p + PTY_LINE_MAX + 1, "><a", 3);
	assert_memory_equal(b.p + b.len - 6, "a>[id]", 6);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_end_with_enter_and_empty_ones_are_none),
		cmocka_unit_test(what_is_taken_back_is_not_in_the_line),
		cmocka_unit_test(pasted_lines_are_as_typed),
		cmocka_unit_test(keys_that_are_not_known_make_a_line_not_whole),
		cmocka_unit_test(what_comes_behind_such_a_key_is_told_apart),
		cmocka_unit_test(nothing_is_taken_back_where_the_cursor_is_not_known),
		cmocka_unit_test(without_a_terminal_nothing_is_taken_back),
		cmocka_unit_test(what_is_handed_over_without_an_end_of_line_is_told),
		cmocka_unit_test(a_line_that_goes_on_is_told_with_what_continues_it),
		cmocka_unit_test(a_long_line_is_told_in_parts_that_overlap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
