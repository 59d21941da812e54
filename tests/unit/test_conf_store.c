/* Sources of secrets as the configuration has them. */
#include "tests/unit/make_image.h"

#define TAIL                                                                           \
	"policies: {p: {connectors: [c], allow: []}}\nresolver: {servers: "            \
	"[192.0.2.1]}\nconnectors:\n  - {name: c, hosts: [c.test], "                   \
	"auth: {kind: bearer, secret: bao/x}, allow: [{methods: [GET]}]}\n"
#define SOURCE(members) "vault:\n  sources:\n  - {name: bao, " members "}\n" TAIL
#define URL             "url: 'https://bao.test:8200'"
#define LOGIN           "auth: {kind: approle, role: r, secret: login/bao}"
#define ITEM            "secrets: {x: {path: apps/x, field: f}}"

static const struct told rows[] = {
	{ SOURCE(URL ", " LOGIN ", " ITEM), "" },
	{ SOURCE(URL ", addresses: [10.0.0.0/8], namespace: a/b, mount: kv, refresh: "
		     "5s, keep: 10m, auth: {kind: kubernetes, role: r, secret: "
		     "files/token, mount: k8s}, secrets: {x: {path: a/b-c, field: 'any "
		     "thing', mount: kv/two, version: 7}, y/z: {path: p, field: f}}"),
	  "" },
	{ SOURCE(URL ", auth: {kind: token, secret: t}, " ITEM), "" },
	{ SOURCE(URL ", " LOGIN
		     ", " ITEM) "sandboxes: [{id: a, token: bao/x, policy: p}]\n",
	  "t.yaml:8:28: `bao/x` is not kept in the vault: put the token there, or its "
	  "SHA-256 under `token_sha256`\n" },
	{ SOURCE(LOGIN ", " ITEM),
	  "t.yaml:3:5: a source of secrets must say its `url`\n" },
	{ SOURCE(URL ", " ITEM), "t.yaml:3:5: a source must say its `auth`\n" },
	{ SOURCE(URL ", " LOGIN),
	  "t.yaml:3:5: a source must name the `secrets` that are read there\n"
	  "t.yaml:7:5: source `bao` has no secret `x` under `secrets`\n" },
	{ SOURCE("url: 'http://bao.test:8200', " LOGIN ", " ITEM),
	  "t.yaml:3:22: secrets never travel in plain text; write https://\n" },
	{ SOURCE("url: 'https://bao.test/v1', " LOGIN ", " ITEM),
	  "t.yaml:3:22: `url` is a scheme, a host and a port; leave out `/v1`\n" },
	{ SOURCE(URL ", auth: {role: r, secret: s}, " ITEM),
	  "t.yaml:3:53: `kind` is missing: one of token|approle|kubernetes\n" },
	{ SOURCE(URL ", auth: {kind: approle, secret: s}, " ITEM),
	  "t.yaml:3:53: auth kind approle needs `role`\n" },
	{ SOURCE(URL ", auth: {kind: token, role: r, secret: s}, " ITEM),
	  "t.yaml:3:53: auth kind token has no use for `role`\n" },
	{ SOURCE(URL ", auth: {kind: token}, " ITEM),
	  "t.yaml:3:53: `secret` is missing: the name in the vault of what it logs in "
	  "with\n" },
	{ SOURCE(URL ", auth: {kind: token, secret: 'u/{user}'}, " ITEM),
	  "t.yaml:3:75: `u/{user}` is not a name in the vault, without {user}\n" },
	{ SOURCE(URL ", auth: {kind: token, secret: bao/x}, " ITEM),
	  "t.yaml:3:5: what a source logs in with can't come from a source: "
	  "`bao/x`\n" },
	{ SOURCE(URL ", " LOGIN ", secrets: {y: {path: p, field: f}}"),
	  "t.yaml:7:5: source `bao` has no secret `x` under `secrets`\n" },
	{ SOURCE(URL ", " LOGIN ", tenant: blue, " ITEM),
	  "t.yaml:7:5: secret `bao/x` comes from a source of another tenant\n" },
	{ SOURCE(URL ", " LOGIN ", secrets: {x: {path: '../x', field: f}}"),
	  "t.yaml:3:118: `../x` is not a path: letters, digits and -._~@:+=, between "
	  "single slashes\n" },
	{ SOURCE(URL ", " LOGIN ", secrets: {x: {path: 'a?b', field: f}}"),
	  "t.yaml:3:118: `a?b` is not a path: letters, digits and -._~@:+=, between "
	  "single slashes\n" },
	{ SOURCE(URL ", " LOGIN ", secrets: {x: {path: p}}"),
	  "t.yaml:3:111: a secret needs `path` and `field`\n" },
	{ SOURCE(URL ", " LOGIN ", secrets: {x: {path: p, field: f, versoin: 1}}"),
	  "t.yaml:3:131: unknown key `versoin`; did you mean version?\n" },
	{ SOURCE(URL ", " LOGIN ", keep: 10s, " ITEM),
	  "t.yaml:3:5: `keep` is below `refresh`: secrets would be missing between two "
	  "reads\n" },
	{ SOURCE(URL ", " LOGIN ", " ITEM "}\n  - {name: bao"),
	  "t.yaml:4:12: a source of secrets is called `bao` already, in t.yaml:3\n" },
	{ "vault: {sources: [{name: files, " URL ", " LOGIN ", " ITEM "}]}\n" TAIL,
	  "t.yaml:1:19: a source can't be called `files`: `files` and `env` are "
	  "taken\n" },
	{ "vault: {sources: [{name: c, " URL ", " LOGIN ", " ITEM "}]}\n" TAIL,
	  "t.yaml:2:29: `c` is a source of secrets, which no sandbox may call\n"
	  "t.yaml:5:12: a source of secrets is called `c` already, in t.yaml:1\n" },
	{ "vault: {source: []}\n" TAIL,
	  "t.yaml:1:9: unknown key `source`; did you mean sources?\n" },
};

