#include <fcntl.h>

#include "connectors/bond_in.h"
#include "proxy/io/sock.h"

enum { SCRATCH_MAX = 64 * 1024 };

void
bond_stop(struct bond *b)
{
	lease_cancel(b->leasing);
	rotate_cancel(b->rotating);
	b->leasing = NULL;
	b->rotating = NULL;
	errand_stop(&b->errand);
	if (b->has_x)
		exchange_over(&b->x);
	b->has_x = false;
	lease_done(&b->lease);
	arena_done(&b->scratch);
	if (b->timer.loop != NULL)
		loop_timer_clear(&b->timer);
	if (b->sandbox >= 0)
		sock_close_passed(b->sandbox);
	b->sandbox = -1;
}

/* Of delegated secrets, whose is told by the sandbox's socket. */
static struct lease_wish
wish_of(const struct bond *b)
{
	return (struct lease_wish){ .connector = b->name,
				    .conf = &b->conf,
				    .parts = auth_needs(&b->conf),
				    .sandbox = b->sandbox };
}

static void
on_rotated(void *ctx, enum status st)
{
	struct bond *b = ctx;

	b->rotating = NULL;
	b->is_durable = st == ST_OK;
	if (st == ST_OK)
		token_forget_refresh(&b->token); /* the vault's from now on */
	else
		log_error(&b->all->role.log,
			  "connector %.*s: its new refresh token is not in the vault "
			  "yet: "
			  "%s",
			  STR_ARG(b->name), status_code(st));
	bond_finish(b, st);
}

static void
rotate(struct bond *b)
{
	const struct rotate_wish wish = { .of = wish_of(b),
					  .version = b->version,
					  .value = b->token.refresh };
	enum status st;

	bond_to(b, BOND_ROTATE);
	st = rotate_begin(b->all, &wish, on_rotated, b, &b->rotating);
	if (st != ST_OK)
		on_rotated(b, st);
}

static bool
is_new_refresh(const struct bond *b, const struct token_held *t,
	       const struct str parts[AUTH_PARTS])
{
	return b->conf.kind == AUTH_OAUTH2_REFRESH && t->refresh.n > 0 &&
	       !str_eq(t->refresh, parts[AUTH_PART_SECRET]);
}

/* What the service gave replaces what there was. */
static void
keep_token(struct bond *b, struct token_held *t)
{
	token_done(&b->token);
	b->token = *t;
	b->serial++;
	if (b->token.expires_s == 0)
		b->token.expires_s = connector_now_s() + BOND_UNTOLD_S;
	b->version = b->lease.version;
}

static void
read_answer(struct bond *b)
{
	struct str parts[AUTH_PARTS];
	struct token_held t;
	enum status st =
		exchange_read(&b->conf, b->errand.http,
			      cred_since(&b->errand.answer, 0), connector_now_s(), &t);

	if (st != ST_OK) {
		bond_finish(b, st);
		return;
	}
	lease_views(&b->lease, parts);
	b->is_durable = !is_new_refresh(b, &t, parts);
	keep_token(b, &t);
	if (b->is_durable) {
		token_forget_refresh(&b->token);
		bond_finish(b, ST_OK);
	} else {
		rotate(b);
	}
}

/* The request. */

static void
on_sent(void *ctx)
{
	struct bond *b = ctx;

	exchange_over(&b->x);
	b->has_x = false;
}

static void
on_over(void *ctx, enum status st)
{
	struct bond *b = ctx;

	if (st == ST_OK)
		read_answer(b);
	else
		bond_finish(b, st == ST_TOO_BIG ? ST_TOKEN_FAILED : st);
}

static void
send_request(struct bond *b, const struct upstream_wish *wish)
{
	static const struct errand_hooks hooks = { on_sent, on_over };
	const struct auth_job *j = &b->x.job;

	b->errand = (struct errand){
		.all = b->all,
		.hooks = &hooks,
		.ctx = b,
		.name = b->name,
		.msg = { .head = &b->x.head,
			 .uri = &b->x.uri,
			 .is_https = true,
			 .last = j->last,
			 .last_n = j->last_n },
		.body = j->body,
		.answer_max = TOKEN_BODY_MAX,
	};
	errand_begin(&b->errand, wish);
}

static void
call(struct bond *b)
{
	const struct upstream_wish wish = {
		.connector = image_connector_by_name(b->all->role.image, b->name),
		.handle = HANDLE_NONE,
		.sandbox = -1,
		.dest = &b->x.uri.dest,
		.offer = TLS_OFFER_BOTH,
	};

	bond_to(b, BOND_CALL);
	if (wish.connector == CONNECTOR_NONE)
		bond_finish(b, ST_RELOADED);
	else
		send_request(b, &wish);
}

static void
make_local(struct bond *b, const struct str parts[AUTH_PARTS])
{
	struct token_held t;
	enum status st = exchange_make_local(&b->conf, parts, connector_now_s(), &t);

	if (st == ST_OK) {
		keep_token(b, &t);
		b->is_durable = true;
	}
	bond_finish(b, st);
}

static void
on_lease(void *ctx, enum status st, struct lease *l)
{
	struct bond *b = ctx;
	struct str parts[AUTH_PARTS];

	b->leasing = NULL;
	if (st != ST_OK) {
		bond_finish(b, st);
		return;
	}
	b->lease = *l;
	*l = (struct lease){ .version = 0 };
	lease_views(&b->lease, parts);
	if (exchange_is_local(&b->conf)) {
		make_local(b, parts);
		return;
	}
	arena_init(&b->scratch, SCRATCH_MAX);
	st = exchange_make(&b->x, &b->conf, parts, connector_now_s(), &b->scratch);
	b->has_x = true;
	if (st != ST_OK)
		bond_finish(b, st);
	else
		call(b);
}

static void
on_timeout(void *ctx)
{
	bond_finish(ctx, ST_UPSTREAM_TIMEOUT);
}

static void
take_lease(struct bond *b)
{
	const struct lease_wish wish = wish_of(b);
	enum status st = ST_BAD_CONFIG;

	bond_to(b, BOND_LEASE);
	if (wish.parts != 0)
		st = lease_begin(b->all, &wish, on_lease, b, &b->leasing);
	if (st != ST_OK)
		bond_finish(b, st);
}

/* Put off, so that nobody is told before it is known that they wait. */
static void
begin(void *ctx)
{
	struct bond *b = ctx;

	loop_timer_init(&b->timer, b->all->loop, on_timeout, b);
	loop_timer_set(&b->timer, BOND_CALL_MS);
	/* A token that is only not durable yet is not got again. */
	if (b->token.shown.value.n > 0 && !b->is_durable)
		rotate(b);
	else
		take_lease(b);
}

void
bond_run(struct bond *b, int sandbox)
{
	bond_to(b, BOND_SOON);
	b->sandbox = fcntl(sandbox, F_DUPFD_CLOEXEC, 0);
	loop_timer_init(&b->timer, b->all->loop, begin, b);
	loop_timer_set(&b->timer, 0);
}
