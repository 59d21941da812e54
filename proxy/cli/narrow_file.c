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
	if (!is_read || buf_finish(b, &text) != ST_OK || !narrow_is_text(text)) {
		(void)fprintf(stderr,
			      "sandgate: %s: wants `default allow` or `default deny`, "
			      "then lines of `allow` or `deny` with a NAME, *.NAME, "
			      "address or network\n",
			      path);
		return false;
	}
	*ret_text = text;
	return true;
}
