#ifndef TESTS_UNIT_KEYS_BENCH_H
#define TESTS_UNIT_KEYS_BENCH_H
/* keys_bench: control as far as keys need it, with a store of its own and calls to issuers
 * that the test answers. */
#include "proxy/control/call.h"
#include "proxy/control/issuers.h"
#include "proxy/control/keys_in.h"
#include "proxy/control/principal.h"
#include "tests/unit/brain_bench.h"
#include "tests/unit/jwt_make.h"
#include "tests/unit/make_image.h"

static const char keys_config[] =
	"policies: {p: {connectors: [], allow: []}}\n"
	"resolver: {servers: [192.0.2.1]}\n"
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"servers: [{name: s, url: 'http://127.0.0.1:8080', key: s/key, tier: standard,"
	" endpoints: [127.0.0.0/8]}]\n"
	"connectors:\n"
	"  - {name: idp, hosts: [idp.example.test], auth: {kind: bearer, secret: idp},"
	" allow: [{methods: [GET]}]}\n"
	"exec:\n"
	"  jwt:\n"
	"    - {issuer: 'https://idp.example.test', audience: other, jwks_connector: "
	"idp,"
	" jwks_path: /other, user_claim: email}\n"
	"    - {issuer: 'https://idp.example.test', audience: sandgate,"
	" jwks_connector: idp, jwks_path: /jwks, tenant: blue, scopes: [run, read]}\n";

/* Calls are taken down, and answered when the test says so. */
struct fake_call {
	call_fn fn;
	void *ctx;
	char target[64];
	unsigned n;
	enum status refuse; /* ST_OK: begins */
};

static inline struct fake_call *
fake(void)
{
	static struct fake_call f;

	return &f;
}

enum status
call_begin(struct control *c, const struct call_wish *wish, call_fn fn, void *ctx,
	   struct call **ret_call)
{
	struct fake_call *f = fake();

	(void)c;
	assert_true(str_eq(wish->connector, STR("idp")));
	assert_true(str_eq(wish->method, STR("GET")));
	f->n++;
	if (f->refuse != ST_OK)
		return f->refuse;
	f->fn = fn;
	f->ctx = ctx;
	(void)snprintf(f->target, sizeof f->target, "%.*s", STR_ARG(wish->target));
	*ret_call = (struct call *)(void *)f;
	return ST_OK;
}

void
call_cancel(struct call *call)
{
	if (call != NULL)
		fake()->fn = NULL;
}

static inline void
fake_answer(enum status st, uint16_t http, struct str body)
{
	struct fake_call *f = fake();
	const struct call_got got = { .st = st, .http = http, .body = body };
	call_fn fn = f->fn;

	assert_non_null(fn);
	f->fn = NULL;
	fn(f->ctx, &got);
}

struct world {
	struct bench bench;
	struct control c;
	struct keys *k;
	EVP_PKEY *key, *key2;
	struct keys_wait wait;
	unsigned woken;
};

static inline void
on_ready(void *ctx)
{
	((struct world *)ctx)->woken++;
}

static inline int
world_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);

	need(w != NULL);
	bench_open(&w->bench);
	need(loop_new(&w->c.loop) == ST_OK);
	w->c.role.image = make_image(keys_config);
	w->c.role.generation = 1;
	w->c.role.log = (struct log){ "test", LOG_ERROR };
	need(keys_open(&w->c, w->bench.s, &w->k) == ST_OK);
	w->key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	w->key2 = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	w->wait = (struct keys_wait){ .fn = on_ready, .ctx = w };
	*fake() = (struct fake_call){ .refuse = ST_OK };
	*state = w;
	return 0;
}

static inline int
world_down(void **state)
{
	struct world *w = *state;

	keys_close(w->k);
	assert_false(w->wait.is_waiting);
	image_close(w->c.role.image);
	loop_free(w->c.loop);
	EVP_PKEY_free(w->key);
	EVP_PKEY_free(w->key2);
	bench_close(&w->bench);
	free(w);
	return 0;
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_up, world_down)

#endif
