/* exec_private: what the ledger is told. */
#include "proxy/worker/exec_private.h"

/* What was judged stands in one row of the request, the first. */
static struct exec_note *
note_of(struct exec *e, struct exec_note *own, enum row_kind kind)
{
	bool is_judged = e->judged.note.b.len > 0 && !e->is_noted;

	if (!e->is_routed)
		return NULL;
	if (is_judged && (kind != ROW_EXEC_END || !e->is_rowed)) {
		e->is_noted = true;
		return &e->judged.note;
	}
	exec_note_begin(own, str_from(exec_op_name(e->route.op)));
	return own;
}

static struct str
text_of(struct exec *e, struct exec_note *n, enum row_kind kind)
{
	const struct place_answer *a = &e->placed;

	if (n == NULL)
		return (struct str){ "", 0 };
	exec_note_text(n, "server", a->server);
	exec_note_text(n, "tenant", a->tenant);
	exec_note_text(n, "on_behalf_of", a->on_behalf_of);
	exec_note_text(n, "task", a->task);
	exec_note_text(n, "approval", e->approval);
	exec_note_text(n, "by", e->approver);
	if (kind == ROW_EXEC_END)
		exec_watch_note(e, n);
	exec_note_text(n, "request", e->request_id);
	return exec_note_end(n);
}

enum status
exec_row(struct exec *e, enum row_kind kind)
{
	CLEANUP(exec_note_done) struct exec_note own = { 0 };

	return exec_row_of(e, kind, note_of(e, &own, kind));
}

enum status
exec_row_of(struct exec *e, enum row_kind kind, struct exec_note *n)
{
	struct turn *t = e->t;
	struct conn *c = t->c;
	struct worker *w = c->w;
	struct exchange *x = &t->x;
	struct row row = role_row_begin(&w->role, kind, NULL);
	CLEANUP(buf_done) struct buf where = { 0 };

	buf_init(&where, DEST_NAME_MAX + 64);
	row.exec = text_of(e, n, kind);
	if (x->dest != NULL && x->dest->port != 0)
		dest_put(&where, x->dest);
	row.host = str_of(where.p, where.len);
	row.turn = x->id != 0 ? x->id : row.id;
	row.reason = x->reason;
	row.sandbox = e->placed.sandbox.n > 0 ? e->placed.sandbox : e->route.sandbox;
	row.user = e->placed.user;
	row.agent = e->placed.agent;
	row.session = e->placed.session;
	row.listener = conn_listener(c);
	row.address = str_from(x->address);
	row.method = x->method;
	row.path = e->path;
	row.detail = x->detail;
	row.http_status = x->http_status;
	row.bytes_up = x->bytes_up;
	row.bytes_down = x->bytes_down;
	row.duration_ms = loop_now_ms(w->loop) - x->begun_ms;
	x->last_row = row.id;
	enum status st = role_row(&w->role, &row);
	if (st == ST_OK && x->id == 0)
		x->id = row.id;
	return st;
}
