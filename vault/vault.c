#include <stdlib.h>

#include "proxy/base/clock.h"
#include "vault/mark.h"
#include "vault/master.h"
#include "vault/vault_inside.h"

static const char file_name[] = "vault.db";
/* '@' is in no name that anybody can ask for. */
static const struct table_entry ca_key = { .name = { "@ca", 3 }, .kind = TABLE_CA };

uint64_t
vault_now(void)
{
	return clock_wall_us() / 1000000;
}

const char *
vault_state_word(enum vault_state state)
{
	static const char *const words[VAULT_STATES] = {
		[VAULT_ABSENT] = "absent",
		[VAULT_SEALED] = "sealed",
		[VAULT_OPEN] = "open",
		[VAULT_DAMAGED] = "damaged",
		[VAULT_ROLLED_BACK] = "rolled_back",
	};

	return words[state];
}

enum vault_state
vault_state(const struct vault *v)
{
	return v->state;
}

enum status
vault_is_open(const struct vault *v)
{
	if (v->state == VAULT_OPEN)
		return ST_OK;
	return v->state == VAULT_SEALED || v->state == VAULT_ABSENT ? ST_VAULT_SEALED
								    : ST_VAULT_DAMAGED;
}

struct lockout_now
vault_clock(const struct vault *v)
{
	return lockout_now(v->given.boot);
}

uint64_t
vault_locked_ms(struct vault *v)
{
	const struct lockout_now now = vault_clock(v);

	return lockout_left_ms(&v->lockout, &now);
}

const struct safe_head *
vault_head(const struct vault *v)
{
	return v->safe == NULL ? NULL : safe_head(v->safe);
}

const struct table *
vault_table(const struct vault *v)
{
	need(v->state == VAULT_OPEN);
	return safe_table(v->safe);
}

const struct seal_key *
vault_master(const struct vault *v)
{
	need(v->state == VAULT_OPEN);
	return page_key(v->page, 0);
}

/* The CA. */

static const struct table_entry *
ca_entry(const struct vault *v)
{
	const struct table_entry *e =
		table_find(vault_table(v), ca_key.tenant, ca_key.name);

	return e != NULL && e->kind == TABLE_CA ? e : NULL;
}

static enum status
open_ca(const struct vault *v, const struct table_entry *e,
	const struct table_version *version, struct ca *ret_ca)
{
	CLEANUP(secret_done) struct secret value = { 0 };
	const struct envelope_place place = table_place(e, version);
	size_t n = version->envelope.sealed.n - SEAL_MORE;
	enum status st = secret_new(n, &value);

	if (st == ST_OK)
		st = envelope_open(vault_master(v), &place, &version->envelope,
				   secret_bytes_mut(&value));
	return st == ST_OK ? ca_load(secret_bytes(&value), n, ret_ca) : st;
}

/* The oldest whose grace isn't over: what sandboxes trust since longest. */
static enum status
load_ca(struct vault *v)
{
	const struct table_entry *e = ca_entry(v);
	uint64_t now = vault_now();
	size_t i = 0;

	ca_done(&v->ca);
	if (e == NULL)
		return ST_NOT_FOUND;
	while (i + 1 < e->versions_n &&
	       table_version(e, e->versions[i].number, now) == NULL)
		i++;
	v->ca_until = e->versions[i].retires;
	return open_ca(v, e, &e->versions[i], &v->ca);
}

const struct ca *
vault_minter(struct vault *v, uint64_t *ret_until)
{
	need(v->state == VAULT_OPEN);
	if (v->ca_until != 0 && v->ca_until <= vault_now())
		(void)!load_ca(v);
	if (v->ca.key == NULL)
		return NULL;
	*ret_until = v->ca_until;
	return &v->ca;
}

