#include "proxy/cli/ledger_exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/clock.h"
#include "proxy/base/enc.h"

enum { INDENT_MAX = 32, NUMBER_MAX = 24 };

json_t *
ledger_exec_load(struct str exec)
{
	json_t *v =
		exec.n == 0 ? NULL : json_loadb(exec.p, exec.n, JSON_ALLOW_NUL, NULL);

	if (json_is_object(v))
		return v;
	json_decref(v);
	return NULL;
}

static struct str
text_of(const json_t *v)
{
	return json_is_string(v) ? str_of(json_string_value(v), json_string_length(v))
				 : STR("");
}

struct str
ledger_exec_str(const json_t *exec, const char *key)
{
	return text_of(json_object_get(exec, key));
}

static struct str
approval_of(const json_t *v, struct buf *b)
{
	uint64_t number = 0;

	if (json_is_integer(v))
		number = (uint64_t)json_integer_value(v);
	else if (!enc_get_id(text_of(v), &number))
		return text_of(v);
	buf_init(b, NUMBER_MAX);
	buf_putf(b, "%llu", (unsigned long long)number);
	return str_of(b->p, b->len);
}

struct str
ledger_exec_approval(const json_t *exec, struct buf *b)
{
	return approval_of(json_object_get(exec, "approval"), b);
}

/* False: no approval, or none that is named as they are. */
static bool
put_approval(struct buf *b, const char *key, const json_t *v)
{
	CLEANUP(buf_done) struct buf number = { 0 };
	struct str s = strcmp(key, "approval") == 0 ? approval_of(v, &number) : STR("");

	buf_put(b, number.len > 0 ? s : STR(""));
	return number.len > 0;
}

void
ledger_exec_put_shown(struct buf *b, struct str s)
{
	static const char from[] = "\n\t\r\\", to[] = "ntr\\";

	while (s.n > 0 && b->st == ST_OK) {
		const char *at = s.p[0] == '\0' ? NULL : strchr(from, s.p[0]);
		size_t k = buf_shown(s);
		if (at != NULL)
			buf_putf(b, "\\%c", to[at - from]);
		else if (k > 0)
			buf_put(b, str_head(s, k));
		else
			buf_putf(b, "\\x%02x", (unsigned)(unsigned char)s.p[0]);
		s = str_skip(s, k > 0 ? k : 1);
	}
}

void
ledger_exec_put_lines(struct buf *b, const char *indent, struct str s)
{
	while (s.p != NULL && s.n > 0) {
		struct str line = str_cut(&s, '\n');
		buf_put(b, str_from(indent));
		while (line.p != NULL) {
			/* A tab moves on, never back. */
			ledger_exec_put_shown(b, str_cut(&line, '\t'));
			if (line.p != NULL)
				buf_putc(b, '\t');
		}
		buf_putc(b, '\n');
	}
}

/* Whatever it is. */
static void
put_value(struct buf *b, const json_t *v)
{
	if (json_is_string(v)) {
		ledger_exec_put_shown(b, text_of(v));
		return;
	}
	char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
	ledger_exec_put_shown(b, str_from(text));
	free(text);
}

/* As it would be typed. */
static void
put_word(struct buf *b, const json_t *v)
{
	struct str s = text_of(v);
	bool is_plain = s.n > 0 || !json_is_string(v);

	for (size_t i = 0; i < s.n; i++)
		is_plain &= ascii_is_alpha(s.p[i]) || ascii_is_digit(s.p[i]) ||
			    (s.p[i] != '\0' && strchr("_./:=@%+,-", s.p[i]) != NULL);
	if (!is_plain)
		buf_putc(b, '\'');
	put_value(b, v);
	if (!is_plain)
		buf_putc(b, '\'');
}

static void
put_words(struct buf *b, const json_t *all)
{
	const json_t *v;
	size_t i;

	json_array_foreach(all, i, v)
	{
		if (i > 0)
			buf_putc(b, ' ');
		put_word(b, v);
	}
}

static void
put_files(struct buf *b, const json_t *files)
{
	const json_t *f;
	size_t i;

	json_array_foreach(files, i, f)
	{
		if (i > 0)
			buf_putc(b, ' ');
		put_word(b, json_object_get(f, "path"));
	}
}

void
ledger_exec_put_text(struct buf *b, const json_t *exec)
{
	static const char *const keys[] = { "command", "argv", "code",
					    "paths",   "path", "text" };

	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		const json_t *v = json_object_get(exec, keys[i]);
		if (json_is_array(v))
			put_words(b, v);
		else if (v != NULL)
			put_value(b, v);
		if (v != NULL)
			return;
	}
	put_files(b, json_object_get(exec, "files"));
}

static void
put_number(struct buf *b, const char *name, const json_t *v)
{
	if (json_is_integer(v))
		buf_putf(b, " %s=%lld", name, (long long)json_integer_value(v));
}

static void
put_count(struct buf *b, const char *name, uint64_t v)
{
	if (v != 0)
		buf_putf(b, " %s=%llu", name, (unsigned long long)v);
}

