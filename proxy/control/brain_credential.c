/* credential-vault of the egress API: see brain_egress.c.  Callers of this gateway have no
 * vault of their own: its secrets are the operator's, and reach a sandbox's requests by the
 * connectors that its policy lists. */
#include "proxy/control/brain.h"

void
brain_credentials(struct brain_turn *t)
{
	if (t->wish.op == EXEC_OP_VAULT_CREATE || t->wish.op == EXEC_OP_VAULT_PATCH)
		brain_answer_text(
			t, 412, STR("text/plain; charset=utf-8"),
			STR("credentials are the operator's here: sandgate vault "
			    "put, and a connector that the policy lists"));
	else
		brain_answer_text(t, 404, STR("text/plain; charset=utf-8"),
				  STR("no credential vault"));
}