enum status
vault_put_cas(const struct vault *v, struct buf *b)
{
	const struct table_entry *e = ca_entry(v);
	uint64_t now = vault_now();
	enum status st = e == NULL ? ST_NOT_FOUND : ST_OK;

	for (size_t i = e == NULL ? 0 : e->versions_n; i > 0 && st == ST_OK; i--) {
		CLEANUP(ca_done) struct ca ca = { 0 };
		const struct table_version *version = &e->versions[i - 1];
		if (table_version(e, version->number, now) == NULL)
			continue;
		st = open_ca(v, e, version, &ca);
		if (st == ST_OK)
			ca_put_pem(b, &ca);
	}
	return st;
}

static enum status
add_ca(struct vault *v, uint32_t number, uint64_t now, const struct secret *value)
{
	const struct table_version version = { .number = number, .created = now };
	struct str bytes = str_of(secret_bytes(value), secret_len(value));
	enum status st = number == 1 ? safe_add_secret(v->safe, &ca_key) : ST_OK;

	return st == ST_OK ? safe_add_version(v->safe, &ca_key, &version, bytes) : st;
}

enum status
vault_rotate_ca(struct vault *v, uint64_t grace_s)
{
	CLEANUP(secret_done) struct secret value = { 0 };
	CLEANUP(ca_done) struct ca made = { 0 };
	const struct table_entry *e = ca_entry(v);
	uint32_t number = e == NULL ? 1 : table_newest(e)->number + 1;
	uint64_t now = vault_now();
	enum status st = ca_make(now, &made);

	if (st == ST_OK)
		st = ca_save(&made, &value);
	if (st == ST_OK)
		(void)vault_begin(v, &st);
	if (st != ST_OK)
		return st;
	st = add_ca(v, number, now, &value);
	if (st == ST_OK)
		st = safe_retire(v->safe, &ca_key, number,
				 grace_s == 0 ? 0 : now + grace_s);
	return vault_end(v, st);
}

/* Opening. */

/* Behind what was seen: by the mark, or by the memory that super holds.  No mark at all
 * is right only for a vault that was made a moment ago. */
static enum status
check_age(struct vault *v, const struct seal_key *key)
{
	const struct safe_head *head = safe_head(v->safe);
	uint64_t marked = 0;
	enum status st = mark_read(v->given.dir, key, head, &marked);

	if (st == ST_NOT_FOUND && head->change == 1)
		st = ST_OK;
	if (st != ST_OK)
		return st == ST_NOT_FOUND ? ST_VAULT_DAMAGED : st;
	return head->change < marked || head->change < page_change(v->page)
		       ? ST_VAULT_DAMAGED
		       : ST_OK;
}

enum status
vault_be_open(struct vault *v, const struct seal_key *key)
{
	page_use(v->page, key);
	page_saw(v->page, safe_head(v->safe)->change);
	v->state = VAULT_OPEN;
	enum status st = mark_write(v->given.dir, key, NULL, safe_head(v->safe));
	if (st == ST_OK)
		st = load_ca(v);
	/* Of a vault that is new, or was cut off when it was. */
	return st == ST_NOT_FOUND ? vault_rotate_ca(v, 0) : st;
}

enum status
vault_open_with(struct vault *v, const struct seal_key *key)
{
	enum status st = safe_unlock(v->safe, key);

	if (st == ST_BAD_PASSPHRASE || st == ST_NOMEM)
		return st;
	if (st != ST_OK) {
		v->state = VAULT_DAMAGED;
		return ST_VAULT_DAMAGED;
	}
	st = check_age(v, key);
	if (st == ST_OK)
		return vault_be_open(v, key);
	if (st == ST_VAULT_DAMAGED) {
		page_use(v->page, key);
		v->state = VAULT_ROLLED_BACK;
	}
	return st;
}

