#include "proxy/base/clock.h"
#include "vault/keeper.h"
#include "vault/mint.h"
#include "vault/permit.h"

/* Of one worker: so many leaves a second only to be told a refusal, so many at once. */
enum { REFUSALS_PER_S = 10, REFUSALS_BURST = 20 };

struct wish {
	struct str host, point; /* MINT_LISTENER: the listener's name, not a host */
	enum mint_way way;
};

static enum status
read_wish(const struct ask_msg *m, struct wish *ret_w)
{
	struct wire w = wire_from(m->body);
	struct str host = wire_str(&w);
	uint8_t way = wire_u8(&w);
	struct str point = wire_bytes(&w, MINT_POINT);

	if (wire_end(&w) != ST_OK || way >= MINT_WAYS)
		return ST_BAD_MESSAGE;
	*ret_w = (struct wish){ host, point, (enum mint_way)way };
	return ST_OK;
}

/* A sandbox can name as many hosts as it likes; each leaf is a signature. */
static bool
has_share(struct keeper_line *line)
{
	const uint64_t each = 1000 / REFUSALS_PER_S;
	uint64_t now = clock_mono_ms();

	if (line->refusals_ms < now)
		line->refusals_ms = now;
	if (line->refusals_ms - now > each * (REFUSALS_BURST - 1))
		return false;
	line->refusals_ms += each;
	return true;
}

/* The names are the operator's, not the worker's wish. */
static bool
has_listener(const struct keeper *k, struct str name)
{
	const struct image_listener *l = image_listener_by_name(k->role.image, name);

	return l != NULL && l->names_n > 0;
}

static enum status
judge(const struct keeper *k, struct keeper_line *line, const struct wish *w)
{
	enum status st = vault_is_open(k->vault);

	if (st != ST_OK)
		return st;
	if (w->way != MINT_LISTENER && !mint_is_host(w->host))
		return ST_BAD_HOST;
	if (!role_has_ledger(&k->role))
		return ST_NO_LEDGER;
	if (w->way == MINT_LISTENER)
		return has_listener(k, w->host) ? ST_OK : ST_DENIED;
	if (w->way == MINT_REFUSAL)
		return has_share(line) ? ST_OK : ST_LIMIT_RATE;
	return permit_host(k->role.image, w->host) ? ST_OK : ST_DENIED;
}

static enum status
write_row(struct keeper *k, const struct wish *w, enum status reason)
{
	static const char *const words[] = { "", "to be told a refusal",
					     "for a listener" };
	struct row row = role_row_begin(&k->role, ROW_MINT, NULL);

	row.reason = reason;
	if (w->way == MINT_LISTENER)
		row.listener = w->host;
	else
		row.host = w->host;
	row.detail = str_from(words[w->way]);
	return role_row(&k->role, &row);
}

static enum status
mint_listener(const struct keeper *k, const struct ca *ca, const struct wish *w,
	      struct buf *leaf, const struct mint_time *t)
{
	const struct image *im = k->role.image;
	const struct image_listener *l = image_listener_by_name(im, w->host);
	struct str names[LISTENER_NAMES_MAX];
	const struct mint_names all = { names, l->names_n };

	for (uint32_t i = 0; i < l->names_n; i++)
		names[i] = image_word(im, l->names + i);
	return mint_put_listener(leaf, ca, &all, w->point, t);
}

static enum status
mint(struct keeper *k, const struct wish *w, struct buf *leaf)
{
	struct mint_time t = { .now = vault_now() };
	const struct ca *ca = vault_minter(k->vault, &t.until);

	if (ca == NULL)
		return ST_VAULT_DAMAGED;
	if (w->way == MINT_LISTENER)
		return mint_listener(k, ca, w, leaf, &t);
	return mint_put_leaf(leaf, ca, w->host, w->way, w->point, &t);
}

enum status
keeper_mint(struct keeper *k, struct keeper_line *line, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 }, leaf = { 0 };
	struct wish w;
	struct str der = STR("");
	enum status st = read_wish(m, &w);

	if (st != ST_OK)
		return st;
	buf_init(&leaf, MINT_DER_MAX);
	st = judge(k, line, &w);
	if (st == ST_OK)
		st = mint(k, &w, &leaf);
	if (st == ST_OK)
		st = buf_finish(&leaf, &der);
	enum status written = write_row(k, &w, st);
	st = st == ST_OK ? written : st;
	buf_init(&b, MINT_DER_MAX + 64);
	buf_put_u16(&b, (uint16_t)st);
	buf_put_u8(&b, st == ST_OK ? 1 : 0);
	if (st == ST_OK)
		wire_put_str(&b, der);
	return keeper_answer(line, m, &b, -1);
}
