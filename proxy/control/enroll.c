#include "proxy/control/enroll.h"

#include <stdlib.h>
#include <string.h>

#include "conf/policy.h"

enum { BODY_MAX = 20480, FIELD_MAX = 200 };

struct waiting { /* for super's answer */
	struct control *control;
	enroll_fn fn; /* NULL: nobody waits any more */
	void *ctx;
	uint32_t handle; /* HANDLE_NONE: super gives it */
};

static void
told(struct waiting *w, enum status st, uint32_t handle)
{
	if (w->fn != NULL)
		w->fn(w->ctx, st, handle);
	free(w);
}

static enum status
read_status(struct wire *w)
{
	uint16_t st = wire_u16(w);

	return w->is_bad || st >= ST_COUNT ? ST_BAD_MESSAGE : (enum status)st;
}

static void
on_status(void *ctx, enum status st, struct str body)
{
	struct waiting *waiting = ctx;
	struct wire w = wire_from(body);

	told(waiting, st == ST_OK ? read_status(&w) : st, waiting->handle);
}

static enum status
ask(struct control *c, enum ask a, const struct buf *b, super_fn fn,
    const struct waiting *wish)
{
	struct str body = STR("");
	struct waiting *w = malloc(sizeof *w);
	enum status st = w == NULL ? ST_NOMEM : buf_finish(b, &body);

	if (st == ST_OK) {
		*w = *wish;
		st = ask_super(c, a, ASK_LOAD(body, NULL, 0), fn, w);
	}
	if (st != ST_OK)
		free(w);
	return st == ST_AGAIN ? ST_LIMIT_RATE : st;
}

static enum status
detach(struct control *c, uint32_t handle, enroll_fn fn, void *ctx)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct waiting w = { c, fn, ctx, handle };

	buf_init(&b, 16);
	buf_put_u32(&b, handle);
	return ask(c, ASK_DETACH, &b, on_status, &w);
}

/* Super takes whatever has the form.  That an address is another sandbox's is seen by each
 * role, and by this one as by the others: who would be known by nothing is taken back. */
static enum status
check_known(struct control *c, uint32_t handle)
{
	const struct who *w = who_by_handle(c->role.who, handle);

	if (w != NULL && w->sources_n > 0)
		return ST_OK;
	enum status st = detach(c, handle, NULL, NULL);
	if (st != ST_OK)
		log_error(&c->role.log, "a sandbox of no address stays: %s",
			  status_code(st));
	return ST_CONFLICT;
}

static void
on_enrolled(void *ctx, enum status st, struct str body)
{
	struct waiting *waiting = ctx;
	struct wire w = wire_from(body);

	if (st == ST_OK)
		st = read_status(&w);
	uint32_t handle = wire_u32(&w);
	if (st == ST_OK)
		st = wire_end(&w);
	if (st == ST_OK)
		st = check_known(waiting->control, handle);
	told(waiting, st, handle);
}

/* As the kernel will tell it. */
static bool
take_source(const struct addr *a, struct addr *ret_a)
{
	static const struct addr mapped = { 6, { [10] = 0xff, [11] = 0xff } };
	const struct cidr prefix = { mapped, 96 };
	struct addr bare = cidr_has(&prefix, a) ? addr_unwrap(a) : *a;
	enum addr_class class = addr_classify(&bare);

	if ((bare.family != 4 && bare.family != 6) || class == ADDR_MULTICAST ||
	    class == ADDR_RESERVED || class == ADDR_METADATA)
		return false;
	*ret_a = bare;
	return true;
}

static enum status
check_sources(struct control *c, const struct enroll_wish *w,
	      const struct who *is_there, struct addr *ret_sources)
{
	if (w->sources_n == 0 || w->sources_n > ENROLL_SOURCES)
		return ST_BAD_PARAMETER;
	for (size_t i = 0; i < w->sources_n; i++) {
		if (!take_source(&w->sources[i], &ret_sources[i]))
			return ST_BAD_PARAMETER;
		const struct who *other = who_by_addr(c->role.who, &ret_sources[i]);
		if (other != NULL && other != is_there)
			return ST_CONFLICT;
	}
	return ST_OK;
}

