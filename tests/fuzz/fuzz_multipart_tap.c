/*
 * What is found in an upload is the same however it is cut, in bounded memory.  And what
 * it says is right: a file of any octets, put into a body, has those octets.
 *
 * Input: an octet for the size of pieces, the type up to a line end, then the body.
 */
#include <string.h>

#include "proxy/base/buf.h"
#include "proxy/flow/multipart_tap.h"

_Static_assert(sizeof(struct multipart_tap) <= 8192, "a tap stays small");

static bool
feed(struct multipart_tap *t, struct str type, struct str in, size_t piece)
{
	if (multipart_tap_init(t, type) != ST_OK)
		return false;
	for (; in.n > 0; in = str_skip(in, piece))
		multipart_tap_put(t, str_head(in, piece));
	multipart_tap_end(t);
	need(t->arena.used <= MULTIPART_TAP_ROOM);
	return true;
}

static void
need_same_file(const struct upload *u, const struct upload *v)
{
	need(u->has_meta == v->has_meta && u->has_file == v->has_file);
	need(str_eq(u->path, v->path) && str_eq(u->owner, v->owner) &&
	     str_eq(u->group, v->group));
	need(u->has_mode == v->has_mode && u->mode == v->mode);
	need(u->octets == v->octets && memcmp(u->hash, v->hash, TALLY_HASH) == 0);
}

static void
need_same(const struct multipart_tap *a, const struct multipart_tap *b)
{
	const struct upload *u = a->first, *v = b->first;

	need(a->is_unreadable == b->is_unreadable && a->is_cut == b->is_cut);
	need(a->files == b->files && a->others == b->others);
	need(a->octets == b->octets);
	for (; u != NULL && v != NULL; u = u->next, v = v->next)
		need_same_file(u, v);
	need(u == NULL && v == NULL);
}

static void
need_right(struct str content, size_t piece)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	uint8_t hash[TALLY_HASH];
	struct multipart_tap t;
	struct tally want;

	buf_init(&b, 1 << 20);
	buf_put(&b,
		STR("--long-and-seldom-3141592653\r\nContent-Disposition: form-data; "
		    "name=\"metadata\"; filename=\"m\"\r\n\r\n{\"path\":\"/p\"}"
		    "\r\n--long-and-seldom-3141592653\r\nContent-Disposition: "
		    "form-data; name=\"file\"; filename=\"f\"\r\n\r\n"));
	buf_put(&b, content);
	buf_put(&b, STR("\r\n--long-and-seldom-3141592653--\r\n"));
	need(b.st == ST_OK && tally_init(&want) == ST_OK);
	tally_put(&want, content);
	need(feed(&t, STR("multipart/form-data; boundary=long-and-seldom-3141592653"),
		  str_of(b.p, b.len), piece));
	need(!t.is_unreadable && !t.is_cut && t.files == 1);
	need(str_eq(t.first->path, STR("/p")) && t.first->octets == content.n);
	need(tally_sum(&want, hash) == ST_OK);
	need(memcmp(hash, t.first->hash, sizeof hash) == 0);
	multipart_tap_done(&t);
	tally_done(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct multipart_tap whole, split;

	if (size == 0)
		return 0;
	size_t piece = data[0] % 32 + 1;
	struct str in = str_of(data + 1, size - 1), type = str_cut(&in, '\n');
	if (in.p == NULL)
		return 0;
	if (feed(&whole, type, in, SIZE_MAX)) {
		need(feed(&split, type, in, piece));
		need_same(&whole, &split);
		multipart_tap_done(&whole);
		multipart_tap_done(&split);
	}
	if (memmem(in.p, in.n, "long-and-seldom", 15) == NULL)
		need_right(in, piece);
	return 0;
}
