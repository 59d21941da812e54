#include "conf/describe.h"
#include "proxy/io/ask.h"
#include "proxy/worker/credentials.h"
#include "proxy/worker/turn_in.h"

enum { PAGE_MAX = 256 * 1024 };

static const char text_type[] = "text/plain; charset=utf-8";
static const char json_type[] = "application/json";

bool
page_is_ours(const struct dest *d)
{
	return d->port == 80 && str_eq(dest_name(d), STR("sandgate.internal"));
}

static void
put_index(struct turn *t, struct buf *b)
{
	(void)t;
	buf_put(b,
		STR("This sandbox reaches the network through sandgate " SG_VERSION
		    ".\n\n"
		    "/me           who this sandbox is\n"
		    "/policy       what it may reach\n"
		    "/credentials  what to show where a client insists on a "
		    "credential\n"
		    "/last         what was refused last, and what to do about it\n"));
}

static void
put_member(struct buf *b, const char *key, struct str value)
{
	buf_putf(b, "\"%s\":", key);
	buf_put_json(b, value);
	buf_putc(b, ',');
}

static void
put_me(struct turn *t, struct buf *b)
{
	const struct who *w = t->x.who;

	buf_putc(b, '{');
	put_member(b, "sandbox", w->id);
	put_member(b, "user", w->user);
	put_member(b, "agent", w->agent);
	put_member(b, "session", w->session);
	buf_putf(b, "\"generation\":%llu}\n",
		 (unsigned long long)t->c->w->role.generation);
}

static void
put_policy(struct turn *t, struct buf *b)
{
	describe_mandate(b, t->x.image, t->x.who->may);
	buf_putc(b, '\n');
}

static void
put_credentials(struct turn *t, struct buf *b)
{
	struct limit *l = t->c->limit;

	credentials_put(b, t->x.image,
			l == NULL ? NULL : credentials_of(t->c->w, l, t->x.who));
}

static void
last_arrived(void *ctx, enum status st, struct ask_msg *m)
{
	struct turn *t = ctx;

	t->ask_seq = 0;
	if (st != ST_OK)
		turn_refuse(t, ST_NO_LEDGER);
	else
		turn_answer(t, 200, json_type, m->body);
	turn_settle(t);
}

/* The ledger has the refusals of all ways in, also those of DNS. */
static void
ask_last(struct turn *t)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;
	struct ask_line *ledger = t->c->w->ledger;

	buf_init(&b, 512);
	wire_put_str(&b, t->x.who->id);
	if (ledger == NULL || buf_finish(&b, &body) != ST_OK ||
	    ask_call(ledger, ASK_LAST, ASK_LOAD(body, NULL, 0), last_arrived, t,
		     &t->ask_seq) != ST_OK) {
		turn_refuse(t, ST_NO_LEDGER);
		return;
	}
	turn_to(t, TURN_OPEN);
}

static const struct {
	const char *path, *type;
	void (*put)(struct turn *t, struct buf *b);
} pages[] = {
	{ "/", text_type, put_index },
	{ "/me", json_type, put_me },
	{ "/policy", json_type, put_policy },
	{ "/credentials", json_type, put_credentials },
};

void
page_serve(struct turn *t)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str text;
	enum method m = t->request->method_id;

	if (t->x.who == NULL) {
		turn_refuse(t, ST_UNKNOWN_SANDBOX);
		return;
	}
	if (m != METHOD_GET && m != METHOD_HEAD) {
		turn_refuse(t, ST_METHOD_REFUSED);
		return;
	}
	if (conn_row(t->c, &t->x, ROW_PAGE) != ST_OK) {
		turn_refuse(t, ST_NO_LEDGER);
		return;
	}
	if (str_eq(t->uri.path, STR("/last"))) {
		ask_last(t);
		return;
	}
	buf_init(&b, PAGE_MAX);
	for (size_t i = 0; i < COUNT_OF(pages); i++) {
		if (!str_eq(t->uri.path, str_from(pages[i].path)))
			continue;
		pages[i].put(t, &b);
		if (buf_finish(&b, &text) == ST_OK)
			turn_answer(t, 200, pages[i].type, text);
		else
			turn_refuse(t, ST_TOO_BIG);
		return;
	}
	turn_refuse(t, ST_NOT_FOUND);
}
