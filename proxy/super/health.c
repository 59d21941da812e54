#include <stdio.h>

#include "proxy/super/super.h"

static void
put_roles(struct buf *b, const struct super *s)
{
	static const char *const states[] = { "down", "starting", "serving" };

	for (size_t i = 1; i < s->slots_n; i++) {
		const struct slot *t = &s->slots[i];
		if (t->is_idle)
			continue;
		buf_putf(b,
			 "%s{\"name\":\"%s\",\"slot\":%u,\"pid\":%d,\"state\":\"%s\","
			 "\"restarts\":%u,\"generation\":%llu,\"no_new_privs\":%s,"
			 "\"seccomp\":%s,\"landlock\":%d}",
			 i > 1 ? "," : "", t->name, t->index, (int)t->pid,
			 states[t->state], t->restarts,
			 (unsigned long long)t->generation,
			 t->jail.no_new_privs ? "true" : "false",
			 t->jail.seccomp ? "true" : "false", t->jail.landlock_abi);
	}
}

/* Of its certificate; none: no TLS. */
static void
put_names(struct buf *b, const struct image *im, const struct image_listener *l)
{
	for (uint32_t i = 0; i < l->names_n; i++) {
		buf_put(b, i > 0 ? STR(",") : STR(""));
		buf_put_json(b, image_word(im, l->names + i));
	}
}

static void
put_listeners(struct buf *b, const struct super *s)
{
	static const char *const kinds[] = { "transparent", "proxy", "dns",
					     "opensandbox" };
	size_t n;
	const struct image_listener *in = image_listeners(s->policy.image, &n);

	for (size_t i = 0; i < n && i < s->listeners.n; i++) {
		buf_putf(b, "%s{\"name\":", i > 0 ? "," : "");
		buf_put_json(b, image_str(s->policy.image, in[i].name));
		buf_putf(b, ",\"kind\":\"%s\",\"address\":\"", kinds[in[i].kind & 3]);
		addr_put(b, &in[i].addr);
		buf_putf(b, "\",\"port\":%u,\"sockets\":%zu,\"tls\":[", in[i].port,
			 s->listeners.of[i].fds_n);
		put_names(b, s->policy.image, &in[i]);
		buf_put(b, STR("]}"));
	}
}

void
health_heard(struct slot *control, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct super *s = control->super;
	struct str body;
	enum status st;

	buf_init(&b, ASK_BODY_MAX - 64);
	buf_putf(
		&b,
		"{\"generation\":%llu,\"state\":\"%s\",\"started_us\":%llu,\"roles\":[",
		(unsigned long long)s->policy.generation,
		s->drain != NULL ? "draining"
		: s->is_ready    ? "serving"
				 : "starting",
		(unsigned long long)s->started_us);
	put_roles(&b, s);
	buf_put(&b, STR("],\"listeners\":["));
	put_listeners(&b, s);
	buf_putf(&b, "],\"attached\":%zu}", s->attached_n);
	st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_answer(control->line, ASK_HEALTH, m->seq, body, NULL, 0);
	if (st != ST_OK)
		log_error(&s->log, "health: %s", status_code(st));
}
