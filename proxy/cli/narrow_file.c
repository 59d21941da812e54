#include "proxy/cli/narrow_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf/narrow.h"

static bool
read_all(FILE *f, struct buf *b)
{
	char space[4096];
	size_t n;

	do {
		n = fread(space, 1, sizeof space, f);
		buf_put(b, str_of(space, n));
	} while (n == sizeof space && b->st == ST_OK);
	return ferror(f) == 0;
}

/* The first line, counted from 1, with which the text is no longer of the form. */
static size_t
bad_line(struct str text)
{
	size_t line = 1;

	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] != '\n')
			continue;
		if (!narrow_is_text(str_head(text, i)))
			return line;
		line++;
	}
	return line;
}

static void
say_form(const char *path, struct str text)
{
	(void)fprintf(stderr,
		      "sandgate: %s:%zu: wants `default allow` or `default deny` in "
		      "the first line, then at most %d lines of `allow` or `deny` with "
		      "a NAME, *.NAME, address or network\n",
		      path, bad_line(text), NARROW_RULES_MAX);
}

bool
narrow_file_read(const char *path, struct buf *b, struct str *ret_text)
{
	bool is_stdin = strcmp(path, "-") == 0;
	FILE *f = is_stdin ? stdin : fopen(path, "re");
	struct str text;

	if (f == NULL) {
		(void)fprintf(stderr, "sandgate: %s: %s\n", path, strerror(errno));
		return false;
	}
	buf_init(b, NARROW_TEXT_MAX);
	bool is_read = read_all(f, b);
	if (!is_stdin)
		(void)fclose(f);
	if (!is_read || buf_finish(b, &text) != ST_OK) {
		(void)fprintf(stderr, "sandgate: %s: %s\n", path,
			      is_read ? "longer than a narrowing may be"
				      : "can't be read");
		return false;
	}
	if (!narrow_is_text(text)) {
		say_form(path, text);
		return false;
	}
	*ret_text = text;
	return true;
}