void
ledger_exec_put_end(struct buf *b, const struct row *r, const json_t *exec)
{
	static const char *const outs[] = { "stdout", "stderr" };

	put_number(b, "exit", json_object_get(exec, "exit"));
	put_count(b, "status", r->http_status);
	if (r->duration_ms != 0)
		put_count(b, "ms", r->duration_ms);
	else
		put_number(b, "ms", json_object_get(exec, "ms"));
	for (size_t i = 0; i < COUNT_OF(outs); i++)
		put_number(b, outs[i],
			   json_object_get(json_object_get(exec, outs[i]), "bytes"));
	put_count(b, "up", r->bytes_up);
	put_count(b, "down", r->bytes_down);
}

static void
put_or_dash(struct buf *b, struct str s)
{
	ledger_exec_put_shown(b, s.n == 0 ? STR("-") : s);
}

static const char *
verdict(const struct row *r)
{
	if (row_is_refusal(r))
		return "denied";
	if (r->kind == ROW_EXEC)
		return r->observed ? "observed" : "allowed";
	return r->kind == ROW_EXEC_END ? "ended" : row_kind_word(r->kind);
}

/* What a person was asked and said. */
static void
put_asked(struct buf *b, const json_t *exec)
{
	static const char *const keys[] = { "approval", "state", "by", "level", "why" };

	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		const json_t *v = json_object_get(exec, keys[i]);
		if (v == NULL)
			continue;
		buf_putf(b, " %s=", keys[i]);
		if (!put_approval(b, keys[i], v))
			put_word(b, v);
	}
}

void
ledger_exec_put_line(struct buf *b, const struct row *r)
{
	json_t *exec = ledger_exec_load(r->exec);

	clock_put(b, r->time_us);
	buf_putc(b, ' ');
	enc_put_id(b, r->id);
	buf_putc(b, ' ');
	put_or_dash(b, r->user);
	buf_putc(b, '/');
	put_or_dash(b, r->agent);
	buf_putc(b, ' ');
	put_or_dash(b, r->sandbox);
	buf_putc(b, ' ');
	put_or_dash(b, ledger_exec_str(exec, "op"));
	buf_putf(b, " %s %s ", verdict(r), status_code(r->reason));
	size_t before = b->len;
	ledger_exec_put_text(b, exec);
	if (exec == NULL)
		ledger_exec_put_shown(b, r->exec);
	if (b->len == before && before > 0)
		b->len--; /* all that follows begins with a blank */
	ledger_exec_put_end(b, r, exec);
	put_asked(b, exec);
	buf_putc(b, '\n');
	json_decref(exec);
}

static void
put_hashed(struct buf *b, const json_t *v)
{
	put_value(b, json_object_get(v, "bytes"));
	buf_put(b, STR(" bytes"));
	if (json_object_get(v, "sha256") != NULL) {
		buf_put(b, STR(", sha256 "));
		put_value(b, json_object_get(v, "sha256"));
	}
}

static void
put_file(struct buf *b, const char *indent, const json_t *f)
{
	static const char *const keys[] = { "mode", "owner" };

	buf_putf(b, "%s  ", indent);
	put_word(b, json_object_get(f, "path"));
	buf_put(b, STR("  "));
	put_hashed(b, f);
	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		const json_t *v = json_object_get(f, keys[i]);
		if (v == NULL)
			continue;
		buf_putf(b, ", %s ", keys[i]);
		put_value(b, v);
	}
	buf_putc(b, '\n');
}

static void
put_member(struct buf *b, const char *indent, const char *key, const json_t *v)
{
	char deeper[INDENT_MAX + 2];
	const json_t *f;
	size_t i;

	buf_put(b, str_from(indent));
	ledger_exec_put_shown(b, str_from(key));
	if (strcmp(key, "files") == 0 && json_is_array(v)) {
		buf_putc(b, '\n');
		json_array_foreach(v, i, f) put_file(b, indent, f);
		return;
	}
	if (str_has(text_of(v), '\n')) {
		(void)snprintf(deeper, sizeof deeper, "%s  ", indent);
		buf_putc(b, '\n');
		ledger_exec_put_lines(b, deeper, text_of(v));
		return;
	}
	buf_putc(b, ' ');
	if (json_is_array(v))
		put_words(b, v);
	else if (json_object_get(v, "bytes") != NULL)
		put_hashed(b, v);
	else if (!put_approval(b, key, v))
		put_value(b, v);
	buf_putc(b, '\n');
}

void
ledger_exec_put_all(struct buf *b, const char *indent, const json_t *exec)
{
	const char *key;
	json_t *v;
	void *at = json_object_iter((json_t *)(uintptr_t)exec);

	for (; at != NULL; at = json_object_iter_next((json_t *)(uintptr_t)exec, at)) {
		key = json_object_iter_key(at);
		v = json_object_iter_value(at);
		if (strcmp(key, "op") != 0)
			put_member(b, indent, key, v);
	}
}