static enum status
check_names(const struct control *c, const struct enroll_wish *w)
{
	if (!str_is_name(w->id) || w->user.n > FIELD_MAX || w->agent.n > FIELD_MAX ||
	    w->session.n > FIELD_MAX)
		return ST_BAD_PARAMETER;
	if (w->narrow != NULL && w->narrow->n > NARROW_TEXT_MAX)
		return ST_TOO_BIG;
	return image_policy_by_name(c->role.image, w->policy) == POLICY_NONE
		       ? ST_NO_POLICY
		       : ST_OK;
}

static bool
is_enrolled(const struct who *w)
{
	return w->handle >= HANDLE_ATTACHED && w->netns_cookie == 0;
}

const struct who *
enroll_find(struct control *c, struct str id)
{
	const struct who *w = who_by_id(c->role.who, id);

	return w != NULL && is_enrolled(w) ? w : NULL;
}

static void
put_narrow(struct buf *b, const struct str *narrow)
{
	buf_put_u8(b, narrow != NULL);
	wire_put_str(b, narrow == NULL ? STR("") : *narrow);
}

static void
put_wish(struct buf *b, const struct enroll_wish *w, const struct addr *sources)
{
	const struct str names[] = { w->id, w->user, w->agent, w->session, w->policy };

	buf_put_u32(b, HANDLE_NONE);
	buf_put_u8(b, 1);
	buf_put_u64(b, 0); /* no namespace */
	for (size_t i = 0; i < COUNT_OF(names); i++)
		wire_put_str(b, names[i]);
	buf_put_u8(b, w->trusts_ca);
	buf_put_u8(b, (uint8_t)w->sources_n);
	for (size_t i = 0; i < w->sources_n; i++)
		wire_put_str(b, str_of(sources[i].b, sources[i].family == 4 ? 4 : 16));
	put_narrow(b, w->narrow);
}

enum status
enroll_begin(struct control *c, const struct enroll_wish *w, enroll_fn fn, void *ctx)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct waiting waiting = { c, fn, ctx, HANDLE_NONE };
	const struct who *there = who_by_id(c->role.who, w->id);
	struct addr sources[ENROLL_SOURCES];
	enum status st = check_names(c, w);

	if (st == ST_OK && there != NULL && !is_enrolled(there))
		st = ST_CONFLICT;
	if (st == ST_OK)
		st = check_sources(c, w, there, sources);
	if (st != ST_OK)
		return st;
	buf_init(&b, BODY_MAX);
	put_wish(&b, w, sources);
	return ask(c, ASK_ENROLL, &b, on_enrolled, &waiting);
}

enum status
enroll_narrow(struct control *c, struct str id, const struct str *narrow, enroll_fn fn,
	      void *ctx)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct who *there = enroll_find(c, id);

	if (there == NULL)
		return ST_NOT_FOUND;
	if (narrow != NULL && narrow->n > NARROW_TEXT_MAX)
		return ST_TOO_BIG;
	const struct waiting waiting = { c, fn, ctx, there->handle };
	buf_init(&b, BODY_MAX);
	buf_put_u32(&b, there->handle);
	put_narrow(&b, narrow);
	return ask(c, ASK_NARROW, &b, on_status, &waiting);
}

enum status
enroll_end(struct control *c, struct str id, enroll_fn fn, void *ctx)
{
	const struct who *there = enroll_find(c, id);

	return there == NULL ? ST_NOT_FOUND : detach(c, there->handle, fn, ctx);
}

void
enroll_forget(struct control *c, const void *ctx)
{
	for (size_t i = 0; i < CONTROL_CALLS; i++) {
		const struct super_call *call = &c->calls[i];
		if (call->seq == 0 ||
		    (call->fn != on_status && call->fn != on_enrolled))
			continue;
		struct waiting *w = call->ctx;
		if (w->ctx == ctx)
			w->fn = NULL;
	}
}
