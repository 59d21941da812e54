#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "vault/keeper.h"
#include "vault/permit.h"
#include "vault/value.h"

enum { DETAIL_MAX = 512 };

/* What LEASE and ROTATE begin with, and who it is for. */
struct wanted {
	struct permit_wish wish;
	struct permit permit;
	/* instead of an entry of the vault: */
	const struct secret *value;
	uint32_t value_version;
	uint64_t value_expires;
	uint32_t version; /* given out or made; 0: none */
};

/* sock: of a sandbox, or -1.  A socket of nobody is no reason to call it the connector's
 * own business. */
static enum status
identify(struct keeper *k, int sock, struct permit_wish *w)
{
	if (sock < 0)
		return ST_OK;
	w->who = who_by_socket(k->role.who, sock);
	return w->who == NULL ? ST_UNKNOWN_SANDBOX : ST_OK;
}

/* A file or variable is everybody's business of no tenant, sealed or not. */
static enum status
find_source(const struct keeper *k, struct wanted *a)
{
	const struct source *s =
		sources_find(&k->sources, str_of(a->permit.name, a->permit.name_n));

	if (image_str(k->role.image, a->permit.connector->tenant).n > 0)
		return ST_SECRET_DENIED;
	if (s == NULL)
		return ST_NO_SECRET;
	a->value = &s->value;
	a->value_version = s->version;
	return ST_OK;
}

/* What OpenBao keeps is for the tenant that its source is for. */
static enum status
find_supply(const struct keeper *k, struct wanted *a)
{
	const struct image *im = k->role.image;
	struct str name = str_of(a->permit.name, a->permit.name_n);
	const struct image_store_item *item = image_store_item_by_name(im, name);
	const struct supplied *s = supplies_find(&k->supplies, name);
	size_t n;

	if (item == NULL || s == NULL)
		return ST_NO_SECRET;
	const struct image_store *store = &image_stores(im, &n)[item->store];
	if (!str_eq(image_str(im, image_connectors(im, &n)[store->connector].tenant),
		    image_str(im, a->permit.connector->tenant)))
		return ST_SECRET_DENIED;
	enum status st = supply_is_good(s);
	if (st != ST_OK)
		return st;
	a->value = &s->value;
	a->value_version = s->version;
	a->value_expires = s->expires_s;
	return ST_OK;
}

static enum status
judge(struct keeper *k, struct keeper_line *line, int sock, struct wanted *a)
{
	const struct image *im = k->role.image;
	enum status st = role_has_ledger(&k->role) ? ST_OK : ST_NO_LEDGER;

	a->wish.group = str_from(line->group);
	if (st == ST_OK)
		st = identify(k, sock, &a->wish);
	if (st == ST_OK)
		st = permit_judge(im, &a->wish, &a->permit);
	if (st != ST_OK)
		return st;
	need(a->permit.connector != NULL);
	if (sources_is_name(a->wish.secret))
		return find_source(k, a);
	if (image_is_store_name(im, a->wish.secret))
		return find_supply(k, a);
	st = vault_is_open(k->vault);
	return st == ST_OK
		       ? permit_grant(im, vault_table(k->vault), &a->wish, &a->permit)
		       : st;
}

/* The names are the asker's: str_is_name() or not, the ledger escapes and caps them. */
static enum status
write_row(struct keeper *k, enum row_kind kind, const struct wanted *a,
	  enum status reason)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct row row = role_row_begin(&k->role, kind, a->wish.who);

	buf_init(&b, DETAIL_MAX);
	if (kind == ROW_VAULT)
		buf_put(&b, STR("rotate "));
	if (a->permit.name_n > 0)
		buf_put(&b, str_of(a->permit.name, a->permit.name_n));
	else
		buf_put(&b, str_head(a->wish.secret, 128));
	if (a->version != 0)
		buf_putf(&b, " version %u", a->version);
	buf_putf(&b, " %s ", kind == ROW_VAULT ? "by" : "to");
	buf_put(&b, str_head(a->wish.connector, STR_NAME_MAX));
	row.reason = reason;
	row.detail = str_of(b.p, b.len);
	return role_row(&k->role, &row);
}

static size_t
length(const struct wanted *a)
{
	return a->value != NULL
		       ? secret_len(a->value)
		       : table_newest(a->permit.entry)->envelope.sealed.n - SEAL_MORE;
}

static enum status
put_value(struct keeper *k, const struct wanted *a, unsigned char *to)
{
	if (a->value != NULL) {
		memcpy(to, secret_bytes(a->value), length(a));
		return ST_OK;
	}
	const struct table_version *v = table_newest(a->permit.entry);
	const struct envelope_place place = table_place(a->permit.entry, v);
	return envelope_open(vault_master(k->vault), &place, &v->envelope, to);
}

/* Only this one asker will hold it; an ordinary one can't be changed on the way. */
static enum status
hand_over(struct keeper *k, const struct wanted *a, int *ret_fd)
{
	size_t n = length(a);
	bool is_plain = false;
	int fd = secret_memfd(n, &is_plain);

	if (fd < 0)
		return ST_NO_FILES;
	void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	enum status st = at == MAP_FAILED ? ST_NOMEM : put_value(k, a, at);
	if (at != MAP_FAILED)
		(void)munmap(at, n);
	if (st == ST_OK && is_plain &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) != 0)
		st = ST_SYSTEM;
	if (st != ST_OK) {
		(void)close(fd);
		return st;
	}
	*ret_fd = fd;
	return ST_OK;
}

