/* What is asked of a source, in which order, and what its answers mean. */
#include "connectors/auth_part.h"
#include "connectors/store_in.h"
#include "proxy/base/num.h"

static uint64_t
now(const struct store *s)
{
	return loop_now_ms(s->all->loop);
}

/* A round. */

static void
begin_round(struct store *s)
{
	s->item = 0;
	s->is_again = false;
	s->is_refused = false;
	s->round_ms = now(s) + s->at->refresh_ms;
	s->found = (struct store_found){ .secrets = s->at->items_n,
					 .expires_s = s->found.expires_s };
}

static void
note(struct store *s, enum status st)
{
	stats_add(s->all->role.stats,
		  st == ST_OK ? STAT_SOURCE_READS : STAT_SOURCE_FAILURES, 1);
	if (st == ST_OK) {
		s->found.read++;
	} else if (s->found.failed == ST_OK) {
		s->found.failed = st;
		s->found.failed_name =
			image_str(s->all->role.image, store_item(s)->name);
	}
}

/* A token of an operator's making that can't be renewed is used to its end. */
static bool
may_change(const struct store *s)
{
	return s->token.is_renewable || s->at->login != STORE_TOKEN;
}

/* Sleeps until the next round, or until the token wants something. */
static void
end_round(struct store *s)
{
	uint64_t ms = s->round_ms > now(s) ? s->round_ms - now(s) : 0;

	s->item = s->at->items_n;
	if (s->has_token && s->renew_ms != 0 && may_change(s))
		ms = num_min(ms, s->renew_ms > now(s) ? s->renew_ms - now(s) : 0);
	store_go_on(s, ms);
	store_tell_waits(s);
}

static void
round_went_well(struct store *s)
{
	s->pause_ms = 0;
	end_round(s);
}

/* It says nothing, so neither does anybody to the keeper: asked again soon. */
static void
break_off(struct store *s, enum status why)
{
	stats_add(s->all->role.stats, STAT_SOURCE_SILENCES, 1);
	if (s->pause_ms == 0) /* the others are no news */
		log_info(&s->all->role.log, "source %.*s: %s, HTTP %u",
			 STR_ARG(s->name), status_code(why), s->http);
	s->pause_ms = s->pause_ms == 0 ? STORE_PAUSE_MS : s->pause_ms * 2;
	s->pause_ms =
		num_min(s->pause_ms, num_min(s->at->refresh_ms, STORE_PAUSE_MAX_MS));
	s->round_ms = now(s) + s->pause_ms;
	if (!s->has_token)
		s->found.login = why;
	else if (s->item < s->at->items_n)
		note(s, why);
	end_round(s);
}

/* The token. */

void
store_drop_token(struct store *s)
{
	kv_token_done(&s->token);
	s->has_token = false;
}

static void
set_lease(struct store *s, const struct kv_token *t)
{
	uint64_t ms = t->lease_s * 1000;

	s->token.lease_s = t->lease_s;
	s->token.is_renewable = t->is_renewable;
	/* At two thirds, also where it can't be renewed: then there is another login. */
	s->renew_ms = ms == 0 ? 0 : now(s) + ms / 3 * 2 + 1;
	s->end_ms = ms == 0 ? 0 : now(s) + ms;
	s->found.expires_s = ms == 0 ? 0 : connector_now_s() + t->lease_s;
}

static void
take_token(struct store *s, struct kv_token *t)
{
	store_drop_token(s);
	s->token = *t;
	stats_add(s->all->role.stats, STAT_SOURCE_LOGINS, 1);
	s->has_token = true;
	s->full_s = t->lease_s;
	set_lease(s, t);
}

/* Near the most that it may live a token is lent for ever less. */
static bool
is_worth_keeping(const struct store *s, const struct kv_token *t)
{
	return s->at->login == STORE_TOKEN || s->full_s == 0 ||
	       t->lease_s >= s->full_s / 3 + 1;
}

/* No answer is a no; what is not worth a try now is tried with the next round. */
static void
login_refused(struct store *s)
{
	log_error(&s->all->role.log, "source %.*s: its login is refused, HTTP %u",
		  STR_ARG(s->name), s->http);
	store_drop_token(s);
	s->is_refused = true;
	s->found.login = ST_SOURCE_REFUSED;
	s->item = 0;
	store_go_on(s, 0);
}

static void
logged_in(struct store *s, enum status st)
{
	struct kv_token t = { .lease_s = 0 };

	if (st == ST_NO_SECRET)
		st = ST_SOURCE_REFUSED; /* no such login there */
	if (st == ST_OK)
		st = kv_parse_login(cred_since(&s->errand.answer, 0), &t);
	if (st == ST_OK) {
		take_token(s, &t);
		store_go_on(s, 0);
	} else if (st == ST_SOURCE_REFUSED) {
		login_refused(s);
	} else {
		break_off(s, st);
	}
}

/* A token that an operator made: what it is good for says the source, unless that is not
 * among it; whether it is good at all shows the first read. */
static void
looked_up(struct store *s, enum status st)
{
	struct kv_token t = { .lease_s = 0 };

	if (st == ST_OK)
		st = kv_parse_self(cred_since(&s->errand.answer, 0), &t);
	if (st == ST_OK || st == ST_SOURCE_REFUSED || st == ST_NO_SECRET) {
		set_lease(s, &t);
		store_go_on(s, 0);
		return;
	}
	store_drop_token(s);
	break_off(s, st);
}

