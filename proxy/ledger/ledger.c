/*
 * sandgate-ledger: takes the rows of all roles out of their rings and keeps them.  It
 * sees rows and asks for the last refusals; it has no network and can't sign.
 *
 * It outlives super: when that line ends, the roles that write rows die, and what they
 * said last is stored before this process ends too.  Until then it keeps its locked
 * directory open, so that no other ledger writes there.
 */
#include <unistd.h>

#include "conf/image.h"
#include "proxy/base/clock.h"
#include "proxy/base/num.h"
#include "proxy/io/role.h"
#include "proxy/ledger/drain.h"
#include "proxy/ledger/heads.h"
#include "proxy/ledger/retain.h"

enum { SIGN_MS = 10000, RETAIN_MS = 30000, RETAIN_AGAIN_MS = 100, ANSWER_MAX = 32768 };
enum { SIGN_FIRST_MS = 1000, FINISH_MS = 50, LINES_MAX = 128 };
/* Without super: for all that is left; for its death to be seen. */
enum { ORPHAN_MS = 4000, ALONE_MS = 500 };

static const char dir_here[] = ".";

struct ledger {
	struct role_self role;
	struct loop *loop;
	struct loop_io super;
	struct loop_timer sign, retain, finish;
	struct store store;
	struct drain drain;
	struct heads heads;
	struct ask_line *keeper;          /* NULL: none now */
	struct ask_line *dead[LINES_MAX]; /* freed at the end of the turn */
	size_t dead_n;
	struct head signing; /* what the keeper was asked to sign */
	bool is_signing;
	int dir; /* -1: not given yet */
	pid_t super_pid;
	bool is_orphan;  /* super's line has ended */
	bool is_alone;   /* and so has it, with all who write rows */
	bool is_drained; /* as super wanted: nothing will follow */
	uint32_t finish_seq;
	uint64_t finish_by, alone_by;
};

static void
free_dead(void *ctx)
{
	struct ledger *g = ctx;

	for (size_t i = 0; i < g->dead_n; i++)
		ask_line_free(g->dead[i]);
	g->dead_n = 0;
}

static void
on_lost(void *ctx, struct ask_line *line, enum status why)
{
	struct ledger *g = ctx;

	(void)why;
	if (line == g->keeper)
		g->keeper = NULL;
	if (g->dead_n == 0)
		loop_defer(g->loop, free_dead, g);
	need(g->dead_n < LINES_MAX);
	g->dead[g->dead_n++] = line;
}

static void
on_heard(void *ctx, struct ask_line *line, struct ask_msg *m)
{
	struct ledger *g = ctx;
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	struct str sandbox = wire_str(&w), text;

	if (m->ask != ASK_LAST || wire_end(&w) != ST_OK)
		return;
	/* What the sandbox was refused a moment ago may still be in a ring. */
	enum status st = drain_batch(&g->drain);
	if (st != ST_OK && st != ST_END)
		log_info(&g->role.log, "the last refusals may be incomplete");
	buf_init(&b, ANSWER_MAX);
	last_put_json(&g->drain.last, sandbox, LAST_ROWS, &b);
	if (buf_finish(&b, &text) != ST_OK) { /* long names, every octet escaped */
		buf_clear(&b);
		last_put_json(&g->drain.last, sandbox, LAST_ROWS / 2, &b);
	}
	if (buf_finish(&b, &text) != ST_OK)
		text = STR("[]");
	if (ask_answer(line, ASK_LAST, m->seq, text, NULL, 0) != ST_OK)
		log_info(&g->role.log, "an answer could not be sent");
}

static enum status
add_line(struct ledger *g, enum role peer, int fd)
{
	struct ask_end e = { .fd = fd, .self = ROLE_LEDGER, .peer = peer };
	struct ask_line *line = NULL;
	enum status st = ask_line_new(g->loop, &e, on_heard, on_lost, g, &line);

	if (st == ST_OK && peer == ROLE_KEEPER) {
		if (g->keeper != NULL)
			ask_line_free(g->keeper);
		g->keeper = line;
		g->is_signing = false;
	}
	return st;
}

/* We stand in our directory: its name may lead through others that we may not enter. */
static enum status
enter_dir(struct ledger *g, int fd)
{
	if (fd < 0 || g->dir >= 0)
		return ST_BAD_MESSAGE;
	g->dir = fd;
	return fchdir(fd) == 0 ? ST_OK : ST_SYSTEM;
}

static enum status
given(void *ctx, enum give kind, uint32_t index, struct str text, struct ask_msg *m)
{
	struct ledger *g = ctx;

	(void)text;
	if (kind == GIVE_LINE && index < ROLE_COUNT)
		return add_line(g, (enum role)index, ask_msg_take(m, 0));
	if (kind == GIVE_STATE)
		return enter_dir(g, ask_msg_take(m, 0));
	if (kind != GIVE_RINGS)
		return ST_OK;
	int memfd = ask_msg_take(m, 0), bell = ask_msg_take(m, 1);
	return drain_add(&g->drain, (uint8_t)index, memfd, bell);
}