/* A change of keys that was cut off has left the one that fits under its other name. */
enum status
vault_open_with_file(struct vault *v)
{
	struct seal_key *spare = page_spare(v->page);
	enum status st = master_read_file(v->given.dir, spare);

	if (st == ST_OK)
		st = vault_open_with(v, spare);
	if (st != ST_BAD_PASSPHRASE && st != ST_NOT_FOUND)
		return st;
	spare = page_spare(v->page);
	enum status staged = master_read_staged(v->given.dir, spare);
	if (staged == ST_OK)
		staged = vault_open_with(v, spare);
	if (staged == ST_OK)
		staged = master_settle(v->given.dir);
	return staged == ST_NOT_FOUND ? st : staged;
}

enum status
vault_open_with_given(struct vault *v)
{
	struct seal_key *spare = page_spare(v->page);
	enum status st = master_read_given(v->given.key, spare);

	return st == ST_OK ? vault_open_with(v, spare) : st;
}

static enum status
open_by_itself(struct vault *v)
{
	enum status st = ST_BAD_PASSPHRASE;

	v->state = VAULT_SEALED;
	for (size_t i = 0; i < PAGE_KEYS && st == ST_BAD_PASSPHRASE; i++) {
		const struct seal_key *key = page_key(v->page, i);
		if (key != NULL)
			st = vault_open_with(v, key);
	}
	if (st != ST_BAD_PASSPHRASE || page_is_shut(v->page))
		return st;
	switch (safe_head(v->safe)->key) {
	case VAULT_KEY_FILE:
		return vault_open_with_file(v);
	case VAULT_KEY_GIVEN:
		return vault_open_with_given(v);
	case VAULT_KEY_PASSPHRASE:
	case VAULT_KEY_COUNT:
		break;
	}
	return ST_OK; /* an operator opens it */
}

static enum status
start(struct vault *v)
{
	enum status st = safe_open(file_name, &v->safe);

	if (st == ST_NOMEM)
		return st;
	v->state = VAULT_DAMAGED;
	if (st != ST_OK)
		return ST_OK;
	if (safe_head(v->safe) != NULL) {
		(void)!open_by_itself(v);
		return ST_OK;
	}
	/* No vault, but there was one. */
	if (mark_is_there(v->given.dir) || page_change(v->page) > 0)
		return ST_OK;
	v->state = VAULT_ABSENT;
	/* One that can't be made now is absent, and leases nothing. */
	if (v->given.wanted != VAULT_KEY_PASSPHRASE)
		st = vault_init(v, v->given.wanted, -1);
	return st == ST_NOMEM ? st : ST_OK;
}

enum status
vault_new(const struct vault_given *g, struct vault **ret_v)
{
	struct vault *v = calloc(1, sizeof *v);

	if (v == NULL)
		return ST_NOMEM;
	v->given = *g;
	enum status st = page_open(g->page, &v->page);
	if (st == ST_OK)
		st = lockout_open(g->dir, &v->lockout);
	if (st == ST_OK)
		st = start(v);
	if (st != ST_OK) {
		vault_free(v);
		return st;
	}
	*ret_v = v;
	return ST_OK;
}

void
vault_free(struct vault *v)
{
	if (v == NULL)
		return;
	ca_done(&v->ca);
	safe_free(v->safe);
	page_close(v->page);
	free(v);
}

/* Changing. */

struct safe *
vault_begin(struct vault *v, enum status *ret_st)
{
	enum status st = vault_is_open(v);

	if (st == ST_OK)
		st = safe_begin(v->safe);
	if (st != ST_OK)
		*ret_st = st;
	return st == ST_OK ? v->safe : NULL;
}

/* A mark that can't be written is behind by one until the next change: that is found to
 * be no lie, and only the last change could be taken back unseen. */
void
vault_changed(struct vault *v)
{
	page_saw(v->page, safe_head(v->safe)->change);
	(void)!mark_write(v->given.dir, vault_master(v), NULL, safe_head(v->safe));
	(void)!load_ca(v);
}

enum status
vault_end(struct vault *v, enum status st)
{
	st = safe_end(v->safe, st);
	if (st == ST_OK)
		vault_changed(v);
	return st;
}
