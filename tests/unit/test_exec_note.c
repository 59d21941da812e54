#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "proxy/base/enc.h"
#include "proxy/io/chain.h"
#include "proxy/io/exec_note.h"

static const uint8_t some_hash[EXEC_NOTE_HASH] = { 0xab };

/* The note ends, and is JSON within its bound. */
static json_t *
end(struct exec_note *n)
{
	struct str s = exec_note_end(n);
	json_t *v;

	assert_in_range(s.n, 2, ROW_EXEC_MAX);
	v = json_loadb(s.p, s.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	assert_true(json_is_object(v));
	return v;
}

static void
assert_hash_of(const json_t *note, struct str whole)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct chain_hash h = chain_digest(whole);

	buf_init(&b, 100);
	enc_put_hex(&b, chain_str(&h));
	assert_string_equal(json_string_value(json_object_get(note, "sha256")),
			    buf_cstr(&b));
	assert_true(json_is_true(json_object_get(note, "cut")));
}

static void
parts_come_in_order(void **state)
{
	static const struct str argv[] = { { "x", 1 }, { "--token", 7 }, { "abc", 3 } };
	const struct exec_file f = { .path = STR("/a"),
				     .owner = STR("root:root"),
				     .bytes = 3,
				     .hash = some_hash,
				     .mode = 755 };
	const struct exec_file bare = { .path = STR("/b") };
	CLEANUP(exec_note_done) struct exec_note n = { 0 };

	(void)state;
	exec_note_begin(&n, STR("command.run"));
	exec_note_text(&n, "command", STR("echo \"hi\" token=abc"));
	exec_note_text(&n, "cwd", STR(""));
	exec_note_argv(&n, "argv", argv, COUNT_OF(argv));
	exec_note_list(&n, "env", argv, 1);
	exec_note_list(&n, "paths", NULL, 0);
	exec_note_number(&n, "exit", -1);
	exec_note_stream(&n, "stdout", 7, some_hash);
	exec_note_files_begin(&n);
	exec_note_file(&n, &f);
	exec_note_file(&n, &bare);
	exec_note_files_end(&n);
	exec_note_hash(&n, "sha256", some_hash);
	struct str s = exec_note_end(&n);
#define HASH "\"ab00000000000000000000000000000000000000000000000000000000000000\""
	assert_true(str_eq(
		s, STR("{\"op\":\"command.run\",\"command\":\"echo \\u0022hi\\u0022 "
		       "token=[redacted]\",\"argv\":[\"x\",\"--token\",\"[redacted]\"],"
		       "\"env\":[\"x\"],\"exit\":-1,\"stdout\":{\"bytes\":7,"
		       "\"sha256\":" HASH
		       "},\"files\":[{\"path\":\"/a\",\"bytes\":3,\"sha256\":" HASH
		       ",\"mode\":755,\"owner\":\"root:root\"},{\"path\":\"/"
		       "b\",\"bytes\":0}],"
		       "\"sha256\":" HASH "}")));
#undef HASH
}

static void
a_long_text_is_cut_and_hashed_whole(void **state)
{
	static char text[10000];
	CLEANUP(exec_note_done) struct exec_note n = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = "\xc3\xa9"[i % 2];
	exec_note_begin(&n, STR("code.run"));
	exec_note_text(&n, "code", str_of(text + 1, sizeof text - 1));
	exec_note_number(&n, "exit", 0);
	json_t *v = end(&n);
	const char *code = json_string_value(json_object_get(v, "code"));
	/* It begins with half a character, which becomes one of two octets. */
	assert_in_range(strlen(code), EXEC_NOTE_TEXT - 2, EXEC_NOTE_TEXT + 1);
	assert_true(str_ends(str_from(code), STR("é")));
	assert_int_equal(json_integer_value(json_object_get(v, "exit")), 0);
	assert_hash_of(v, str_of(text + 1, sizeof text - 1));
	json_decref(v);
}

