#ifndef PROXY_CLI_VAULT_PRINT_H
#define PROXY_CLI_VAULT_PRINT_H
/* vault_print: the keeper's answers for people.  None of them holds a value. */
#include <jansson.h>

void vault_print_status(const json_t *body);
void vault_print_version(const json_t *body);
void vault_print_list(const json_t *body);

#endif
