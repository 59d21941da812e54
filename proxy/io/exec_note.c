#include "proxy/io/exec_note.h"

#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"
#include "proxy/io/chain.h"

/* The rest is for what exec_note_files_end() and exec_note_end() put:
 * ],"files_more":N,"cut":true,"sha256":"..."} */
enum { ROOM = ROW_EXEC_MAX - 160, LEAST = 16 };

_Static_assert((int)EXEC_NOTE_HASH == (int)CHAIN_HASH, "SHA-256");

void
exec_note_begin(struct exec_note *n, struct str op)
{
	*n = (struct exec_note){ .is_first = true };
	buf_init(&n->b, ROW_EXEC_MAX);
	buf_putc(&n->b, '{');
	exec_note_text(n, "op", op);
}

void
exec_note_done(struct exec_note *n)
{
	buf_done(&n->b);
}

/* What does not fit is taken back; being out of memory stays. */
static bool
fits(struct exec_note *n, size_t before)
{
	if (n->b.st == ST_OK && n->b.len <= ROOM)
		return true;
	n->is_cut = true;
	n->b.len = before;
	if (n->b.st == ST_TOO_BIG)
		n->b.st = ST_OK;
	return false;
}

/* Returns how long the note was. */
static size_t
put_key(struct exec_note *n, const char *key)
{
	size_t before = n->b.len;

	if (!n->is_first)
		buf_putc(&n->b, ',');
	buf_putf(&n->b, "\"%s\":", key);
	return before;
}

/* A part that was not put whole is none. */
static bool
end_part(struct exec_note *n, size_t before, bool is_put)
{
	bool is_in = fits(n, before) && is_put;

	if (!is_in)
		n->b.len = before;
	return is_in;
}

static void
end_value(struct exec_note *n, size_t before, bool is_put)
{
	if (end_part(n, before, is_put))
		n->is_first = false;
}

/* The beginning, without a part of a character at its end. */
static struct str
shorten(struct str s, size_t most)
{
	size_t k = most;

	if (s.n <= most)
		return s;
	while (k > 0 && most - k < 3 && ((unsigned char)s.p[k] & 0xc0) == 0x80)
		k--;
	return str_head(s, k);
}

/* As a string, as much of it as there is room for; false: none. */
static bool
put_string(struct exec_note *n, struct str shown)
{
	size_t before = n->b.len, room = before < ROOM ? ROOM - before : 0;
	size_t most = num_min(num_min(shown.n, EXEC_NOTE_TEXT), room);

	n->is_cut |= most < shown.n;
	while (n->b.st == ST_OK && (most >= LEAST || most == shown.n)) {
		buf_put_json(&n->b, shorten(shown, most));
		if (fits(n, before))
			return true;
		if (most < LEAST)
			break;
		most -= most / 8;
	}
	n->is_cut = true;
	return false;
}

/* Redacted first: half of a secret is not known as one. */
static bool
put_redacted(struct exec_note *n, struct str flag, struct str text)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str shown;

	buf_init(&b, 4 * text.n + 64); /* each replacement is shorter than 4 of its */
	redact_put_behind(&b, flag, text, &n->keep);
	if (buf_finish(&b, &shown) == ST_OK)
		return put_string(n, shown);
	n->is_cut = true;
	return false;
}

/* Was something cut by what was put since?  Then the first that was is hashed whole. */
static void
hash_cut(struct exec_note *n, bool was_cut, struct str whole)
{
	if (was_cut || !n->is_cut)
		return;
	struct chain_hash h = chain_digest(whole);
	memcpy(n->hash, h.b, sizeof n->hash);
	n->is_hashed = true;
}

void
exec_note_text(struct exec_note *n, const char *key, struct str text)
{
	bool was_cut = n->is_cut;

	if (text.n == 0)
		return;
	size_t before = put_key(n, key);
	end_value(n, before, put_redacted(n, STR(""), text));
	hash_cut(n, was_cut, text);
}

/* Up to and with the first one that is cut. */
static void
put_items(struct exec_note *n, const struct str *texts, size_t count, bool is_argv)
{
	for (size_t i = 0; i < count && !n->is_cut; i++) {
		size_t before = n->b.len;
		struct str flag = is_argv && i > 0 ? texts[i - 1] : STR("");
		if (i > 0)
			buf_putc(&n->b, ',');
		(void)end_part(n, before, put_redacted(n, flag, texts[i]));
	}
}

/* Each behind the one before, with a NUL after each. */
static void
hash_list(struct exec_note *n, bool was_cut, const struct str *texts, size_t count)
{
	CLEANUP(buf_done) struct buf all = { 0 };
	struct str whole;

	if (was_cut || !n->is_cut)
		return;
	buf_init(&all, SIZE_MAX);
	for (size_t i = 0; i < count; i++) {
		buf_put(&all, texts[i]);
		buf_putc(&all, '\0');
	}
	if (buf_finish(&all, &whole) == ST_OK)
		hash_cut(n, was_cut, whole);
}