static void
renewed(struct store *s, enum status st)
{
	struct kv_token t = { .lease_s = 0 };

	if (st == ST_OK)
		st = kv_parse_login(cred_since(&s->errand.answer, 0), &t);
	if (st == ST_OK && is_worth_keeping(s, &t))
		set_lease(s, &t);
	else if (st == ST_OK)
		store_drop_token(s);
	kv_token_done(&t);
	if (st == ST_OK) {
		store_go_on(s, 0);
		return;
	}
	/* It may serve to its end; another one is got before that. */
	if (st == ST_SOURCE_REFUSED || st == ST_NO_SECRET) {
		s->token.is_renewable = false;
		store_go_on(s, 0);
		return;
	}
	s->renew_ms = now(s) + STORE_PAUSE_MS + 2 * s->pause_ms;
	break_off(s, st);
}

/* A secret. */

static void
was_read(struct store *s, enum status st)
{
	struct kv_value v = { .version = 0 };
	const struct image_store_item *item = store_item(s);

	if (st == ST_SOURCE_REFUSED && !s->is_again) {
		s->is_again = true; /* the token may have ended before its time */
		store_drop_token(s);
		store_go_on(s, 0);
		return;
	}
	if (st == ST_SOURCE_SILENT) {
		break_off(s, st);
		return;
	}
	if (st == ST_OK)
		st = kv_parse_value(cred_since(&s->errand.answer, 0),
				    image_str(s->all->role.image, item->field),
				    item->version, connector_now_s(), &v);
	if (st == ST_SOURCE_SILENT || st == ST_NOMEM) {
		note(s, st);
		s->item++;
		store_go_on(s, 0);
		return;
	}
	store_call_stop(s);
	store_supply(s, st, st == ST_OK ? &v : NULL);
	kv_value_done(&v);
}

/* Given back or not: it was tried. */
static void
revoked(struct store *s, enum status st)
{
	(void)st;
	store_call_stop(s);
	store_drop_token(s);
	s->state = STORE_IDLE;
	connector_check_drained(s->all);
}

void
store_supplied(struct store *s, enum status st)
{
	if (st == ST_RELOADED || st == ST_NO_KEEPER || st == ST_NO_LEDGER) {
		s->http = 0;
		break_off(s, st);
		return;
	}
	if (st != ST_OK && st != ST_SOURCE_BAD)
		log_error(&s->all->role.log, "source %.*s: the keeper: %s",
			  STR_ARG(s->name), status_code(st));
	note(s, st != ST_OK ? st : s->supplied);
	s->item++;
	store_go_on(s, 0);
}

void
store_answered(struct store *s, enum status st)
{
	static void (*const heard[])(struct store * s, enum status st) = {
		[STORE_LOGIN] = logged_in, [STORE_SELF] = looked_up,
		[STORE_RENEW] = renewed,   [STORE_READ] = was_read,
		[STORE_REVOKE] = revoked,
	};

	if (st == ST_OK)
		st = kv_status(s->http);
	else
		st = st == ST_BAD_SECRET && s->what == STORE_LOGIN ? ST_SOURCE_REFUSED
								   : ST_SOURCE_SILENT;
	heard[s->what](s, st);
}

/* What is next. */

static void
on_lease(void *ctx, enum status st, struct lease *l)
{
	struct store *s = ctx;
	struct kv_token t = { .lease_s = 0 };
	struct str parts[AUTH_PARTS];

	s->leasing = NULL;
	if (st != ST_OK) {
		s->http = 0;
		break_off(s, st);
		return;
	}
	s->lease = *l;
	*l = (struct lease){ .version = 0 };
	if (s->at->login != STORE_TOKEN) {
		store_call(s, STORE_LOGIN);
		return;
	}
	lease_views(&s->lease, parts);
	if (auth_check_text(parts[AUTH_PART_SECRET]) != ST_OK) {
		login_refused(s); /* no field can hold it */
		return;
	}
	cred_init(&t.text, KV_TOKEN_MAX);
	cred_put(&t.text, parts[AUTH_PART_SECRET]);
	lease_done(&s->lease);
	take_token(s, &t);
	store_call(s, STORE_SELF);
}

static void
take_lease(struct store *s)
{
	const struct image *im = s->all->role.image;
	struct auth_conf conf;
	size_t n;

	auth_conf_from(im, &image_connectors(im, &n)[s->at->connector].auth, &conf);
	const struct lease_wish wish = { .connector = s->name,
					 .conf = &conf,
					 .parts = 1u << AUTH_PART_SECRET,
					 .sandbox = -1 };
	s->state = STORE_LEASE;
	enum status st = lease_begin(s->all, &wish, on_lease, s, &s->leasing);
	if (st != ST_OK)
		break_off(s, st);
}

/* The token has come to two thirds of its life. */
static bool
is_due(const struct store *s)
{
	return s->has_token && s->renew_ms != 0 && now(s) >= s->renew_ms;
}

static void
next_item(struct store *s)
{
	if (s->item == s->at->items_n)
		round_went_well(s);
	else if (s->is_refused) {
		store_supply(s, ST_SOURCE_REFUSED, NULL);
	} else {
		store_call(s, STORE_READ);
	}
}

void
store_step(struct store *s)
{
	if (s->is_over)
		return;
	s->http = 0;
	if (now(s) >= s->round_ms)
		begin_round(s);
	if (s->has_token && s->end_ms != 0 && now(s) >= s->end_ms)
		store_drop_token(s);
	if (is_due(s) && !s->token.is_renewable && s->at->login != STORE_TOKEN)
		store_drop_token(s);
	if (!s->has_token && !s->is_refused)
		take_lease(s);
	else if (is_due(s) && s->token.is_renewable)
		store_call(s, STORE_RENEW);
	else
		next_item(s);
}
