/* A create that is given one of its owner's own, whatever that one does now. */
#include "proxy/control/brain_create_in.h"
#include "proxy/control/brain_json.h"

enum { SLACK_S = 5 }; /* of a time that is long enough */

static void
extended(struct brain_turn *t, const struct call_got *got)
{
	struct create *c = t->state;
	json_t *said = NULL;
	uint64_t expires_s = 0;

	brain_server_told(t->brain, t->box.server, got);
	if (brain_got_object(got, &said) &&
	    brain_time_read(brain_json_text(said, "expiresAt"), &expires_s)) {
		expires_s = brain_end_capped(t->brain, expires_s);
		if (brain_store_expires(t->brain->store, t->box.id, expires_s) == ST_OK)
			t->box.expires_s = expires_s;
		(void)json_object_set(c->said, "expiresAt",
				      json_object_get(said, "expiresAt"));
	}
	json_decref(said);
	/* If not, it lives as long as it did, which the answer says. */
	create_answer(t, c->said);
}

/* Whoever asks for a sandbox of ten minutes doesn't get what is left of another's. */
static void
extend(struct brain_turn *t)
{
	struct create *c = t->state;
	uint64_t until_s = brain_now_s() + t->request.timeout_s;
	struct brain_call w = { .server = t->box.server, .method = "POST" };
	json_t *body;

	if (t->box.expires_s == 0 || t->box.expires_s + SLACK_S >= until_s) {
		create_answer(t, c->said);
		return;
	}
	body = json_object();
	(void)json_object_set_new(body, "expiresAt", brain_time_json(until_s));
	w.target = brain_target(&t->arena, t->box.upstream, "/renew-expiration");
	w.body = brain_dump(&t->arena, body);
	json_decref(body);
	brain_call(t, &w, extended);
}

static void
look_told(struct brain_turn *t, const struct call_got *got)
{
	struct create *c = t->state;
	json_t *said = NULL;

	brain_server_told(t->brain, t->box.server, got);
	if (brain_got_object(got, &said)) {
		json_decref(c->said);
		c->said = said;
		extend(t);
	} else if (got->st == ST_OK && got->http == 404) {
		enum status st =
			brain_store_gone(t->brain->store, t->box.id, brain_now_s());

		brain_forget(t->brain, t->box.id);
		if (st == ST_OK)
			create_claim(t);
		else
			brain_refuse(t, st, STR(""));
	} else {
		brain_answer_unread(t, got);
	}
}

static void
existing_again(struct brain_turn *t)
{
	enum status st = brain_store_find(t->brain->store, &t->owner, t->box.id,
					  &t->arena, &t->box);

	if (st == ST_NOT_FOUND)
		create_claim(t);
	else if (st != ST_OK)
		brain_refuse(t, st, STR(""));
	else
		create_existing(t);
}

/* The owner's own, whatever it does now. */
void
create_existing(struct brain_turn *t)
{
	struct brain_call w = { .server = t->box.server,
				.method = "GET",
				.target =
					brain_target(&t->arena, t->box.upstream, "") };

	if (brain_turn_wait(t, existing_again))
		return;
	switch (t->box.state) {
	case BRAIN_PENDING:
		create_answer(t, NULL);
		return;
	case BRAIN_RUNNING:
		brain_call(t, &w, look_told);
		return;
	case BRAIN_PAUSED:
	case BRAIN_SNAPSHOT:
		brain_turn_job(t, BRAIN_RESUME, existing_again);
		return;
	case BRAIN_FAILED:
	case BRAIN_KILLING:
		create_claim(t);
		return;
	case BRAIN_PLACING:
		brain_refuse(t, ST_SANDBOX_PENDING,
			     STR("an earlier create isn't over"));
		return;
	case BRAIN_GONE:
	case BRAIN_STATES:
		break;
	}
	brain_refuse(t, ST_CONFLICT, STR("what this Idempotency-Key made is gone"));
}
