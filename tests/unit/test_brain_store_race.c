/*
 * Several processes at one file, processes that are killed in the middle, a process in
 * control's jail, and many rows.
 */
#include "tests/unit/brain_bench.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "proxy/io/jail.h"

enum {
	PROCESSES = 4,
	RACE_STEPS = 2500,
	KILLS = 60,
	UPSTREAMS = 65536,
	USERS = 2,
	OWNERS = 3 * USERS
};

/* Between the processes: who was told that an upstream is theirs. */
struct shared {
	int owners[UPSTREAMS]; /* 0: nobody yet, else 1 + owner */
	int upstreams;
	int told_n; /* claims that were acknowledged */
	char told[UPSTREAMS][BRAIN_ID];
};

struct racer {
	struct brain_store *s;
	struct arena a;
	struct shared *shared;
	uint64_t dice, now;
	char mine[64][BRAIN_ID]; /* ids it has seen lately */
	size_t mine_n;
};

/* Users of the same names in three tenants. */
static struct brain_owner
owner(int i)
{
	static const char *const users[USERS] = { "ann", "bob" };
	static const char *const tenants[] = { "", "acme", "zorg" };

	return (struct brain_owner){ str_from(tenants[i / USERS]),
				     str_from(users[i % USERS]) };
}

static bool
is_of(const struct brain_sandbox *x, int i)
{
	struct brain_owner o = owner(i);

	return str_eq(x->owner.tenant, o.tenant) && str_eq(x->owner.user, o.user);
}

static unsigned
draw(struct racer *r, unsigned below)
{
	r->dice = r->dice * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(r->dice >> 33) % below;
}

/* Others may write for longer than one waits; what is done then, is nothing. */
static bool
is_busy(const struct racer *r, enum status st)
{
	return st == ST_SYSTEM &&
	       (sqlite3_errcode(brain_store_db(r->s)) & 0xff) == SQLITE_BUSY;
}