static void
put_list(struct exec_note *n, const char *key, const struct str *texts, size_t count,
	 bool is_argv)
{
	bool was_cut = n->is_cut;

	if (count == 0)
		return;
	size_t before = put_key(n, key);
	buf_putc(&n->b, '[');
	n->is_cut = false;
	put_items(n, texts, count, is_argv);
	n->is_cut |= was_cut;
	buf_putc(&n->b, ']');
	end_value(n, before, true);
	hash_list(n, was_cut, texts, count);
}

void
exec_note_list(struct exec_note *n, const char *key, const struct str *texts,
	       size_t count)
{
	put_list(n, key, texts, count, false);
}

void
exec_note_argv(struct exec_note *n, const char *key, const struct str *argv,
	       size_t count)
{
	put_list(n, key, argv, count, true);
}

void
exec_note_number(struct exec_note *n, const char *key, int64_t v)
{
	size_t before = put_key(n, key);

	buf_putf(&n->b, "%lld", (long long)v);
	end_value(n, before, true);
}

/* Readers of JSON have integers with a sign. */
static void
put_bytes(struct buf *b, uint64_t bytes)
{
	buf_put(b, STR("\"bytes\":"));
	buf_put_dec(b, num_min(bytes, INT64_MAX));
}

static void
put_hash(struct buf *b, const uint8_t hash[EXEC_NOTE_HASH])
{
	buf_putc(b, '"');
	enc_put_hex(b, str_of(hash, EXEC_NOTE_HASH));
	buf_putc(b, '"');
}

void
exec_note_hash(struct exec_note *n, const char *key, const uint8_t hash[EXEC_NOTE_HASH])
{
	size_t before = put_key(n, key);

	put_hash(&n->b, hash);
	end_value(n, before, true);
	n->has_hash |= strcmp(key, "sha256") == 0;
}

void
exec_note_stream(struct exec_note *n, const char *key, uint64_t bytes,
		 const uint8_t hash[EXEC_NOTE_HASH])
{
	size_t before = put_key(n, key);

	buf_putc(&n->b, '{');
	put_bytes(&n->b, bytes);
	buf_put(&n->b, STR(",\"sha256\":"));
	put_hash(&n->b, hash);
	buf_putc(&n->b, '}');
	end_value(n, before, true);
}

void
exec_note_files_begin(struct exec_note *n)
{
	size_t before = put_key(n, "files");

	buf_putc(&n->b, '[');
	n->has_files = fits(n, before);
	n->is_first_file = true;
}

static bool
put_file(struct exec_note *n, const struct exec_file *f)
{
	if (!n->is_first_file)
		buf_putc(&n->b, ',');
	buf_put(&n->b, STR("{\"path\":"));
	if (!put_redacted(n, STR(""), f->path))
		return false;
	buf_putc(&n->b, ',');
	put_bytes(&n->b, f->bytes);
	if (f->hash != NULL) {
		buf_put(&n->b, STR(",\"sha256\":"));
		put_hash(&n->b, f->hash);
	}
	if (f->mode != 0)
		buf_putf(&n->b, ",\"mode\":%u", f->mode);
	if (f->owner.n > 0) {
		buf_put(&n->b, STR(",\"owner\":"));
		if (!put_string(n, f->owner))
			return false;
	}
	buf_putc(&n->b, '}');
	return true;
}

void
exec_note_file(struct exec_note *n, const struct exec_file *f)
{
	size_t before = n->b.len;

	/* Behind one that is left out no more are shown: they are the first ones. */
	if (n->has_files && n->files_more == 0 && end_part(n, before, put_file(n, f))) {
		n->is_first_file = false;
		return;
	}
	n->is_cut = true;
	n->files_more++;
}

void
exec_note_files_end(struct exec_note *n)
{
	if (n->has_files) {
		buf_putc(&n->b, ']');
		n->is_first = false;
	}
	if (n->files_more > 0) {
		(void)put_key(n, "files_more");
		buf_put_dec(&n->b, n->files_more);
		n->is_first = false;
	}
}

struct str
exec_note_end(struct exec_note *n)
{
	struct str s = STR("{\"cut\":true}");

	if (n->is_cut) {
		(void)put_key(n, "cut");
		buf_put(&n->b, STR("true"));
	}
	if (n->is_hashed && !n->has_hash) {
		buf_put(&n->b, STR(",\"sha256\":"));
		put_hash(&n->b, n->hash);
	}
	buf_putc(&n->b, '}');
	/* Out of memory it stays what it was. */
	(void)(buf_finish(&n->b, &s) == ST_OK);
	return s;
}
