#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "proxy/http/h2_in.h"
#include "tests/unit/h2_pair.h"
#include "tests/unit/h2_raw.h"

/* What HPACK (RFC 7541) keeps: nothing that is secret, at either end. */

static struct h2_limits
limits(bool wipes)
{
	struct h2_limits lim = pair_limits;

	lim.wipes = wipes;
	return lim;
}

/* The names of fields of this kind in a block, in order. */
static void
put_names(struct buf *b, struct str block, bool is_never_indexed)
{
	nghttp2_hd_inflater *inflater;
	int flags = 0;

	need(nghttp2_hd_inflate_new(&inflater) == 0);
	while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
		nghttp2_nv nv;
		ssize_t n = nghttp2_hd_inflate_hd2(
			inflater, &nv, &flags, (const uint8_t *)block.p, block.n, 1);
		need(n >= 0);
		block = str_skip(block, (size_t)n);
		if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0)
			continue;
		if (((nv.flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0) == is_never_indexed)
			buf_putf(b, "%.*s ", (int)nv.namelen, nv.name);
	}
	nghttp2_hd_inflate_del(inflater);
}

/* What a client says first has these names. */
static void
expect_names(bool wipes, bool is_never_indexed, const char *want)
{
	const struct h2_limits lim = limits(wipes);
	const struct field secret = { STR("authorization"), STR("Bearer x"),
				      TOKEN_AUTHORIZATION };
	CLEANUP(buf_done) struct buf names = { 0 };
	struct h2_stream *s;
	struct h2_peer c;

	peer_open(&c, H2_CLIENT, &lim);
	buf_init(&names, 1000);
	struct h2_out o = peer_asking(&c, "GET", "http://ok.test/bot?key=x",
				      "Cookie: a\r\nX: 1\r\n");
	o.last = &secret;
	o.last_n = o.is_whole = 1;
	assert_int_equal(h2_request(c.h, &o, NULL, &s), ST_OK);
	struct str out = h2_pending(c.h, 1000);
	out = str_skip(out, strlen(H2_PREFACE));
	while (out.n >= 9) {
		size_t n = num_be32(out.p) >> 8;
		if (out.p[3] == RAW_HEADERS)
			put_names(&names, str_of(out.p + 9, n), is_never_indexed);
		out = str_skip(out, 9 + n);
	}
	assert_string_equal(buf_cstr(&names), want);
	peer_close(&c);
}

static void
a_request_with_credentials_has_them_and_its_path_never_indexed(void **state)
{
	(void)state;
	expect_names(true, true, ":path cookie authorization ");
	expect_names(true, false, ":method :scheme :authority x ");
}

static void
a_path_without_credentials_is_like_any_other(void **state)
{
	(void)state;
	expect_names(false, true, "cookie authorization ");
}

/* Twice the same response; how much the client's decoder keeps of it. */
static size_t
kept(bool wipes)
{
	const struct h2_limits lim = limits(wipes);
	struct h2_pair p;

	pair_open_limits(&p, &lim, &pair_limits);
	for (int i = 0; i < 2; i++) {
		pair_ask(&p, "GET", "http://ok.test/", "", BODY_NONE, 0);
		pair_run(&p);
		pair_answer(&p, 200, "X-Echo: secret\r\n", BODY_NONE, 0);
		pair_run(&p);
		assert_non_null(strstr(peer_log(&p.client), "x-echo=secret"));
	}
	size_t n =
		nghttp2_session_get_hd_inflate_dynamic_table_size(p.client.h->session);
	pair_close(&p);
	return n;
}

static void
what_a_host_echoes_is_in_no_table_of_who_has_credentials(void **state)
{
	(void)state;
	assert_int_equal(kept(true), 0);
	assert_true(kept(false) > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_request_with_credentials_has_them_and_its_path_never_indexed),
		cmocka_unit_test(a_path_without_credentials_is_like_any_other),
		cmocka_unit_test(
			what_a_host_echoes_is_in_no_table_of_who_has_credentials),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
