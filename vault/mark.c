#include "vault/mark.h"

#include <string.h>

#include "proxy/base/num.h"
#include "vault/small_file.h"

/* id of the vault, change as u64, HMAC of both by one or by two keys. */
enum { SAID = SAFE_ID + 8, KEYS = 2, SIZE = SAID + KEYS * SEAL_KEY };

static const char name[] = "vault.mark";

static enum status
sign(const struct seal_key *master, struct str said, struct seal_key *ret_mac)
{
	CLEANUP(seal_key_done) struct seal_key key = { 0 };
	enum status st = seal_derive(master, SEAL_MARK, &key);

	return st == ST_OK ? seal_mac(&key, said, ret_mac) : st;
}

bool
mark_is_there(int dir)
{
	unsigned char bytes[SIZE];
	size_t n = 0;

	return small_file_read(dir, name, bytes, sizeof bytes, &n) != ST_NOT_FOUND;
}

static bool
is_signed(const unsigned char bytes[SIZE], const struct seal_key *mac)
{
	struct seal_key found;

	for (size_t i = 0; i < KEYS; i++) {
		memcpy(found.b, bytes + SAID + i * SEAL_KEY, sizeof found.b);
		if (seal_key_eq(mac, &found))
			return true;
	}
	return false;
}

enum status
mark_read(int dir, const struct seal_key *master, const struct safe_head *head,
	  uint64_t *ret_change)
{
	unsigned char bytes[SIZE];
	struct seal_key mac;
	size_t n = 0;
	enum status st = small_file_read(dir, name, bytes, sizeof bytes, &n);

	if (st == ST_CONFLICT || st == ST_TOO_BIG || (st == ST_OK && n != SIZE))
		return ST_VAULT_DAMAGED;
	if (st == ST_OK)
		st = sign(master, str_of(bytes, SAID), &mac);
	if (st != ST_OK)
		return st;
	if (!is_signed(bytes, &mac) || memcmp(bytes, head->id, SAFE_ID) != 0)
		return ST_VAULT_DAMAGED;
	*ret_change = num_be64(bytes + SAFE_ID);
	return ST_OK;
}

enum status
mark_write(int dir, const struct seal_key *master, const struct seal_key *next,
	   const struct safe_head *head)
{
	const struct seal_key *keys[KEYS] = { master, next == NULL ? master : next };
	CLEANUP(buf_done) struct buf b = { 0 };
	struct seal_key macs[KEYS];
	struct str text;

	buf_init(&b, SIZE);
	buf_put(&b, str_of(head->id, sizeof head->id));
	buf_put_u64(&b, head->change);
	enum status st = buf_finish(&b, &text);
	for (size_t i = 0; i < KEYS && st == ST_OK; i++)
		st = sign(keys[i], text, &macs[i]);
	if (st != ST_OK)
		return st;
	buf_put(&b, str_of(macs, sizeof macs));
	st = buf_finish(&b, &text);
	return st == ST_OK ? small_file_write(dir, name, text) : st;
}
