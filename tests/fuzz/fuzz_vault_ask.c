/*
 * What operators ask of the vault, and the names in it: a body that is taken is written
 * back to the same bytes; a name that a user's name was put into is covered by what it
 * came from, for that user and no other.
 */
#include <string.h>

#include "proxy/io/vault_op.h"
#include "vault/mint.h"
#include "vault/permit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void
check_body(struct str body)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	enum vault_op op = VAULT_OP_COUNT;
	struct vault_ask a;
	struct str again;

	if (vault_ask_get(body, &a) != ST_OK)
		return;
	need(vault_op_by_word(str_from(vault_op_word(a.op)), &op) && op == a.op);
	need(vault_op_value(op) <= VAULT_MUST);
	need(!vault_op_by_word(body, &op));
	need(a.name.n == 0 || vault_is_name(a.name));
	buf_init(&b, body.n);
	vault_ask_put(&b, &a);
	need(buf_finish(&b, &again) == ST_OK && str_eq(again, body));
}

static void
check_name(struct str secret, struct str user)
{
	struct permit p = { .name_n = 0 };
	struct str found = STR("");

	if (!permit_name(secret, user, &p))
		return;
	struct str name = str_of(p.name, p.name_n);
	need(vault_is_name(name));
	need(permit_covers(secret, name, &found));
	need(found.n == 0 ? str_eq(secret, name) : str_eq(found, user));
}

/* What may stand in a certificate can't be read as anything but a host. */
static void
check_host(struct str host)
{
	if (!mint_is_host(host))
		return;
	need(host.n > 0 && host.n <= 253);
	for (size_t i = 0; i < host.n; i++)
		need(host.p[i] > ' ' && host.p[i] < 0x7f && host.p[i] != ',' &&
		     host.p[i] != '@' && host.p[i] != '*' && host.p[i] != '=');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str all = str_of(data, n), rest = all;

	check_body(all);
	check_host(all);
	struct str user = str_cut(&rest, '\n');
	check_name(rest, user);
	return 0;
}
