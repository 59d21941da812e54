/*
 * Ten thousand random things, done through two connections in turn, against a model that
 * knows the rules and no SQL.
 */
#include "tests/unit/brain_bench.h"

#include <string.h>

enum { STEPS = 10000, ROWS = STEPS + 1, USERS = 3, KEYS = 3, SHAPES = 2, TIERS = 2 };
enum { WARM = -1, NO_KEY = -1 };

struct model_row {
	char id[BRAIN_ID];
	int user, key, shape, tier;
	enum brain_state state;
	int upstream; /* 0: none */
	uint64_t expires;
};

struct model {
	struct bench b;
	struct brain_store *second;
	struct model_row rows[ROWS];
	size_t rows_n;
	int upstreams;
	uint64_t now, dice;
	size_t how[4];
};

static const char *const users[USERS] = { "ann", "bob", "cid" };
static const char *const keys[KEYS] = { "k1", "k2", "k3" };
static const char *const shapes[SHAPES] = { "shape-a", "shape-b" };

static unsigned
draw(struct model *m, unsigned below)
{
	m->dice = m->dice * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(m->dice >> 33) % below;
}

static struct brain_store *
store(struct model *m)
{
	return draw(m, 2) == 0 ? m->b.s : m->second;
}

static struct str
id_of(const struct model_row *r)
{
	return str_of(r->id, BRAIN_ID);
}

static bool
is_live(const struct model_row *r)
{
	return r->state < BRAIN_KILLING;
}

static bool
is_over(const struct model *m, const struct model_row *r)
{
	return r->expires != 0 && r->expires <= m->now;
}

/* What a claim is to get: the rules of brain_store.h. */
static struct model_row *
expect(struct model *m, const struct model_row *want, enum brain_claimed *ret_how)
{
	for (size_t i = 0; i < m->rows_n && want->key != NO_KEY; i++) {
		struct model_row *r = &m->rows[i];
		if (r->user != want->user || r->key != want->key ||
		    r->shape != want->shape || r->tier != want->tier || !is_live(r))
			continue;
		if (is_over(m, r)) {
			r->state = BRAIN_KILLING;
			continue;
		}
		*ret_how = BRAIN_EXISTING;
		return r;
	}
	for (size_t i = 0; i < m->rows_n; i++) {
		struct model_row *r = &m->rows[i];
		if (r->user == WARM && r->state == BRAIN_RUNNING &&
		    r->shape == want->shape && r->tier == want->tier &&
		    !is_over(m, r)) {
			*ret_how = BRAIN_WARM;
			return r;
		}
	}
	*ret_how = BRAIN_NEW;
	return &m->rows[m->rows_n];
}

static void
do_claim(struct model *m)
{
	struct model_row want = { .user = (int)draw(m, USERS),
				  .key = (int)draw(m, KEYS + 1) - 1,
				  .shape = (int)draw(m, SHAPES),
				  .tier = (int)draw(m, TIERS),
				  .expires = m->now + 1 + draw(m, 300) };
	struct brain_claim c =
		bench_claim(users[want.user], want.key == NO_KEY ? "" : keys[want.key]);
	struct brain_sandbox x;
	enum brain_claimed how, got;
	struct model_row *r = expect(m, &want, &how);

	c.shape = str_from(shapes[want.shape]);
	c.tier = (uint8_t)want.tier;
	c.now_s = m->now;
	c.expires_s = want.expires;
	assert_int_equal(brain_store_claim(store(m), &c, &m->b.a, &x, &got), ST_OK);
	assert_int_equal(got, how);
	m->how[how]++;
	if (how == BRAIN_NEW) {
		memcpy(want.id, x.id.p, BRAIN_ID);
		want.state = BRAIN_PLACING;
		*r = want;
		m->rows_n++;
	} else {
		assert_true(str_eq(x.id, id_of(r)));
	}
	if (how == BRAIN_WARM) {
		r->user = want.user;
		r->key = want.key;
		r->expires = want.expires;
		r->state = BRAIN_PLACING;
	}
	assert_int_equal(x.state, r->state);
	assert_true(str_eq(x.owner.user, str_from(users[want.user])));
}

static void
do_warm(struct model *m)
{
	struct model_row r = { .user = WARM,
			       .key = NO_KEY,
			       .shape = (int)draw(m, SHAPES),
			       .tier = (int)draw(m, TIERS),
			       .expires = m->now + 1 + draw(m, 300) };
	const struct brain_warm w = { .server = STR("standard"),
				      .shape = str_from(shapes[r.shape]),
				      .tier = (uint8_t)r.tier,
				      .now_s = m->now,
				      .expires_s = r.expires };
	struct str id;

	assert_int_equal(brain_store_warm_add(store(m), &w, &m->b.a, &id), ST_OK);
	memcpy(r.id, id.p, BRAIN_ID);
	m->rows[m->rows_n++] = r;
}

/* Recent ones more often: those are alive. */
static struct model_row *
any_row(struct model *m)
{
	size_t last = m->rows_n < 40 || draw(m, 8) == 0 ? m->rows_n : 40;

	return &m->rows[m->rows_n - 1 - draw(m, (unsigned)last)];
}

static int
owner_of(const struct model *m, int upstream)
{
	for (size_t i = 0; i < m->rows_n; i++)
		if (m->rows[i].upstream == upstream)
			return m->rows[i].user;
	return WARM;
}

