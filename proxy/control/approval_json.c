/* Approvals and grants as JSON, for operators and for a webhook. */
#include "conf/risk.h"
#include "proxy/base/enc.h"
#include "proxy/control/approval_in.h"

static void
put_text(struct buf *b, const char *key, struct str value)
{
	buf_putf(b, ",\"%s\":", key);
	buf_put_json(b, value);
}

static void
put_number(struct buf *b, const char *key, uint64_t value)
{
	buf_putf(b, ",\"%s\":%llu", key, (unsigned long long)value);
}

static void
put_hash(struct buf *b, const uint8_t hash[32])
{
	buf_put(b, STR(",\"sha256\":\""));
	enc_put_hex(b, str_of((const char *)hash, 32));
	buf_putc(b, '"');
}

static void
put_wish(struct buf *b, const struct approval_wish *w, size_t text_max)
{
	put_text(b, "tenant", w->tenant);
	put_text(b, "user", w->user);
	put_text(b, "agent", w->agent);
	put_text(b, "on_behalf_of", w->on_behalf_of);
	put_text(b, "session", w->session);
	put_text(b, "sandbox", w->sandbox);
	put_text(b, "what", w->what);
	if (w->level < RISK_LEVELS)
		put_text(b, "level",
			 str_from(risk_level_word((enum risk_level)w->level)));
	put_text(b, "why", w->why);
	put_text(b, "text", str_head(w->text, text_max));
	if (w->text.n > text_max)
		buf_put(b, STR(",\"text_is_cut\":true"));
	put_hash(b, w->hash);
}

void
approval_put_json(struct buf *b, const struct approval_row *r, size_t text_max)
{
	buf_putf(b, "{\"id\":%llu", (unsigned long long)r->id);
	put_text(b, "state", str_from(approval_state_word(r->state)));
	put_wish(b, &r->wish, text_max);
	put_number(b, "created", r->asked_s);
	put_number(b, "expires", r->deadline_s);
	if (r->state != APPROVAL_PENDING) {
		put_number(b, "ended", r->ended_s);
		put_text(b, "by", r->by);
		put_text(b, "note", r->note);
	}
	if (r->state == APPROVAL_ALLOWED)
		put_text(b, "scope", str_from(approval_scope_word(r->scope)));
	buf_putc(b, '}');
}

void
approval_put_grant_json(struct buf *b, const struct approval_grant *g)
{
	buf_putf(b, "{\"id\":%llu", (unsigned long long)g->id);
	put_number(b, "approval", g->approval);
	put_text(b, "tenant", g->tenant);
	put_text(b, "user", g->user);
	put_text(b, "on_behalf_of", g->on_behalf_of);
	put_text(b, "session", g->session);
	put_text(b, "what", g->what);
	put_text(b, "text", g->text);
	put_text(b, "scope", str_from(approval_scope_word(g->scope)));
	put_text(b, "by", g->by);
	put_hash(b, g->hash);
	put_number(b, "created", g->created_s);
	put_number(b, "expires", g->expires_s);
	buf_putc(b, '}');
}
