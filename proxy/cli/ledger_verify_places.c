/* Places of the chain that were noted outside: in heads.log, or by somebody elsewhere. */
#include "proxy/cli/ledger_walk.h"

/* A place noted outside: does the chain still go through it? */
bool
walk_meets_place(struct walk *w, const struct verify_place *p, const char *where)
{
	struct chain_hash link;

	if (p->seq == 0)
		return true;
	if (p->seq > w->r->tip.seq)
		return walk_misfit(
			w, w->r->tip.seq + 1, p->seq,
			"%s knows rows up to %llu; from %llu on they are missing",
			where, LL(p->seq), LL(w->r->tip.seq + 1));
	(void)sqlite3_reset(w->row);
	sql_u64(w->row, 1, p->seq);
	if (sql_next(w->row) != ST_OK) /* in a dropped segment */
		return true;
	bool ok = chain_from(sql_get_bytes(w->row, 1), &link) &&
		  chain_eq(&link, &p->link);
	(void)sqlite3_reset(w->row);
	return ok ||
	       walk_misfit(w, w->signed_to < p->seq ? w->signed_to + 1 : 1, p->seq,
			   "%s has another link at row %llu", where, LL(p->seq));
}

static bool
line_fits(void *ctx, const struct verify_place *p, bool is_signed)
{
	struct walk *w = ctx;

	(void)is_signed;
	if (p == NULL)
		return walk_misfit(w, 1, w->r->tip.seq,
				   "heads.log has a malformed line");
	/* A gateway that runs notes places that our snapshot can't have yet. */
	return p->seq > w->logged_to || walk_meets_place(w, p, "heads.log");
}

bool
walk_meets_log(struct walk *w, const char *dir)
{
	if (!ledger_places_each(dir, line_fits, w))
		return false;
	if (w->last_head != 0 || !(w->was_signed || w->had_key))
		return true;
	/* The key is written down just before what it has signed first. */
	w->is_awaited = !w->was_signed;
	return walk_misfit(w, 1, w->r->tip.seq, "the signatures are gone");
}