/* A new upstream, or (a server that lies) one that another row has. */
static void
do_made(struct model *m)
{
	struct model_row *r = any_row(m);
	bool is_new = m->upstreams == 0 || draw(m, 5) != 0;
	int upstream =
		is_new ? ++m->upstreams : 1 + (int)draw(m, (unsigned)m->upstreams);
	bool is_mine = r->upstream == upstream;
	bool is_free = is_new || is_mine;
	bool is_wanted = r->state == BRAIN_PLACING || r->state == BRAIN_PENDING ||
			 r->state == BRAIN_SNAPSHOT;
	bool is_there = r->state == BRAIN_RUNNING || r->state == BRAIN_PAUSED;
	char name[16];

	/* Of an upstream that its row has left (SNAPSHOT) the model knows no owner. */
	if (!is_free && owner_of(m, upstream) == WARM && !is_new)
		return;
	(void)snprintf(name, sizeof name, "u%d", upstream);
	assert_int_equal(brain_store_made(store(m), id_of(r), STR("standard"),
					  str_from(name), 0),
			 is_free && is_wanted ? ST_OK : ST_CONFLICT);
	if (!is_free || is_there)
		return;
	r->upstream = upstream;
	if (is_wanted)
		r->state = BRAIN_RUNNING;
}

static void
do_state(struct model *m)
{
	static const char *const may[BRAIN_STATES] = {
		".PR..KFG", "P....KFG", "...P.KFG", "..R..KFG",
		".....KFG", ".......G", ".....K.G", "........",
	};
	struct model_row *r = any_row(m);
	enum brain_state to = (enum brain_state)draw(m, BRAIN_STATES);
	bool is_warm_only =
		r->user == WARM && (to == BRAIN_PENDING || to == BRAIN_PAUSED);
	bool is_nowhere =
		r->upstream == 0 && (to == BRAIN_RUNNING || to == BRAIN_PAUSED);
	bool ok = may[r->state][to] != '.' && !is_warm_only && !is_nowhere;

	assert_int_equal(brain_store_state(store(m), id_of(r), to, m->now),
			 ok ? ST_OK : ST_CONFLICT);
	if (ok)
		r->state = to;
}

static void
do_frozen(struct model *m)
{
	struct model_row *r = any_row(m);
	bool ok = r->user != WARM &&
		  (r->state == BRAIN_RUNNING || r->state == BRAIN_PAUSED);

	assert_int_equal(brain_store_frozen(store(m), id_of(r), STR("snap"), m->now),
			 ok ? ST_OK : ST_CONFLICT);
	if (ok)
		r->state = BRAIN_SNAPSHOT;
}

static void
do_expired(struct model *m)
{
	struct brain_sandboxes all;
	size_t want = 0;

	for (size_t i = 0; i < m->rows_n; i++)
		want += is_live(&m->rows[i]) && is_over(m, &m->rows[i]);
	assert_int_equal(brain_store_expired(store(m), m->now, 0, &m->b.a, &all),
			 ST_OK);
	assert_int_equal(all.n, want < BRAIN_LIST_MAX ? want : BRAIN_LIST_MAX);
	for (size_t i = 0; i < all.n; i++) {
		assert_int_equal(brain_store_gone(store(m), all.of[i].id, m->now),
				 ST_OK);
		for (size_t k = 0; k < m->rows_n; k++)
			if (str_eq(id_of(&m->rows[k]), all.of[i].id))
				m->rows[k].state = BRAIN_GONE;
	}
}

static void
compare(struct model *m)
{
	for (size_t i = 0; i < m->rows_n; i++) {
		const struct model_row *r = &m->rows[i];
		struct brain_sandbox x = bench_get(&m->b, id_of(r));
		char name[16] = "";
		if (r->upstream != 0)
			(void)snprintf(name, sizeof name, "u%d", r->upstream);
		assert_int_equal(x.state, r->state);
		assert_true(str_eq(x.upstream, str_from(name)));
		assert_true(str_eq(x.owner.user,
				   str_from(r->user == WARM ? "" : users[r->user])));
		arena_done(&m->b.a);
	}
}

static void
step(struct model *m)
{
	unsigned what = draw(m, 20);

	if (what < 7 || m->rows_n == 0)
		do_claim(m);
	else if (what < 10)
		do_warm(m);
	else if (what < 14)
		do_made(m);
	else if (what < 17)
		do_state(m);
	else if (what < 18)
		do_frozen(m);
	else if (what < 19)
		m->now += draw(m, 40);
	else if (draw(m, 8) == 0)
		do_expired(m);
	arena_done(&m->b.a);
}

static void
the_store_does_what_its_rules_say(void **state)
{
	struct model *m = calloc(1, sizeof *m);

	(void)state;
	assert_non_null(m);
	bench_open(&m->b);
	assert_int_equal(brain_store_open(m->b.path, &m->second), ST_OK);
	m->now = BENCH_NOW;
	m->dice = 4711;
	for (size_t i = 0; i < STEPS; i++)
		step(m);
	compare(m);
	bench_check(brain_store_db(m->b.s));
	print_message("%zu rows, %zu existing, %zu warm, %zu new\n", m->rows_n,
		      m->how[BRAIN_EXISTING], m->how[BRAIN_WARM], m->how[BRAIN_NEW]);
	assert_true(m->how[BRAIN_EXISTING] > 100 && m->how[BRAIN_WARM] > 100);
	brain_store_close(m->second);
	bench_close(&m->b);
	free(m);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_store_does_what_its_rules_say),
	};

	return cmocka_run_group_tests_name("brain_store_model", tests, NULL, NULL);
}