static void
apply(struct ledger *g)
{
	const struct image *im = g->role.image;
	bool is_power = image_number(im, OPT_LEDGER_DURABILITY) == 1;

	g->store.limits = (struct store_limits){
		.segment_rows = image_number(im, OPT_LEDGER_SEGMENT_ROWS),
		.max_age_ms = image_number(im, OPT_LEDGER_MAX_AGE),
		.max_size = image_number(im, OPT_LEDGER_MAX_SIZE),
	};
	g->store.generation = g->role.generation;
	g->drain.rates.limit = image_number(im, OPT_LEDGER_DENIALS);
	g->drain.sync_ms = is_power ? 0 : image_number(im, OPT_LEDGER_SYNC);
}

static void
commit(void *ctx, const struct image *old)
{
	struct ledger *g = ctx;

	(void)old;
	if (g->store.db != NULL)
		apply(g);
}

static void
note_place(struct ledger *g)
{
	const struct store_place *at = &g->store.committed;
	const struct head x = { at->seq, at->segment, at->link, false };

	if (at->seq > 0 && heads_unsigned(&g->heads, &x) != ST_OK)
		log_error(&g->role.log, "heads.log can't be written");
}

static void
on_signed(void *ctx, enum status st, struct ask_msg *m)
{
	struct ledger *g = ctx;

	g->is_signing = false;
	if (st == ST_OK) {
		struct wire w = wire_from(m->body);
		struct str sig = wire_bytes(&w, CHAIN_SIG),
			   key = wire_bytes(&w, CHAIN_KEY);
		st = wire_end(&w);
		if (st == ST_OK)
			st = heads_signed(&g->heads, &g->store, &g->signing, sig, key);
	}
	if (st == ST_OK && g->signing.is_end)
		log_info(&g->role.log, "segment %llu is closed and signed at row %llu",
			 (unsigned long long)g->signing.segment,
			 (unsigned long long)g->signing.seq);
	if (st != ST_OK) {
		log_error(&g->role.log, "a head could not be signed: %s",
			  status_code(st));
		note_place(g);
	}
	loop_timer_set(&g->sign, st == ST_OK && g->signing.is_end ? 0 : SIGN_MS);
}

static enum status
ask_to_sign(struct ledger *g)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	buf_init(&b, 64);
	buf_put_u64(&b, g->signing.segment);
	buf_put(&b, chain_str(&g->signing.link));
	enum status st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_call(g->keeper, ASK_SIGN, ASK_LOAD(body, NULL, 0), on_signed,
			      g, NULL);
	g->is_signing = st == ST_OK;
	return st;
}

static void
sign(void *ctx)
{
	struct ledger *g = ctx;

	if (g->is_signing)
		return;
	enum status st = heads_wanted(&g->store, &g->signing);
	if (st == ST_OK && g->keeper == NULL)
		note_place(g);
	else if (st == ST_OK)
		st = ask_to_sign(g);
	if (st != ST_OK && st != ST_END)
		log_error(&g->role.log, "heads are not signed: %s", status_code(st));
	if (!g->is_signing)
		loop_timer_set(&g->sign, SIGN_MS);
}

static void
retain(void *ctx)
{
	struct ledger *g = ctx;
	enum status st = retain_step(&g->store, clock_wall_us());

	if (st != ST_OK && st != ST_END)
		log_error(&g->role.log, "old rows can't be dropped: %s",
			  status_code(st));
	loop_timer_set(&g->retain, st == ST_OK ? RETAIN_AGAIN_MS : RETAIN_MS);
}

/* A process closes its lines before its children get their signal: the parent's death
 * is what shows that the writers have it.  From then on they get one more pause. */
static bool
may_hear_more(struct ledger *g)
{
	bool was_alone = g->is_alone;

	if (!g->is_orphan)
		return false;
	g->is_alone = getppid() != g->super_pid || clock_mono_ms() > g->alone_by;
	return !was_alone;
}

/* All rings are empty and stored, and the place is signed if anybody can. */
static bool
is_finished(struct ledger *g)
{
	bool is_more = may_hear_more(g);
	struct head x;
	enum status st;

	while ((st = drain_batch(&g->drain)) == ST_OK)
		;
	if (st != ST_END || g->is_signing || is_more)
		return false;
	if (g->keeper == NULL) {
		note_place(g);
		return true;
	}
	if (heads_wanted(&g->store, &x) != ST_OK)
		return true;
	sign(g);
	return false;
}

