/*
 * What was redacted once stays as it is, and a secret in a shape that is known never
 * comes through, whatever stands in the lines around it.  And the note that holds such a
 * text is JSON within its bound, without the secret.
 *
 * Input: an octet for the shape, one for how long the secret is, then what stands before
 * and, from the first NUL on, behind.
 */
#include <jansson.h>
#include <string.h>

#include "proxy/base/redact.h"
#include "proxy/io/exec_note.h"

enum { SECRET_MAX = 64 };

/* Before and behind the secret.  Behind a blank or a quote it ends. */
static const struct shape {
	const char *before, *behind;
} shapes[] = {
	{ "token=", "" },
	{ "export DB_PASSWORD=", " x" },
	{ "{\"client_secret\": \"", "\"}" },
	{ "{\\\"apiKey\\\": \\\"", "\\\"}" },
	{ "x --token ", " y" },
	{ "x --private-key='", "'" },
	{ "[\"x\", \"--passwd\", \"", "\"]" },
	{ "Authorization: Bearer ", "\r" },
	{ "\"Authorization\": \"Basic ", "\"" },
	{ "Proxy-Authorization: ", "" },
	{ "say Bearer ", " y" },
	{ "say Basic ", " y" },
	{ "https://u:", "@h/x" },
	{ "x://", "@h" },
	{ "curl -u bob:", " y" },
	{ "ghp_", " y" },
	{ "glpat-", "" },
	{ "xoxb-", ")" },
	{ "sk-", "" },
	{ "sgk_", "," },
	{ "eyJ", ".eyJx.y" },
	{ "-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----" },
	{ "-----BEGIN RSA PRIVATE KEY-----\n", "" },
};

/* Letters and digits, in both cases, the same for the same length; nothing else in the
 * text is so, other than by luck that no fuzzer has. */
static struct str
make_secret(char secret[SECRET_MAX], size_t n)
{
	static const char letters[] = "Zq7Xw9Kv3Jp5";

	for (size_t i = 0; i < n; i++)
		secret[i] = letters[(i * 7 + i / 5) % (sizeof letters - 1)];
	return str_of(secret, n);
}

static bool
occurs(struct str in, struct str what)
{
	return in.n > 0 && memmem(in.p, in.n, what.p, what.n) != NULL;
}

static struct str
redacted(struct buf *b, struct str text)
{
	struct str s;

	buf_init(b, 4 * text.n + 64);
	redact_put(b, text, NULL);
	need(buf_finish(b, &s) == ST_OK);
	return s;
}

static void
check_stays(struct str once)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	need(str_eq(redacted(&b, once), once));
}

static void
check_note(struct str text, struct str secret)
{
	CLEANUP(exec_note_done) struct exec_note n = { 0 };
	const struct str argv[] = { str_head(text, text.n / 2), text,
				    str_skip(text, text.n / 2) };
	static const uint8_t hash[EXEC_NOTE_HASH] = { 1 };
	const struct exec_file f = { .path = text,
				     .owner = str_head(text, 9),
				     .hash = text.n % 5 == 0 ? hash : NULL,
				     .mode = (uint16_t)text.n };

	exec_note_begin(&n, STR("command.run"));
	exec_note_text(&n, "command", text);
	if (text.n % 2 == 0)
		exec_note_list(&n, "env", argv, COUNT_OF(argv));
	if (text.n % 2 == 0)
		exec_note_argv(&n, "argv", argv, COUNT_OF(argv));
	exec_note_files_begin(&n);
	for (size_t i = 0; i < text.n % 8; i++)
		exec_note_file(&n, &f);
	exec_note_files_end(&n);
	exec_note_number(&n, "exit", (int64_t)text.n - 10);
	exec_note_stream(&n, "stdout", text.n, hash);
	if (text.n % 3 == 0)
		exec_note_hash(&n, "sha256", hash);
	struct str s = exec_note_end(&n);
	need(s.n <= ROW_EXEC_MAX);
	json_t *v = json_loadb(s.p, s.n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
	need(json_is_object(v));
	json_decref(v);
	need(secret.n == 0 || text.n % 2 == 0 || !occurs(s, secret));
}

static void
check_secret(struct str in, const struct shape *shape, size_t n)
{
	CLEANUP(buf_done) struct buf text = { 0 }, b = { 0 };
	char secret[SECRET_MAX];
	struct str before = str_cut(&in, '\0'), s = make_secret(secret, n);

	if (occurs(before, s) || occurs(in, s))
		return;
	buf_init(&text, before.n + in.n + 256);
	buf_put(&text, before);
	buf_putc(&text, '\n');
	buf_put(&text, str_from(shape->before));
	buf_put(&text, s);
	buf_put(&text, str_from(shape->behind));
	buf_putc(&text, '\n');
	buf_put(&text, in);
	struct str whole = str_of(text.p, text.len), once = redacted(&b, whole);
	need(!occurs(once, s));
	check_stays(once);
	check_note(whole, s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str in = str_of(data, size);

	if (size < 2)
		return 0;
	in = str_skip(in, 2);
	check_stays(redacted(&b, in));
	check_note(in, STR(""));
	check_secret(in, &shapes[data[0] % COUNT_OF(shapes)],
		     24 + data[1] % (SECRET_MAX - 24));
	return 0;
}
