#ifndef PROXY_IO_VAULT_OP_H
#define PROXY_IO_VAULT_OP_H
/*
 * vault_op: what an operator asks of the vault, as control says it to the keeper
 * (ASK_VAULT).  One body for every op:
 *
 *	op u8, name str16, tenant str16, connector str16, user str16,
 *	kind u8, expires u64, seconds u32
 *
 * A value never stands in the body: it comes as a memfd that the client made, sealed
 * against writing, growing and shrinking, and that control hands on unread.
 *
 * A secret's name is 1 to 8 parts between '/', each as str_is_name() has it.  Where a
 * connector says {user}, the name of the sandbox's user is put in before it is looked
 * up.  "" is the tenant of those who have none.
 */
#include "proxy/io/wire.h"

enum vault_value { VAULT_NONE, VAULT_MAY, VAULT_MUST };

enum vault_field {
	VAULT_F_NAME = 1,     /* name and tenant */
	VAULT_F_AFTER = 2,    /* name and tenant, which may be empty */
	VAULT_F_WHO = 4,      /* connector and user */
	VAULT_F_KIND = 8,     /* enum vault_kind or vault_key */
	VAULT_F_EXPIRES = 16, /* seconds since 1970, 0: never */
	VAULT_F_SECONDS = 32, /* a span */
};

#define VAULT_OP(name, word, value, fields, what) VAULT_OP_##name,
enum vault_op {
#include "proxy/io/vault_op.def"
	VAULT_OP_COUNT
};
#undef VAULT_OP

/* TEXT: one line for a header: no CR, LF, NUL, no space at its ends.  PEM: a key or
 * certificate for mtls and jwt_bearer: printable ASCII in lines that end in LF. */
enum vault_kind { VAULT_TEXT, VAULT_PEM, VAULT_KIND_COUNT };
/* FILE: made and kept by the keeper.  GIVEN: a file or a systemd credential that the
 * configuration names. */
enum vault_key {
	VAULT_KEY_FILE,
	VAULT_KEY_PASSPHRASE,
	VAULT_KEY_GIVEN,
	VAULT_KEY_COUNT
};

enum { VAULT_VALUE_MAX = 8192, VAULT_NAME_MAX = 200, VAULT_ASK_MAX = 1024 };

struct vault_ask { /* views */
	enum vault_op op;
	struct str name, tenant, connector, user;
	uint8_t kind;
	uint64_t expires;
	uint32_t seconds;
};

const char *vault_op_word(enum vault_op op);
bool vault_op_by_word(struct str word, enum vault_op *ret_op) MUSTCHECK;
enum vault_value vault_op_value(enum vault_op op);
bool vault_is_name(struct str name);

void vault_ask_put(struct buf *b, const struct vault_ask *a);
/* ST_BAD_MESSAGE: no such op, a field that it doesn't read, or a name that is none. */
enum status vault_ask_get(struct str body, struct vault_ask *ret_a) MUSTCHECK;

#endif