static void
on_finish(void *ctx)
{
	struct ledger *g = ctx;
	bool done = is_finished(g);

	if (!done && clock_mono_ms() < g->finish_by) {
		loop_timer_set(&g->finish, FINISH_MS);
		return;
	}
	if (!done)
		log_error(&g->role.log,
			  "the deadline is over; rows or a signature are missing");
	if (g->is_orphan) {
		loop_stop(g->loop);
		return;
	}
	g->is_drained = true;
	role_drained(&g->role, g->finish_seq);
}

static void
drain(void *ctx, uint32_t deadline_ms, uint32_t seq)
{
	struct ledger *g = ctx;

	g->finish_seq = seq;
	g->finish_by = clock_mono_ms() + deadline_ms;
	loop_timer_set(&g->finish, 0);
}

static void
on_super(void *ctx, unsigned events)
{
	struct ledger *g = ctx;

	(void)events;
	if (role_heard(&g->role) == ST_OK)
		return;
	if (g->is_drained) {
		loop_stop(g->loop);
		return;
	}
	loop_io_clear(&g->super);
	log_info(&g->role.log, "super is gone: stores what is left, then ends");
	g->is_orphan = true;
	g->finish_by = clock_mono_ms() + ORPHAN_MS;
	g->alone_by = clock_mono_ms() + ALONE_MS;
	loop_timer_set(&g->finish, FINISH_MS);
}

static enum status
note_damage(struct ledger *g, const char *what, uint64_t seq)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row r = { .kind = ROW_LOST, .reason = ST_CONFLICT };

	buf_init(&b, 200);
	buf_putf(&b, "%s row %llu; run sandgate audit verify", what,
		 (unsigned long long)seq);
	log_error(&g->role.log, "%s", buf_cstr(&b) == NULL ? what : buf_cstr(&b));
	enum status st = buf_finish(&b, &r.detail);
	if (st == ST_OK)
		st = store_begin(&g->store);
	if (st == ST_OK)
		st = store_note(&g->store, &r);
	return st == ST_OK ? store_commit(&g->store) : st;
}

/* What was changed while nobody looked is told, loudly, but doesn't stop the gateway:
 * else whoever can damage the file could also stop it. */
static enum status
check(struct ledger *g)
{
	uint64_t seq = 0;
	enum status st = ST_OK;

	if (heads_is_cut(&g->heads, &g->store, &seq))
		st = note_damage(g, "the ledger was cut off before", seq);
	if (st == ST_OK && !store_tail_fits(&g->store, &seq))
		st = note_damage(g, "the ledger was changed at", seq);
	return st;
}

static enum status
open_all(struct ledger *g)
{
	if (g->dir < 0)
		return ST_BAD_MESSAGE;
	enum status st = heads_open(&g->heads, dir_here);
	if (st == ST_OK)
		st = store_open(&g->store, dir_here, g->role.slot);
	if (st != ST_OK)
		return st;
	apply(g);
	g->drain.stats = g->role.stats;
	st = check(g);
	return st == ST_OK ? drain_start(&g->drain, &g->store) : st;
}

static void
start_timers(struct ledger *g)
{
	loop_timer_init(&g->sign, g->loop, sign, g);
	loop_timer_init(&g->retain, g->loop, retain, g);
	loop_timer_init(&g->finish, g->loop, on_finish, g);
	loop_timer_set(&g->sign, SIGN_FIRST_MS);
	loop_timer_set(&g->retain, RETAIN_MS);
	loop_io_init(&g->super, g->loop, g->role.super.fd, on_super, g);
	loop_io_want(&g->super, LOOP_READ);
}

static void
end(struct ledger *g)
{
	loop_io_clear(&g->super);
	loop_timer_clear(&g->sign);
	loop_timer_clear(&g->retain);
	loop_timer_clear(&g->finish);
	drain_done(&g->drain);
	store_close(&g->store);
	heads_done(&g->heads);
	ask_line_free(g->keeper);
	loop_free(g->loop);
}

int
main(void)
{
	struct ledger g = { .dir = -1, .super_pid = getppid() };
	const struct role_hooks hooks = {
		.ctx = &g, .given = given, .commit = commit, .drain = drain
	};

	if (jail_early(ROLE_LEDGER, 0) != ST_OK || loop_new(&g.loop) != ST_OK)
		return 1;
	drain_init(&g.drain, g.loop, &g.role.log);
	role_start(&g.role, ROLE_LEDGER, &hooks);
	enum status st = open_all(&g);
	if (st != ST_OK) {
		log_error(&g.role.log, "the ledger can't be opened: %s",
			  status_code(st));
		return 1;
	}
	start_timers(&g);
	role_enter(&g.role, dir_here);
	loop_run(g.loop);
	end(&g);
	return 0;
}
