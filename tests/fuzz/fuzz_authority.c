/*
 * The ways in agree: an authority with a port is the same destination, or the same
 * refusal, in CONNECT, in an absolute-form target and in Host; and a target that is
 * accepted is accepted again as it is sent on.
 */
#include "proxy/http/uri.h"

static enum status
in_absolute(struct str authority, struct uri *u)
{
	CLEANUP(buf_done) struct buf b;
	struct str text;

	buf_init(&b, 1 << 16);
	buf_put(&b, STR("http://"));
	buf_put(&b, authority);
	buf_put(&b, STR("/"));
	if (buf_finish(&b, &text) != ST_OK)
		return ST_TOO_BIG;
	enum status st = uri_parse(METHOD_GET, text, u);
	u->path = u->query = STR("");
	return st;
}

static void
need_agreement(struct str in)
{
	struct uri connect = { 0 }, absolute = { 0 };
	struct dest host;

	enum status st = uri_parse(METHOD_CONNECT, in, &connect);
	if (st != ST_OK)
		return;
	need(in_absolute(in, &absolute) == ST_OK);
	need(dest_from_authority(in, 80, &host) == ST_OK);
	need(dest_same_host(&connect.dest, &absolute.dest));
	need(dest_same_host(&connect.dest, &host));
	need(connect.dest.port == absolute.dest.port && host.port == connect.dest.port);
}

static void
need_same_when_sent(enum method m, struct str in)
{
	CLEANUP(buf_done) struct buf b;
	struct str sent;
	struct uri u, again;

	buf_init(&b, in.n + 1);
	if (uri_parse(m, in, &u) != ST_OK)
		return;
	uri_put_target(&b, &u);
	need(buf_finish(&b, &sent) == ST_OK);
	need(uri_parse(m, sent, &again) == ST_OK);
	need(str_eq(u.path, again.path) && str_eq(u.query, again.query));
	need(u.has_query == again.has_query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum method methods[] = { METHOD_GET, METHOD_OPTIONS };

	need_agreement(str_of(data, size));
	for (size_t i = 0; i < COUNT_OF(methods); i++)
		need_same_when_sent(methods[i], str_of(data, size));
	return 0;
}
