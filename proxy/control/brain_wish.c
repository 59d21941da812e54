/* What a create asks for, and where that may be. */
#include <openssl/evp.h>
#include <string.h>

#include "proxy/control/brain_create_in.h"
#include "proxy/control/brain_policy.h"

/* By what the caller says of it, else by what it says of itself. */
static enum status
read_reuse(struct brain_turn *t, struct create *c, struct buf *why)
{
	struct str word = t->wish.reuse.n > 0 ? t->wish.reuse : t->request.reuse;
	struct str session = str_from(t->who.session), task = str_from(t->who.task);

	if (str_eq(word, STR("task")) || (word.n == 0 && task.n > 0)) {
		c->reuse = BRAIN_REUSE_TASK;
		c->reuse_key = task;
	} else if (str_eq(word, STR("session")) || (word.n == 0 && session.n > 0)) {
		c->reuse = BRAIN_REUSE_SESSION;
		c->reuse_key = session;
	} else if (str_eq(word, STR("agent"))) {
		c->reuse = BRAIN_REUSE_AGENT;
		c->reuse_key = str_from(t->who.agent);
	} else if (word.n > 0 && !str_eq(word, STR("none"))) {
		buf_put(why,
			STR("X-Sandgate-Reuse is one of none, session, task, agent"));
		return ST_BAD_PARAMETER;
	}
	if (c->reuse != BRAIN_REUSE_NONE && c->reuse_key.n == 0) {
		buf_put(why,
			STR("X-Sandgate-Reuse wants what isn't named: "
			    "X-Sandgate-Session, X-Sandgate-Task, or the key's agent"));
		return ST_BAD_PARAMETER;
	}
	return ST_OK;
}

/* A snapshot is its owner's, and lies on one server: no weaker than what is wanted. */
static enum status
read_snapshot(struct brain_turn *t, struct create *c, struct buf *why)
{
	struct brain_snapshot sn;
	struct request *r = &t->request;
	enum status st;

	if (r->source != REQUEST_SNAPSHOT)
		return ST_OK;
	st = brain_store_snapshot_find(t->brain->store, &t->owner, r->name, &t->arena,
				       &sn);
	if (st != ST_OK) {
		buf_put(why, STR("there is no such snapshot"));
		return st;
	}
	if (sn.tier < (uint8_t)c->tier) {
		buf_put(why,
			STR("the snapshot is of a weaker isolation than this needs"));
		return ST_EXEC_REFUSED;
	}
	c->tier = (enum exec_tier)sn.tier;
	c->only = sn.server;
	c->snapshot = sn.id;
	return json_object_set_new(r->body, "snapshotId",
				   json_stringn(sn.upstream.p, sn.upstream.n)) == 0
		       ? ST_OK
		       : ST_NOMEM;
}

static enum status
find_servers(struct brain_turn *t, struct create *c)
{
	struct str names[BRAIN_SERVERS];
	size_t n = brain_servers(t->brain, c->tier, names, BRAIN_SERVERS);

	for (size_t i = 0; i < n; i++) {
		if (c->only.n > 0 && !str_eq(names[i], c->only))
			continue;
		/* The image may be another one before they are asked. */
		c->servers[c->servers_n] = arena_copy(&t->arena, names[i]);
		if (c->servers[c->servers_n].p == NULL)
			return ST_NOMEM;
		c->servers_n++;
	}
	return c->servers_n > 0 ? ST_OK : ST_UPSTREAM_UNAVAILABLE;
}

static enum status
set_texts(struct brain_turn *t, struct create *c)
{
	c->shape =
		brain_shape(t->brain, &t->arena, &t->request, c->servers, c->servers_n);
	c->kept = brain_kept_request(t, c->snapshot, c->tier);
	c->metadata = brain_dump(&t->arena, t->request.metadata);
	c->kept_policy = c->policy == NULL ? STR("") : brain_dump(&t->arena, c->policy);
	return c->shape.p == NULL || c->kept.p == NULL || c->metadata.p == NULL ||
			       c->kept_policy.p == NULL
		       ? ST_NOMEM
		       : ST_OK;
}

enum status
create_wish(struct brain_turn *t, struct create *c, struct buf *why)
{
	const struct image *im = t->brain->control->role.image;
	enum status st = request_read(im, t->wish.body, &t->request, why);

	if (st == ST_OK && t->request.policy != NULL)
		st = netpolicy_read(t->request.policy, &c->policy, why);
	if (st == ST_OK)
		st = read_reuse(t, c, why);
	if (st != ST_OK)
		return st;
	brain_judge(t, c->policy, &c->judged);
	c->placing = brain_placing(t, c->policy, c->judged.answer.level);
	c->tier = c->placing.tier;
	st = read_snapshot(t, c, why);
	if (st == ST_OK)
		st = find_servers(t, c);
	return st == ST_OK ? set_texts(t, c) : st;
}

enum status
create_hash(struct str body, uint8_t ret_hash[32])
{
	unsigned n = 32;

	return EVP_Digest(body.p, body.n, ret_hash, &n, EVP_sha256(), NULL) == 1
		       ? ST_OK
		       : ST_NOMEM;
}
