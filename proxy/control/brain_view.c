#include <stdlib.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_label.h"

const char *
brain_view_state(enum brain_state st)
{
	static const char *const words[] = {
		[BRAIN_PLACING] = "Pending", [BRAIN_PENDING] = "Pending",
		[BRAIN_RUNNING] = "Running", [BRAIN_PAUSED] = "Paused",
		[BRAIN_SNAPSHOT] = "Paused", [BRAIN_KILLING] = "Stopping",
		[BRAIN_FAILED] = "Failed",   [BRAIN_GONE] = "Terminated",
	};

	return words[st];
}

/* Ours, unless the server says more about a sandbox that runs or has failed there.  That one
 * which runs is paused, it said before that one was woken: else ours would say so too. */
static bool
set_status(json_t *to, const struct brain_sandbox *box)
{
	json_t *status = json_object_get(to, "status");
	struct str said = brain_json_text(status, "state");
	bool is_theirs =
		(box->state == BRAIN_RUNNING && !str_eq(said, STR("Paused"))) ||
		box->state == BRAIN_FAILED;

	if (is_theirs && said.n > 0)
		return true;
	status = json_pack("{s:s}", "state", brain_view_state(box->state));
	if (box->state == BRAIN_PENDING)
		(void)json_object_set_new(status, "reason",
					  json_string("awaiting_approval"));
	if (box->state == BRAIN_SNAPSHOT)
		(void)json_object_set_new(status, "reason", json_string("snapshot"));
	return json_object_set_new(to, "status", status) == 0;
}

/* What it was made of, as its caller said it: not what it was made of again. */
static void
set_source(json_t *to, const struct brain_sandbox *box)
{
	json_t *request = brain_json_object(box->request);
	const json_t *body = json_object_get(request, "body");
	struct str snapshot = brain_json_text(request, "snapshotId");
	json_t *image = json_object_get(body, "image");

	(void)json_object_del(to, "image");
	(void)json_object_del(to, "snapshotId");
	if (snapshot.n > 0)
		(void)json_object_set_new(to, "snapshotId",
					  json_stringn(snapshot.p, snapshot.n));
	else if (image != NULL)
		(void)json_object_set(to, "image", image);
	if (json_object_get(to, "entrypoint") == NULL &&
	    json_object_get(body, "entrypoint") != NULL)
		(void)json_object_set(to, "entrypoint",
				      json_object_get(body, "entrypoint"));
	json_decref(request);
}

/* The earlier one: its server ends it at the one, the gateway at the other. */
static bool
set_end(json_t *to, const struct brain_sandbox *box)
{
	uint64_t said_s;

	if (box->expires_s == 0 ||
	    (brain_time_read(brain_json_text(to, "expiresAt"), &said_s) &&
	     said_s <= box->expires_s))
		return true;
	return json_object_set_new(to, "expiresAt", brain_time_json(box->expires_s)) ==
	       0;
}

json_t *
brain_view(const struct brain_sandbox *box, const json_t *said)
{
	json_t *to = said == NULL ? json_object() : json_deep_copy(said);
	json_t *labels = brain_json_object(box->metadata);
	bool is_done;

	if (labels == NULL)
		labels = json_object();
	brain_json_rename(to, box->upstream, box->id);
	set_source(to, box);
	is_done = json_object_set_new(to, "id", json_stringn(box->id.p, box->id.n)) ==
			  0 &&
		  set_status(to, box) &&
		  json_object_set_new(to, "metadata", labels) == 0;
	if (json_object_get(to, "createdAt") == NULL)
		is_done = is_done &&
			  json_object_set_new(to, "createdAt",
					      brain_time_json(box->created_s)) == 0;
	if (is_done && set_end(to, box))
		return to;
	json_decref(to);
	return NULL;
}

bool
brain_view_take(struct brain *b, struct brain_sandbox *box, const json_t *said)
{
	struct str state = brain_json_text(json_object_get(said, "status"), "state");
	enum brain_state to = box->state;

	if (box->state != BRAIN_RUNNING && box->state != BRAIN_PAUSED)
		return false;
	if (str_eq(state, STR("Running")))
		to = BRAIN_RUNNING;
	else if (str_eq(state, STR("Paused")))
		to = BRAIN_PAUSED;
	else if (str_eq(state, STR("Terminated")) || str_eq(state, STR("Failed")))
		to = BRAIN_FAILED;
	if (to == box->state ||
	    brain_store_state(b->store, box->id, to, brain_now_s()) != ST_OK)
		return false;
	brain_endpoints_forget(b, box->id);
	box->state = to;
	return true;
}

bool
brain_view_hear(struct brain *b, struct brain_sandbox *box, const json_t *said,
		uint64_t asked_s)
{
	if (brain_job_runs(b, box->id) || box->used_s >= asked_s ||
	    box->paused_s >= asked_s)
		return false;
	return brain_view_take(b, box, said);
}

/* Labels. */

static bool
set_hashed(json_t *labels, const char *key, struct str text)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	if (text.n == 0)
		return true;
	buf_init(&b, 128);
	label_put_value(&b, text);
	return b.st == ST_OK && label_set(labels, key, str_of(b.p, b.len));
}

bool
brain_labels_forced(json_t *labels, const struct image *im)
{
	const struct image_exec *e = image_exec(im);
	bool is_done = true;

	for (uint32_t i = 0; i + 1 < e->labels_n && is_done; i += 2) {
		struct str key = image_word(im, e->labels + i);
		struct str value = image_word(im, e->labels + i + 1);

		is_done = json_object_setn_new(labels, key.p, key.n,
					       json_stringn(value.p, value.n)) == 0;
	}
	return is_done;
}

static bool
set_user(json_t *labels, const struct brain_owner *o)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 128);
	label_put_user(&b, o->tenant, o->user);
	return b.st == ST_OK && label_set(labels, "sandgate/user", str_of(b.p, b.len));
}

json_t *
brain_labels(const struct brain_turn *t, struct str id, enum exec_tier tier)
{
	json_t *to = json_deep_copy(t->request.metadata);
	const struct image *im = t->brain->control->role.image;
	uint32_t policy = image_exec(im)->policy;
	size_t n;
	bool is_done = brain_labels_forced(to, im) && set_user(to, &t->owner) &&
		       set_hashed(to, "sandgate/id", id) &&
		       set_hashed(to, "sandgate/agent", str_from(t->who.agent)) &&
		       set_hashed(to, "sandgate/session", str_from(t->who.session)) &&
		       set_hashed(to, "sandgate/task", str_from(t->who.task)) &&
		       set_hashed(to, "sandgate/tier", str_from(exec_tier_word(tier)));

	const struct image_policy *policies = image_policies(im, &n);
	if (policy < n)
		is_done = is_done && set_hashed(to, "sandgate/policy",
						image_str(im, policies[policy].name));
	if (is_done)
		return to;
	json_decref(to);
	return NULL;
}

size_t
brain_pairs(const json_t *labels, struct brain_pair *pairs, size_t max)
{
	json_t *o =
		(json_t *)(uintptr_t)labels; /* Jansson's iterator changes nothing */
	size_t n = 0;

	for (void *it = json_object_iter(o); it != NULL && n < max;
	     it = json_object_iter_next(o, it)) {
		const json_t *v = json_object_iter_value(it);

		if (json_is_string(v))
			pairs[n++] =
				(struct brain_pair){ str_from(json_object_iter_key(it)),
						     str_of(json_string_value(v),
							    json_string_length(v)) };
	}
	return n;
}
