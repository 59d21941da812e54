#include <string.h>
#include <sys/random.h>

#include "vault/mark.h"
#include "vault/master.h"
#include "vault/value.h"
#include "vault/vault_inside.h"

static enum status
make_with(struct vault *v, const struct safe_head *head, const struct seal_key *key)
{
	enum status st = safe_make(v->safe, head, key);

	return st == ST_OK ? vault_be_open(v, key) : st;
}

static enum status
rekey_with(struct vault *v, const struct safe_head *head, const struct seal_key *key)
{
	enum vault_key old = safe_head(v->safe)->key;
	enum status st =
		mark_write(v->given.dir, vault_master(v), key, safe_head(v->safe));

	if (st == ST_OK)
		st = safe_rekey(v->safe, head, key);
	if (st != ST_OK)
		return st;
	page_use(v->page, key);
	vault_changed(v);
	if (head->key == VAULT_KEY_FILE)
		return master_settle(v->given.dir);
	if (old == VAULT_KEY_FILE)
		master_remove(v->given.dir);
	return ST_OK;
}

/* The vault's first key, or its next: by what is not a passphrase. */
static enum status
new_key(struct vault *v, enum vault_key key, int value, struct seal_key *spare)
{
	CLEANUP(secret_done) struct secret bytes = { 0 };

	if (key == VAULT_KEY_FILE)
		return value < 0 ? master_stage(v->given.dir, spare) : ST_BAD_MESSAGE;
	if (value < 0)
		return master_read_given(v->given.key, spare);
	enum status st = value_read(value, MASTER_MOST, &bytes);
	return st == ST_OK ? master_from(&bytes, spare) : st;
}

static enum status
start_job(struct vault *v, enum job job, const struct safe_head *head, int value)
{
	struct stat info;

	if (v->job != JOB_NONE)
		return ST_CONFLICT;
	if (value < 0 || fstat(value, &info) != 0 || info.st_size <= 0 ||
	    info.st_size > KDF_PASSPHRASE_MAX)
		return ST_BAD_SECRET;
	enum status st = kdf_start(value, (size_t)info.st_size, head->salt, &v->kdf);
	if (st != ST_OK)
		return st;
	v->job = job;
	v->job_head = *head;
	return ST_AGAIN;
}

static enum status
start_passphrase(struct vault *v, enum job job, int value)
{
	struct safe_head head = { .key = VAULT_KEY_PASSPHRASE };

	if (getrandom(head.salt, sizeof head.salt, 0) != sizeof head.salt)
		return ST_SYSTEM;
	return start_job(v, job, &head, value);
}

enum status
vault_init(struct vault *v, enum vault_key key, int value)
{
	const struct safe_head head = { .key = key };

	if (v->state != VAULT_ABSENT)
		return ST_CONFLICT;
	if (key == VAULT_KEY_PASSPHRASE)
		return start_passphrase(v, JOB_INIT, value);
	struct seal_key *spare = page_spare(v->page);
	enum status st = new_key(v, key, value, spare);
	if (st == ST_OK)
		st = make_with(v, &head, spare);
	if (st == ST_OK && key == VAULT_KEY_FILE)
		st = master_settle(v->given.dir);
	return st;
}

enum status
vault_rekey(struct vault *v, enum vault_key key, int value)
{
	const struct safe_head head = { .key = key };
	enum status st = vault_is_open(v);

	if (st != ST_OK || v->job != JOB_NONE)
		return st == ST_OK ? ST_CONFLICT : st;
	if (key == VAULT_KEY_PASSPHRASE)
		return start_passphrase(v, JOB_REKEY, value);
	struct seal_key *spare = page_spare(v->page);
	st = new_key(v, key, value, spare);
	return st == ST_OK ? rekey_with(v, &head, spare) : st;
}

/* Somebody guesses: a passphrase, or the bytes of a key. */
static enum status
unseal_by_value(struct vault *v, int value)
{
	const struct lockout_now now = vault_clock(v);
	const struct safe_head *head = safe_head(v->safe);

	if (v->job != JOB_NONE)
		return ST_CONFLICT;
	enum status st = lockout_try(&v->lockout, &now);
	if (st != ST_OK)
		return st;
	if (head->key == VAULT_KEY_PASSPHRASE)
		return start_job(v, JOB_UNSEAL, head, value);
	struct seal_key *spare = page_spare(v->page);
	st = new_key(v, VAULT_KEY_GIVEN, value, spare);
	if (st == ST_OK)
		st = vault_open_with(v, spare);
	return st == ST_OK ? lockout_succeeded(&v->lockout) : st;
}

enum status
vault_unseal(struct vault *v, int value)
{
	if (v->state != VAULT_SEALED)
		return v->state == VAULT_OPEN || v->state == VAULT_ABSENT
			       ? ST_CONFLICT
			       : ST_VAULT_DAMAGED;
	if (value >= 0)
		return unseal_by_value(v, value);
	switch (safe_head(v->safe)->key) {
	case VAULT_KEY_FILE:
		return vault_open_with_file(v);
	case VAULT_KEY_GIVEN:
		return vault_open_with_given(v);
	case VAULT_KEY_PASSPHRASE:
	case VAULT_KEY_COUNT:
		break;
	}
	return ST_BAD_SECRET;
}

enum status
vault_seal(struct vault *v)
{
	enum status st = vault_is_open(v);

	if (st != ST_OK || v->job != JOB_NONE)
		return st == ST_OK ? ST_CONFLICT : st;
	ca_done(&v->ca);
	safe_lock(v->safe);
	page_seal(v->page);
	v->state = VAULT_SEALED;
	return ST_OK;
}

enum status
vault_adopt(struct vault *v)
{
	if (v->state != VAULT_ROLLED_BACK)
		return ST_CONFLICT;
	page_forget(v->page);
	return vault_be_open(v, page_key(v->page, 0));
}

int
vault_fd(const struct vault *v)
{
	return v->job == JOB_NONE ? -1 : v->kdf.fd;
}

static enum status
unsealed(struct vault *v, const struct seal_key *key)
{
	enum status st =
		v->state == VAULT_SEALED ? vault_open_with(v, key) : ST_CONFLICT;

	if (st == ST_BAD_PASSPHRASE)
		return st;
	/* The right one, whatever became of the vault. */
	enum status kept = lockout_succeeded(&v->lockout);
	return st == ST_OK ? kept : st;
}

enum status
vault_finish(struct vault *v)
{
	enum job job = v->job;
	struct seal_key *spare = page_spare(v->page);
	enum status st = kdf_finish(&v->kdf, spare);

	v->job = JOB_NONE;
	if (st != ST_OK)
		return st;
	if (job == JOB_UNSEAL)
		return unsealed(v, spare);
	if (job == JOB_INIT)
		return v->state == VAULT_ABSENT ? make_with(v, &v->job_head, spare)
						: ST_CONFLICT;
	st = vault_is_open(v);
	return st == ST_OK ? rekey_with(v, &v->job_head, spare) : st;
}