static enum status
lease(struct keeper *k, struct wanted *a, struct buf *b, int *ret_fd)
{
	uint64_t expires = 0;
	enum status st = ST_OK;

	if (a->value != NULL) {
		a->version = a->value_version;
		expires = a->value_expires;
	} else {
		const struct table_version *v = table_newest(a->permit.entry);
		expires = v->expires;
		a->version = v->number;
	}
	if (expires != 0 && expires <= vault_now())
		st = ST_SECRET_EXPIRED;
	if (st == ST_OK)
		st = hand_over(k, a, ret_fd);
	if (st == ST_OK)
		st = write_row(k, ROW_LEASE, a, ST_OK);
	if (st != ST_OK)
		return st;
	buf_put_u16(b, ST_OK);
	buf_put_u32(b, a->version);
	buf_put_u64(b, expires);
	buf_put_u32(b, (uint32_t)length(a));
	return b->st;
}

enum status
keeper_lease(struct keeper *k, struct keeper_line *line, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	struct wanted a = { .wish = { .connector = wire_str(&w), .secret = STR("") } };
	int fd = -1;

	a.wish.secret = wire_str(&w);
	if (wire_end(&w) != ST_OK)
		return ST_BAD_MESSAGE;
	buf_init(&b, 64);
	enum status st = m->lost_fds
				 ? ST_NO_FILES
				 : judge(k, line, m->fds_n > 0 ? m->fds[0] : -1, &a);
	if (st == ST_OK)
		st = lease(k, &a, &b, &fd);
	if (st != ST_OK) {
		(void)!write_row(k, ROW_LEASE, &a, st);
		buf_clear(&b);
		buf_put_u16(&b, (uint16_t)st);
		buf_put_u32(&b, 0);
		buf_put_u64(&b, 0);
		buf_put_u32(&b, 0);
	}
	enum status sent = keeper_answer(line, m, &b, st == ST_OK ? fd : -1);
	if (fd >= 0)
		(void)close(fd);
	return sent;
}

/* The one secret that a connector may replace: a refresh token that its server has
 * exchanged for another one. */
static bool
may_rotate(const struct image *im, const struct wanted *a)
{
	const struct image_connector *c = a->permit.connector;

	need(c != NULL);
	const struct image_auth *auth = &c->auth;
	return auth->kind == AUTH_OAUTH2_REFRESH &&
	       str_eq(image_str(im, auth->secret), a->wish.secret);
}

/* The server takes the one before no longer, so neither do we. */
static enum status
replace(struct keeper *k, struct wanted *a, uint32_t base, const struct secret *value)
{
	const struct table_entry *e = a->permit.entry;
	struct table_version next = { .number = table_newest(e)->number + 1,
				      .created = vault_now() };
	enum status st = ST_OK;

	if (table_newest(e)->number != base)
		return ST_CONFLICT;
	if (!value_is_good(value, (enum vault_kind)e->kind))
		return ST_BAD_SECRET;
	struct safe *safe = vault_begin(k->vault, &st);
	if (safe == NULL)
		return st;
	st = safe_add_version(safe, e, &next,
			      str_of(secret_bytes(value), secret_len(value)));
	if (st == ST_OK)
		st = safe_retire(safe, e, next.number, 0);
	st = vault_end(k->vault, st);
	if (st == ST_OK)
		a->version = next.number;
	return st;
}

static enum status
rotate(struct keeper *k, struct keeper_line *line, struct ask_msg *m, struct wanted *a,
       uint32_t base)
{
	CLEANUP(secret_done) struct secret value = { 0 };
	enum status st;

	if (m->lost_fds)
		return ST_NO_FILES;
	st = judge(k, line, m->fds_n == 2 ? m->fds[0] : -1, a);
	if (st == ST_OK && (a->value != NULL || !may_rotate(k->role.image, a)))
		st = ST_SECRET_DENIED;
	if (st == ST_OK)
		st = value_read(m->fds[m->fds_n - 1], VAULT_VALUE_MAX, &value);
	return st == ST_OK ? replace(k, a, base, &value) : st;
}

enum status
keeper_rotate(struct keeper *k, struct keeper_line *line, struct ask_msg *m)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct wire w = wire_from(m->body);
	struct wanted a = { .wish = { .connector = wire_str(&w), .secret = STR("") } };

	a.wish.secret = wire_str(&w);
	uint32_t base = wire_u32(&w);
	if (wire_end(&w) != ST_OK || (m->fds_n == 0 && !m->lost_fds))
		return ST_BAD_MESSAGE;
	enum status st = rotate(k, line, m, &a, base);
	enum status written = write_row(k, ROW_VAULT, &a, st);
	if (written != ST_OK)
		log_error(&k->role.log, "a row of a rotation: %s",
			  status_code(written));
	buf_init(&b, 16);
	buf_put_u16(&b, (uint16_t)st);
	buf_put_u32(&b, st == ST_OK ? a.version : 0);
	return keeper_answer(line, m, &b, -1);
}
