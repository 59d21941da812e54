/* A create that a person is asked about: answered at once as Pending, made when it is allowed.
 */
#include <openssl/evp.h>

#include "proxy/control/brain_create_in.h"

enum { HELD_MAX_TEXT = 4096 };

static void
held_told(void *ctx, const struct approval_told *told)
{
	struct brain_turn *t = ctx;
	struct create *c = t->state;
	enum status st = told->st;

	t->approval = NULL;
	t->was_held = true;
	/* A job only of what will be made: none but its maker ends it. */
	if (st == ST_OK)
		st = brain_making_begin(t->brain, t->box.id);
	if (st != ST_OK) {
		create_fail(t, st, "");
		return;
	}
	c->is_making = true;
	c->since_ms = loop_now_ms(t->brain->control->loop);
	create_make(t);
}

void
create_hold(struct brain_turn *t)
{
	struct create *c = t->state;
	struct approval_wish w = {
		.tenant = str_from(t->who.tenant),
		.user = str_from(t->who.user),
		.agent = str_from(t->who.agent),
		.on_behalf_of = str_from(t->who.on_behalf_of),
		.session = str_from(t->who.session),
		.sandbox = t->box.id,
		.what = STR("create"),
		.text = str_head(c->kept, HELD_MAX_TEXT),
		.why = c->judged.why,
		.level = (uint8_t)c->judged.answer.level,
	};
	unsigned n = sizeof w.hash;
	enum status st;

	st = EVP_Digest(c->kept.p, c->kept.n, w.hash, &n, EVP_sha256(), NULL) == 1
		     ? approvals_begin(t->brain->control, &w, held_told, t,
				       &t->approval)
		     : ST_NOMEM;
	if (st != ST_OK) {
		create_fail(t, st, "");
		return;
	}
	brain_answer_early(t, 202, brain_view(&t->box, NULL));
}

void
brain_held_drop(struct brain *b, struct str id)
{
	list_each_safe (it, &b->turns) {
		struct brain_turn *t = LIST_OF(it, struct brain_turn, link);

		if (t->approval != NULL && str_eq(t->box.id, id))
			brain_refuse(t, ST_CONFLICT,
				     STR("it was ended before it was made"));
	}
}