static void
a_text_that_grows_when_written_is_cut_to_what_room_there_is(void **state)
{
	static char text[4096];
	CLEANUP(exec_note_done) struct exec_note n = { 0 };

	(void)state;
	memset(text, 1, sizeof text);
	exec_note_begin(&n, STR("command.run"));
	exec_note_text(&n, "command", str_of(text, sizeof text));
	exec_note_text(&n, "second", str_of(text, sizeof text));
	exec_note_text(&n, "third", str_of(text, sizeof text));
	json_t *v = end(&n);
	assert_in_range(json_string_length(json_object_get(v, "command")), 1150, 1330);
	assert_in_range(json_string_length(json_object_get(v, "second")), 16, 180);
	assert_hash_of(v, str_of(text, sizeof text));
	json_decref(v);
}

static void
files_that_do_not_fit_are_counted(void **state)
{
	CLEANUP(exec_note_done) struct exec_note n = { 0 };
	struct exec_file f = { .path = STR("/some/where/in/the/tree"),
			       .owner = STR("root:root"),
			       .hash = some_hash };
	enum { FILES = 1000 };

	(void)state;
	exec_note_begin(&n, STR("files.upload"));
	exec_note_files_begin(&n);
	for (size_t i = 0; i < FILES; i++)
		exec_note_file(&n, &f);
	exec_note_files_end(&n);
	exec_note_number(&n, "ms", 1);
	json_t *v = end(&n);
	size_t shown = json_array_size(json_object_get(v, "files"));
	assert_in_range(shown, 40, 60);
	assert_int_equal(json_integer_value(json_object_get(v, "files_more")),
			 FILES - shown);
	assert_true(json_is_true(json_object_get(v, "cut")));
	json_decref(v);
}

static void
a_list_ends_where_it_does_not_fit(void **state)
{
	static char text[3000];
	CLEANUP(exec_note_done) struct exec_note n = { 0 };
	struct str argv[5];

	(void)state;
	memset(text, 'x', sizeof text);
	for (size_t i = 0; i < COUNT_OF(argv); i++)
		argv[i] = str_of(text, sizeof text);
	exec_note_begin(&n, STR("command.run"));
	exec_note_argv(&n, "argv", argv, COUNT_OF(argv));
	json_t *v = end(&n);
	const json_t *shown = json_object_get(v, "argv");
	assert_in_range(json_array_size(shown), 2, 4);
	assert_int_equal(json_string_length(json_array_get(shown, 0)), sizeof text);
	assert_true(json_is_true(json_object_get(v, "cut")));
	assert_int_equal(json_string_length(json_object_get(v, "sha256")), 64);
	json_decref(v);
}

/* However little room is left when a part comes. */
static void
a_note_is_whole_wherever_it_becomes_full(void **state)
{
	static char text[EXEC_NOTE_TEXT];
	const struct exec_file f = { .path = STR("/a/path"),
				     .owner = STR("root"),
				     .hash = some_hash,
				     .mode = 644 };

	(void)state;
	memset(text, 'x', sizeof text);
	for (size_t k = 0; k < 400; k++) {
		CLEANUP(exec_note_done) struct exec_note n = { 0 };
		exec_note_begin(&n, STR("files.upload"));
		exec_note_text(&n, "a", str_of(text, sizeof text));
		exec_note_text(&n, "b", str_of(text, 3550 + k));
		exec_note_number(&n, "exit", 0);
		exec_note_text(&n, "cwd", STR("/some/where"));
		exec_note_files_begin(&n);
		exec_note_file(&n, &f);
		exec_note_file(&n, &f);
		exec_note_files_end(&n);
		exec_note_list(&n, "env", &f.path, 1);
		exec_note_stream(&n, "stdout", UINT64_MAX, some_hash);
		json_decref(end(&n));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_come_in_order),
		cmocka_unit_test(a_long_text_is_cut_and_hashed_whole),
		cmocka_unit_test(
			a_text_that_grows_when_written_is_cut_to_what_room_there_is),
		cmocka_unit_test(files_that_do_not_fit_are_counted),
		cmocka_unit_test(a_list_ends_where_it_does_not_fit),
		cmocka_unit_test(a_note_is_whole_wherever_it_becomes_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
