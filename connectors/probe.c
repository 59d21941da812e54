#include "connectors/probe.h"

#include <stdlib.h>

#include "connectors/bond.h"
#include "connectors/store.h"
#include "connectors/upstream.h"

enum { TEXT_MAX = 3000, WORDS_MAX = 256 };

struct probe {
	struct list link; /* all->probes */
	struct connector *all;
	struct peer *peer;
	uint32_t seq, connector;
	struct auth_conf conf; /* views into the image in force */
	struct lease_call *leasing;
	struct bond_wait *bonding;
	struct store_wait *reading;
	struct upstream_call *calling;
	struct lease lease; /* of mtls, until the handshake begins */
	/* what was found */
	enum status st; /* the first fault */
	struct buf text;
};

/* The answer. */

static void
probe_free(void *ctx)
{
	struct probe *p = ctx;

	buf_done(&p->text);
	lease_done(&p->lease);
	free(p);
}

static void
probe_end(struct probe *p)
{
	lease_cancel(p->leasing);
	bond_cancel(p->bonding);
	store_cancel(p->reading);
	upstream_cancel(p->calling);
	p->leasing = NULL;
	p->bonding = NULL;
	p->reading = NULL;
	p->calling = NULL;
	list_remove(&p->link);
	loop_defer(p->all->loop, probe_free, p);
}

void
probes_end(struct connector *all, const struct peer *p)
{
	list_each_safe (it, &all->probes) {
		struct probe *one = LIST_OF(it, struct probe, link);
		if (p == NULL || one->peer == p)
			probe_end(one);
	}
}

static void
answer(struct probe *p)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text = STR("");

	buf_putc(&p->text, '}');
	if (buf_finish(&p->text, &text) != ST_OK)
		text = STR("{}");
	buf_init(&b, TEXT_MAX + 16);
	buf_put_u16(&b, (uint16_t)p->st);
	wire_put_str(&b, text);
	peer_answer(p->peer, ASK_PROBE, p->seq, &b, -1);
	probe_end(p);
}

static void
put_found(struct probe *p, const char *what, enum status st)
{
	buf_putf(&p->text, ",\"%s\":\"%s\"", what, status_code(st));
	if (p->st == ST_OK)
		p->st = st;
}

/* The company system, also where its credential is missing: an operator wants to know all
 * that is wrong. */

static void
on_upstream(void *ctx, const struct upstream_got *got)
{
	struct probe *p = ctx;

	p->calling = NULL;
	put_found(p, "upstream", got->st);
	if (got->words != NULL) {
		buf_put(&p->text, STR(",\"detail\":"));
		buf_put_json(&p->text, str_head(str_from(got->words), WORDS_MAX));
	}
	if (got->st == ST_OK)
		side_abort(got->side, ST_OK);
	answer(p);
}

/* Under TLS 1.3 the system says what it thinks of a certificate only after the handshake, to
 * the first request; none is sent here, so that it was shown is all that can be told. */
static void
show_certificate(struct probe *p, struct upstream_wish *wish)
{
	if (p->conf.kind != AUTH_MTLS)
		return;
	if (p->lease.version != 0)
		lease_client(&p->lease, &wish->chain, &wish->key);
	buf_putf(&p->text, ",\"certificate\":\"%s\"",
		 p->lease.version != 0 ? "shown" : "not_shown");
}

static void
call(struct probe *p)
{
	struct dest d;
	struct upstream_wish wish = {
		.connector = p->connector,
		.handle = HANDLE_NONE,
		.sandbox = -1,
		.dest = &d,
		.is_plain = connector_at(p->all, p->connector)->upstream_is_plain,
		.offer = TLS_OFFER_BOTH,
	};
	enum status st = policy_upstream(p->all->role.image, p->connector, &d);

	if (st != ST_OK) { /* only patterns: there is no single system */
		answer(p);
		return;
	}
	buf_put(&p->text, STR(",\"host\":\""));
	dest_put(&p->text, &d);
	buf_putc(&p->text, '"');
	show_certificate(p, &wish);
	st = upstream_begin(p->all, &wish, on_upstream, p, &p->calling);
	lease_done(&p->lease);
	if (st != ST_OK) {
		put_found(p, "upstream", st);
		answer(p);
	}
}

/* The token. */

static void
on_token(void *ctx, enum status st, const struct bond_token *t)
{
	struct probe *p = ctx;

	(void)t; /* that it came is all that is told */
	p->bonding = NULL;
	put_found(p, "token", st);
	call(p);
}

