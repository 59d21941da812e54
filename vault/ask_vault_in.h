#ifndef VAULT_ASK_VAULT_IN_H
#define VAULT_ASK_VAULT_IN_H
/* ask_vault_in: one wish of an operator, for the files that fulfil it. */
#include "vault/keeper.h"

enum { TEXT_MAX = 32000 };

struct op {
	struct keeper *keeper;
	struct vault_ask ask;
	int value; /* its memfd, or -1 */
	struct buf text;
	uint32_t version; /* that was made; 0: none */
};

void op_put_grants(struct buf *b, const struct table_grant *g, size_t n);
/* NULL: there is none. */
const struct table_entry *op_find(const struct op *o);
/* Secrets that others keep. */
enum status op_sources(struct op *o) MUSTCHECK;
enum status op_list(struct op *o) MUSTCHECK;
enum status op_status(struct op *o) MUSTCHECK;
enum status op_digest(struct op *o) MUSTCHECK;

#endif
