#ifndef PROXY_CLI_VAULT_VALUE_H
#define PROXY_CLI_VAULT_VALUE_H
/*
 * vault_value: a secret or passphrase from standard input, in a memfd that is sealed:
 * nobody on its way can alter it, and nobody but the keeper maps it.  On a terminal it
 * is asked for, and not shown.
 */
#include "proxy/base/base.h"

struct vault_value_wish {
	const char *what; /* "Passphrase" */
	bool twice;       /* on a terminal: typed again, and must be the same */
	bool is_whole; /* to the end of the input as it is; else one line's end at the
			     very end is not part of it */
};

/* Says on standard error what is wrong. */
enum status vault_value_read(const struct vault_value_wish *w, int *ret_fd) MUSTCHECK;

#endif