/* A source of secrets: one round of reading tells all. */
static void
on_round(void *ctx, const struct store_found *f)
{
	struct probe *p = ctx;

	p->reading = NULL;
	put_found(p, "login", f->login);
	if (f->login == ST_OK)
		buf_putf(&p->text, ",\"login_expires\":%llu",
			 (unsigned long long)f->expires_s);
	buf_putf(&p->text, ",\"secrets\":%zu,\"read\":%zu", f->secrets, f->read);
	if (f->failed != ST_OK) {
		put_found(p, "failed", f->failed);
		buf_put(&p->text, STR(",\"failed_name\":"));
		buf_put_json(&p->text, f->failed_name);
	}
	call(p);
}

static bool
is_store(const struct probe *p)
{
	return image_store_of(p->all->role.image, p->connector) != NULL;
}

static void
get_token(struct probe *p)
{
	const struct bond_wish wish = { p->connector, NULL, -1 };
	struct bond_token token;
	enum status st;

	if (is_store(p) && p->st == ST_OK &&
	    store_probe(p->all, p->connector, on_round, p, &p->reading) == ST_OK)
		return;
	if (!auth_has_exchange(&p->conf) || p->st != ST_OK) {
		call(p);
		return;
	}
	st = bond_get(p->all, &wish, on_token, p, &token, &p->bonding);
	if (st != ST_AGAIN)
		on_token(p, st, NULL);
}

/* The secret. */

/* Where it comes from, if not from the vault. */
static void
put_source(struct probe *p)
{
	struct str secret = p->conf.vault[AUTH_PART_SECRET];

	if (!image_is_store_name(p->all->role.image, secret))
		return;
	buf_put(&p->text, STR(",\"source\":"));
	buf_put_json(&p->text, str_cut(&secret, '/'));
}

static void
on_lease(void *ctx, enum status st, struct lease *l)
{
	struct probe *p = ctx;

	p->leasing = NULL;
	put_found(p, "secret", st);
	if (st == ST_OK) {
		buf_putf(&p->text, ",\"version\":%u,\"expires\":%llu", l->version,
			 (unsigned long long)l->expires_s);
		p->lease = *l;
		*l = (struct lease){ .version = 0 };
		if (p->conf.kind != AUTH_MTLS)
			lease_done(&p->lease);
	}
	put_source(p);
	get_token(p);
}

static void
take_lease(struct probe *p)
{
	const struct lease_wish wish = {
		.connector = image_str(p->all->role.image,
				       connector_at(p->all, p->connector)->name),
		.conf = &p->conf,
		.parts = is_store(p) ? 1u << AUTH_PART_SECRET : auth_needs(&p->conf),
		.sandbox = -1,
	};
	enum status st;

	if (wish.parts == 0) {
		call(p);
		return;
	}
	/* Of each user's own there is none without the user. */
	if (p->conf.is_delegated) {
		buf_put(&p->text, STR(",\"secret\":\"of_each_user\""));
		call(p);
		return;
	}
	st = lease_begin(p->all, &wish, on_lease, p, &p->leasing);
	if (st != ST_OK)
		on_lease(p, st, NULL);
}

static void
refuse(struct peer *p, uint32_t seq, enum status st)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	wire_put_str(&b, STR(""));
	peer_answer(p, ASK_PROBE, seq, &b, -1);
}

void
probe_heard(struct peer *peer, struct ask_msg *m)
{
	struct connector *all = peer->set->ctx;
	struct wire w = wire_from(m->body);
	struct str name = wire_str(&w);

	if (wire_end(&w) != ST_OK) {
		peer_kill(peer, ST_BAD_MESSAGE);
		return;
	}
	uint32_t index = image_connector_by_name(all->role.image, name);
	struct probe *p = index == CONNECTOR_NONE ? NULL : calloc(1, sizeof *p);
	if (p == NULL) {
		refuse(peer, m->seq, index == CONNECTOR_NONE ? ST_NOT_FOUND : ST_NOMEM);
		return;
	}
	*p = (struct probe){
		.all = all, .peer = peer, .seq = m->seq, .connector = index
	};
	list_append(&all->probes, &p->link);
	auth_conf_from(all->role.image, &connector_at(all, index)->auth, &p->conf);
	buf_init(&p->text, TEXT_MAX);
	buf_put(&p->text, STR("{\"connector\":"));
	buf_put_json(&p->text, name);
	take_lease(p);
}