static void
every_fault_of_a_source_is_told_with_its_place(void **state)
{
	(void)state;
	assert_told(rows, COUNT_OF(rows));
}

static void
a_source_is_a_connector_that_nobody_may_call(void **state)
{
	struct image *im = make_image(
		SOURCE(URL ", namespace: team, refresh: 5s, " LOGIN ", " ITEM));
	size_t n, stores_n;
	const struct image_connector *c = image_connectors(im, &n);
	const struct image_store *s = image_stores(im, &stores_n);
	const struct image_store_item *item =
		image_store_item_by_name(im, STR("bao/x"));

	(void)state;
	assert_int_equal(stores_n, 1);
	assert_true(str_eq(image_str(im, c[s->connector].name), STR("bao")));
	assert_true(str_eq(image_str(im, c[s->connector].group), STR("source/bao")));
	assert_int_equal(c[s->connector].hosts_n, 0);
	assert_true(c[s->connector].is_listed);
	assert_ptr_equal(image_store_of(im, s->connector), s);
	assert_null(image_store_of(im, 1 - s->connector));
	assert_true(str_eq(image_str(im, s->login_mount), STR("approle")));
	assert_int_equal(s->refresh_ms, 5000);
	assert_int_equal(s->keep_ms, 300000);
	assert_non_null(item);
	assert_true(str_eq(image_str(im, item->mount), STR("secret")));
	assert_null(image_store_item_by_name(im, STR("bao/y")));
	assert_true(image_is_store_name(im, STR("bao/anything")));
	assert_false(image_is_store_name(im, STR("bao")));
	assert_false(image_is_store_name(im, STR("baobab/x")));
	image_close(im);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fault_of_a_source_is_told_with_its_place),
		cmocka_unit_test(a_source_is_a_connector_that_nobody_may_call),
	};

	return cmocka_run_group_tests_name("conf_store", tests, NULL, NULL);
}