#define MUST(ok)                                                                       \
	do {                                                                           \
		if (!(ok)) {                                                           \
			(void)fprintf(stderr, "line %d: %s\n", __LINE__, #ok);         \
			_exit(9);                                                      \
		}                                                                      \
	} while (0)

static void
see(struct racer *r, struct str id)
{
	memcpy(r->mine[r->mine_n++ % COUNT_OF(r->mine)], id.p, BRAIN_ID);
}

static struct str
seen(struct racer *r)
{
	size_t n = r->mine_n < COUNT_OF(r->mine) ? r->mine_n : COUNT_OF(r->mine);

	return str_of(r->mine[draw(r, (unsigned)n)], BRAIN_ID);
}

/* Told to be this owner's: it was nobody's before, or theirs. */
static void
take(struct racer *r, const struct brain_sandbox *x, int who)
{
	int before = 0, at = 0;

	MUST(is_of(x, who));
	if (x->upstream.n == 0)
		return;
	for (size_t i = 1; i < x->upstream.n; i++)
		at = at * 10 + (x->upstream.p[i] - '0');
	MUST(at > 0 && at < UPSTREAMS);
	if (!__atomic_compare_exchange_n(&r->shared->owners[at], &before, who + 1,
					 false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		MUST(before == who + 1);
}

static void
race_claim(struct racer *r)
{
	static const char *const sessions[] = { "", "s1", "s2" };
	int who = (int)draw(r, OWNERS);
	struct brain_claim c = bench_claim("", sessions[draw(r, 3)]);
	struct brain_sandbox x;
	enum brain_claimed how;

	c.owner = owner(who);
	c.now_s = r->now;
	c.expires_s = r->now + 1 + draw(r, 50);
	enum status st = brain_store_claim(r->s, &c, &r->a, &x, &how);
	if (is_busy(r, st))
		return;
	MUST(st == ST_OK);
	MUST(how != BRAIN_NEW || x.upstream.n == 0);
	take(r, &x, who);
	see(r, x.id);
	int at = __atomic_fetch_add(&r->shared->told_n, 1, __ATOMIC_SEQ_CST);
	MUST(at < UPSTREAMS);
	memcpy(r->shared->told[at], x.id.p, BRAIN_ID);
}

/* Mostly a new one; else one that somebody has or had. */
static void
race_made(struct racer *r, struct str id)
{
	char name[16];
	int *n = &r->shared->upstreams;
	int at = draw(r, 4) == 0 && *n > 0 ? 1 + (int)draw(r, (unsigned)*n)
					   : __atomic_add_fetch(n, 1, __ATOMIC_SEQ_CST);
	struct brain_sandbox x;

	(void)snprintf(name, sizeof name, "u%d", at);
	enum status st = brain_store_made(r->s, id, STR("standard"), str_from(name), 0);
	MUST(st == ST_OK || st == ST_CONFLICT || is_busy(r, st));
	if (st != ST_OK || brain_store_find_any(r->s, id, &r->a, &x) != ST_OK)
		return;
	for (int i = 0; i < OWNERS; i++)
		if (is_of(&x, i))
			take(r, &x, i);
}

static void
race_step(struct racer *r)
{
	const struct brain_warm w = { .server = STR("standard"),
				      .shape = STR("5a5a"),
				      .now_s = r->now,
				      .expires_s = r->now + 40 };
	static const enum brain_state to[] = { BRAIN_KILLING, BRAIN_PAUSED,
					       BRAIN_RUNNING, BRAIN_FAILED,
					       BRAIN_GONE };
	unsigned what = draw(r, 10);
	enum status st = ST_OK;
	struct str id;

	if (what < 4 || r->mine_n == 0) {
		race_claim(r);
	} else if (what < 6) {
		st = brain_store_warm_add(r->s, &w, &r->a, &id);
		if (st == ST_OK)
			race_made(r, id);
	} else if (what < 8) {
		race_made(r, seen(r));
	} else if (what < 9) {
		st = brain_store_state(r->s, seen(r), to[draw(r, COUNT_OF(to))],
				       r->now);
	} else {
		st = draw(r, 2) == 0
			     ? brain_store_frozen(r->s, seen(r), STR("snap"), r->now)
			     : brain_store_touch(r->s, seen(r), r->now);
	}
	MUST(st == ST_OK || st == ST_CONFLICT || is_busy(r, st));
	r->now += draw(r, 4) == 0;
	arena_done(&r->a);
}

static void
race(const char *path, struct shared *shared, unsigned seed, size_t steps)
{
	static struct racer r;

	r = (struct racer){ .shared = shared, .dice = seed * 2654435761u + 99 };
	r.now = BENCH_NOW;
	arena_init(&r.a, BENCH_ARENA);
	enum status st = ST_SYSTEM;
	for (int i = 0; i < 50 && st == ST_SYSTEM;
	     i++) /* the others write all the time */
		st = brain_store_open(path, &r.s);
	MUST(st == ST_OK);
	/* Control is alone with its file; of several here one may have to wait long. */
	MUST(sqlite3_busy_timeout(brain_store_db(r.s), 60000) == SQLITE_OK);
	for (size_t i = 0; i < steps; i++)
		race_step(&r);
	brain_store_close(r.s);
}

static pid_t
start(const char *path, struct shared *shared, unsigned seed, size_t steps)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		race(path, shared, seed, steps);
		_exit(0);
	}
	return pid;
}

static int
end(pid_t pid)
{
	int how;

	assert_int_equal(waitpid(pid, &how, 0), pid);
	return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static struct shared *
share(void)
{
	struct shared *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(m != MAP_FAILED);
	return m;
}

static void
of_several_processes_no_two_get_the_same(void **state)
{
	struct bench b;
	struct shared *shared = share();
	pid_t pids[PROCESSES];

	(void)state;
	bench_open(&b);
	for (unsigned i = 0; i < PROCESSES; i++)
		pids[i] = start(b.path, shared, i + 1, RACE_STEPS);
	for (size_t i = 0; i < PROCESSES; i++)
		assert_int_equal(end(pids[i]), 0);
	bench_check(brain_store_db(b.s));
	print_message("%d claims, %d upstreams\n", shared->told_n, shared->upstreams);
	bench_close(&b);
	(void)munmap(shared, sizeof *shared);
}

/* What a claim has told is there, whatever happens afterwards. */
static void
assert_told(struct bench *b, const struct shared *shared)
{
	int n = shared->told_n < UPSTREAMS ? shared->told_n : UPSTREAMS;

	for (int i = 0; i < n; i++)
		if (shared->told[i][0] != '\0') /* killed before it was noted */
			(void)bench_get(b, str_of(shared->told[i], BRAIN_ID));
	arena_done(&b->a);
}

/* Until they are at work, and then a little. */
static void
wait_a_little(const struct shared *shared, int before, unsigned more)
{
	struct timespec pause = { 0, 1000000 };

	for (int i = 0; i < 5000; i++) {
		if (__atomic_load_n(&shared->told_n, __ATOMIC_SEQ_CST) > before)
			break;
		(void)nanosleep(&pause, NULL);
	}
	pause.tv_nsec = more * 7919 % 1000 * 10000;
	(void)nanosleep(&pause, NULL);
}

static void
a_process_that_is_killed_leaves_nothing_half_done(void **state)
{
	struct bench b;
	struct shared *shared = share();

	(void)state;
	bench_open(&b);
	for (unsigned i = 0; i < KILLS; i++) {
		int before = shared->told_n;
		pid_t one = start(b.path, shared, 1000 + 2 * i, SIZE_MAX),
		      two = start(b.path, shared, 1001 + 2 * i, SIZE_MAX);
		wait_a_little(shared, before, i);
		(void)kill(one, SIGKILL);
		(void)kill(two, SIGKILL);
		assert_int_equal(end(one), 128 + SIGKILL);
		assert_int_equal(end(two), 128 + SIGKILL);
		bench_again(&b);
		bench_check(brain_store_db(b.s));
	}
	assert_told(&b, shared);
	print_message("%d claims survived %d kills\n", shared->told_n, 2 * KILLS);
	assert_true(shared->told_n >= KILLS);
	bench_close(&b);
	(void)munmap(shared, sizeof *shared);
}

/* All that control does to its file, also when the log of sqlite is full. */
static void
jailed(const char *path)
{
	static struct racer r;
	struct jail_report report;
	struct shared *shared = share();

	r = (struct racer){ .shared = shared, .dice = 5, .now = BENCH_NOW };
	arena_init(&r.a, BENCH_ARENA);
	MUST(jail_early(ROLE_CONTROL, 0) == ST_OK);
	MUST(brain_store_open(path, &r.s) == ST_OK);
	MUST(jail_enter(ROLE_CONTROL, NULL, &report) == ST_OK);
	for (size_t i = 0; i < 3000; i++)
		race_step(&r);
	MUST(brain_store_forget(r.s, r.now, r.now) == ST_OK);
	brain_store_close(r.s);
}

static void
in_controls_jail_it_needs_no_file_but_those_that_are_open(void **state)
{
	struct bench b;
	pid_t pid;

	(void)state;
	bench_open(&b);
	brain_store_close(b.s);
	b.s = NULL;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		jailed(b.path);
		_exit(0);
	}
	assert_int_equal(end(pid), 0);
	assert_int_equal(brain_store_open(b.path, &b.s), ST_OK);
	bench_check(brain_store_db(b.s));
	bench_close(&b);
}

/* Many. */

enum { MANY = 10000, LABELED = 7, TURNS = 20, MOST_MS = 40 };

static double
cpu_ms(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
fill(struct bench *b)
{
	static const char *const teams[] = { "red", "blue" };
	char name[16];

	for (int i = 0; i < MANY; i++) {
		struct brain_claim c = bench_claim("ann", "");
		const struct brain_pair pairs[] = {
			{ STR("team"), str_from(teams[i % LABELED == 0]) },
			{ STR("kind"), STR("test") },
		};
		c.now_s = BENCH_NOW + (uint64_t)i / 4;
		c.pairs = pairs;
		c.pairs_n = 2;
		(void)snprintf(name, sizeof name, "u%d", i);
		struct brain_sandbox x = bench_take(b, &c, BRAIN_NEW);
		assert_int_equal(brain_store_made(b->s, x.id, STR("standard"),
						  str_from(name), 0),
				 ST_OK);
		if (i % 10 == 0)
			assert_int_equal(
				brain_store_state(b->s, x.id, BRAIN_PAUSED, c.now_s),
				ST_OK);
		arena_done(&b->a);
	}
}

static void
page(struct bench *b, const struct brain_filter *f, uint64_t total, const char *what)
{
	struct brain_sandboxes got;
	double before = cpu_ms();

	for (int i = 0; i < TURNS; i++) {
		arena_done(&b->a);
		assert_int_equal(brain_store_list(b->s, f, &b->a, &got), ST_OK);
	}
	double ms = (cpu_ms() - before) / TURNS;
	assert_int_equal(got.total, total);
	print_message("%s: %zu of %llu in %.2f ms\n", what, got.n,
		      (unsigned long long)got.total, ms);
	assert_true(ms < MOST_MS);
}

/* Each once, in order, whatever the size of a page. */
static void
assert_whole(struct bench *b, struct brain_filter f, size_t size)
{
	struct brain_sandboxes got;
	uint64_t last = f.newest_first ? UINT64_MAX : 0;
	size_t n = 0;

	f.page_size = (uint32_t)size;
	for (f.page = 1;; f.page++) {
		assert_int_equal(brain_store_list(b->s, &f, &b->a, &got), ST_OK);
		for (size_t i = 0; i < got.n; i++) {
			uint64_t at = got.of[i].created_s;
			assert_true(f.newest_first ? at <= last : at >= last);
			last = at;
		}
		n += got.n;
		arena_done(&b->a);
		if (got.n < size)
			break;
	}
	assert_int_equal(n, MANY);
}

static void
ten_thousand_are_listed_in_milliseconds(void **state)
{
	const struct brain_pair pairs[] = { { STR("team"), STR("blue") },
					    { STR("kind"), STR("test") } };
	struct brain_filter f = { .owner = bench_owner("ann"),
				  .page = 1,
				  .page_size = 20,
				  .newest_first = true };
	struct brain_sandboxes got;
	struct bench b;
	size_t n = 0;

	(void)state;
	bench_open(&b);
	fill(&b);
	page(&b, &f, MANY, "the first page");
	f.page = MANY / 20;
	page(&b, &f, MANY, "the last page");
	f.page = 1;
	f.states = BRAIN_BIT(BRAIN_PAUSED);
	page(&b, &f, MANY / 10, "paused");
	f.states = 0;
	f.pairs = pairs;
	f.pairs_n = 2;
	page(&b, &f, MANY / LABELED + 1, "by two labels");
	f.owner = bench_owner("bob");
	page(&b, &f, 0, "of who has none");
	f = (struct brain_filter){ .owner = bench_owner("ann") };
	assert_whole(&b, f, 200);
	f.newest_first = true;
	assert_whole(&b, f, 199);
	for (struct str last = STR("");; n += got.n) {
		assert_int_equal(
			brain_store_walk(b.s, BRAIN_NOT_GONE, last, &b.a, &got), ST_OK);
		if (got.n == 0)
			break;
		last = got.of[got.n - 1].id;
	}
	assert_int_equal(n, MANY);
	double before = cpu_ms();
	bench_again(&b);
	print_message("opened in %.1f ms\n", cpu_ms() - before);
	bench_close(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_several_processes_no_two_get_the_same),
		cmocka_unit_test(a_process_that_is_killed_leaves_nothing_half_done),
		cmocka_unit_test(
			in_controls_jail_it_needs_no_file_but_those_that_are_open),
		cmocka_unit_test(ten_thousand_are_listed_in_milliseconds),
	};

	return cmocka_run_group_tests_name("brain_store_race", tests, NULL, NULL);
}
