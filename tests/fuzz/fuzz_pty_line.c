/*
 * Lines that are typed are the same however the octets are cut; each is within its bound and has
 * no octet that ends one or takes back.  Plain octets come out as they went in.
 *
 * Input: an octet for the size of pieces, then what is typed.
 */
#include <string.h>

#include "proxy/base/buf.h"
#include "proxy/flow/pty_line.h"

enum { ROOM = 1 << 20 };

static void
tell(void *ctx, struct str line, bool is_whole)
{
	struct buf *b = ctx;

	need(line.n <= PTY_LINE_MAX && (line.n > 0 || !is_whole));
	for (size_t i = 0; i < line.n; i++)
		need(((unsigned char)line.p[i] >= ' ' && line.p[i] != 127) ||
		     (line.p[i] == '\n' && !is_whole));
	buf_put(b, line);
	buf_putc(b, is_whole ? '\r' : '\1');
}

static void
feed(struct buf *b, struct str in, size_t piece, bool is_tty)
{
	static struct pty_line l;

	buf_init(b, ROOM);
	pty_line_init(&l);
	l.is_tty = is_tty;
	for (; in.n > 0; in = str_skip(in, piece))
		pty_line_put(&l, str_head(in, piece), tell, b);
	pty_line_end(&l, tell, b);
}

static bool
is_plain(struct str in)
{
	for (size_t i = 0; i < in.n; i++) {
		unsigned char c = (unsigned char)in.p[i];
		bool is_double = c == '\r' && i > 0 && in.p[i - 1] == '\r';
		if ((c < ' ' && c != '\r') || c == 127 || c == '\\' || is_double)
			return false;
	}
	return in.n > 0 && in.n <= PTY_LINE_MAX && in.p[0] != '\r' &&
	       in.p[in.n - 1] == '\r';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_done) struct buf whole = { 0 };
	CLEANUP(buf_done) struct buf cut = { 0 };

	if (size < 2 || size > 65536)
		return 0;
	struct str in = str_of(data + 1, size - 1);
	bool is_tty = data[0] % 2 == 0;
	feed(&whole, in, in.n, is_tty);
	feed(&cut, in, (size_t)data[0] + 1, is_tty);
	need(whole.len == cut.len);
	need(whole.len == 0 || memcmp(whole.p, cut.p, whole.len) == 0);
	if (is_plain(in))
		need(str_eq(str_of(whole.p, whole.len), in));
	return 0;
}
