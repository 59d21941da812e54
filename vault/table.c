#include "vault/table.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "proxy/base/arena.h"
#include "proxy/base/num.h"
#include "proxy/io/sql.h"

/* Versions and grants of all secrets stand in one array each, in the order of their
 * secrets, which hold a slice of it. */
struct table {
	struct arena arena;
	struct table_entry *entries;
	size_t entries_n;
	struct table_version *versions;
	struct table_grant *grants;
};

struct load {
	sqlite3 *db;
	struct table *t;
	EVP_MD_CTX *digest;
};

static int
compare(struct str a, struct str b)
{
	int order = a.n == 0 || b.n == 0 ? 0 : memcmp(a.p, b.p, num_min(a.n, b.n));

	return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static int
compare_key(const struct table_entry *e, struct str tenant, struct str name)
{
	int order = compare(e->tenant, tenant);

	return order != 0 ? order : compare(e->name, name);
}

/* Lengths go in too: no two lists of rows give the same bytes. */
static enum status
feed(struct load *l, struct str s)
{
	uint64_t n = s.n;

	return EVP_DigestUpdate(l->digest, &n, sizeof n) == 1 &&
			       EVP_DigestUpdate(l->digest, s.p, s.n) == 1
		       ? ST_OK
		       : ST_NOMEM;
}

static enum status
feed_number(struct load *l, uint64_t v)
{
	return EVP_DigestUpdate(l->digest, &v, sizeof v) == 1 ? ST_OK : ST_NOMEM;
}

static enum status
take_text(struct load *l, sqlite3_stmt *q, int column, size_t max, struct str *ret_s)
{
	struct str s = sql_get_bytes(q, column);

	if (s.n > max)
		return ST_VAULT_DAMAGED;
	struct str copy = arena_copy(&l->t->arena, s);
	if (copy.p == NULL && s.n > 0)
		return ST_NOMEM;
	enum status st = feed(l, copy);
	if (st == ST_OK)
		*ret_s = copy;
	return st;
}

static enum status
take_number(struct load *l, sqlite3_stmt *q, int column, uint64_t max, uint64_t *ret_v)
{
	uint64_t v = sql_get_u64(q, column);

	if (v > max)
		return ST_VAULT_DAMAGED;
	enum status st = feed_number(l, v);
	if (st == ST_OK)
		*ret_v = v;
	return st;
}

/* How many rows a table of the file has, and zeroed records for them. */
static enum status
allocate(struct load *l, const char *query, size_t each, void **ret_records,
	 size_t *ret_n)
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(l->db, query, &q);

	if (st == ST_OK)
		st = sql_next(q);
	if (st != ST_OK)
		return st == ST_END ? ST_VAULT_DAMAGED : st;
	uint64_t n = sql_get_u64(q, 0);
	if (n > TABLE_MAX)
		return ST_TOO_BIG;
	void *records = arena_alloc(&l->t->arena, (size_t)(n + 1) * each);
	if (records == NULL)
		return ST_NOMEM;
	st = feed_number(l, n);
	if (st != ST_OK)
		return st;
	*ret_records = records;
	*ret_n = (size_t)n;
	return ST_OK;
}

static enum status
load_entry(struct load *l, sqlite3_stmt *q, size_t i)
{
	struct table_entry *e = &l->t->entries[i];
	uint64_t kind = 0;
	enum status st = take_text(l, q, 0, STR_NAME_MAX, &e->tenant);

	if (st == ST_OK)
		st = take_text(l, q, 1, VAULT_NAME_MAX, &e->name);
	if (st == ST_OK)
		st = take_number(l, q, 2, TABLE_KINDS - 1, &kind);
	e->kind = (uint8_t)kind;
	if (st == ST_OK && i > 0 && compare_key(e - 1, e->tenant, e->name) >= 0)
		st = ST_VAULT_DAMAGED;
	return st;
}

/* The secret that a version or grant belongs to: at or after *at, since all are sorted
 * alike. */
static enum status
find_owner(struct load *l, sqlite3_stmt *q, size_t *at)
{
	struct str tenant = sql_get_bytes(q, 0), name = sql_get_bytes(q, 1);

	while (*at < l->t->entries_n &&
	       compare_key(&l->t->entries[*at], tenant, name) < 0)
		++*at;
	if (*at == l->t->entries_n ||
	    compare_key(&l->t->entries[*at], tenant, name) != 0)
		return ST_VAULT_DAMAGED;
	return feed_number(l, *at);
}

static enum status
load_version(struct load *l, sqlite3_stmt *q, struct table_version *v)
{
	uint64_t number = 0;
	enum status st = take_number(l, q, 2, UINT32_MAX, &number);

	if (st == ST_OK)
		st = take_number(l, q, 3, INT64_MAX, &v->created);
	if (st == ST_OK)
		st = take_number(l, q, 4, INT64_MAX, &v->expires);
	if (st == ST_OK)
		st = take_number(l, q, 5, INT64_MAX, &v->retires);
	if (st == ST_OK)
		st = take_text(l, q, 6, SEAL_WRAPPED, &v->envelope.wrapped);
	if (st == ST_OK)
		st = take_text(l, q, 7, TABLE_SEALED_MAX, &v->envelope.sealed);
	v->number = (uint32_t)number;
	if (st == ST_OK && (number == 0 || v->envelope.sealed.n <= SEAL_MORE))
		st = ST_VAULT_DAMAGED;
	return st;
}

static enum status
add_version(struct load *l, sqlite3_stmt *q, size_t i, size_t *at)
{
	struct table_version *v = &l->t->versions[i];
	enum status st = find_owner(l, q, at);

	if (st == ST_OK)
		st = load_version(l, q, v);
	if (st != ST_OK)
		return st;
	struct table_entry *e = &l->t->entries[*at];
	if (e->versions_n > 0 && v->number <= (v - 1)->number)
		return ST_VAULT_DAMAGED;
	if (e->versions_n++ == 0)
		e->versions = v;
	return ST_OK;
}

static enum status
add_grant(struct load *l, sqlite3_stmt *q, size_t i, size_t *at)
{
	struct table_grant *g = &l->t->grants[i];
	enum status st = find_owner(l, q, at);

	if (st == ST_OK)
		st = take_text(l, q, 2, STR_NAME_MAX, &g->connector);
	if (st == ST_OK)
		st = take_text(l, q, 3, STR_NAME_MAX, &g->user);
	if (st != ST_OK)
		return st;
	struct table_entry *e = &l->t->entries[*at];
	if (e->grants_n++ == 0)
		e->grants = g;
	return ST_OK;
}

static enum status
add_entry(struct load *l, sqlite3_stmt *q, size_t i, size_t *at)
{
	*at = i;
	return load_entry(l, q, i);
}

/* Every row of a query, of which there must be n. */
static enum status
load_rows(struct load *l, const char *query, size_t n,
	  enum status (*add)(struct load *l, sqlite3_stmt *q, size_t i, size_t *at))
{
	CLEANUP(sql_done) sqlite3_stmt *q = NULL;
	enum status st = sql_prepare(l->db, query, &q);
	size_t i = 0, at = 0;

	while (st == ST_OK) {
		st = sql_next(q);
		if (st == ST_OK)
			st = i == n ? ST_VAULT_DAMAGED : add(l, q, i++, &at);
	}
	if (st != ST_END)
		return st;
	return i == n ? ST_OK : ST_VAULT_DAMAGED;
}

static enum status
load_all(struct load *l)
{
	struct table *t = l->t;
	size_t versions_n = 0, grants_n = 0;
	void *entries = NULL, *versions = NULL, *grants = NULL;
	enum status st = allocate(l, "SELECT count(*) FROM secret", sizeof *t->entries,
				  &entries, &t->entries_n);

	if (st == ST_OK)
		st = allocate(l, "SELECT count(*) FROM version", sizeof *t->versions,
			      &versions, &versions_n);
	if (st == ST_OK)
		st = allocate(l, "SELECT count(*) FROM permit", sizeof *t->grants,
			      &grants, &grants_n);
	if (st != ST_OK)
		return st;
	t->entries = entries;
	t->versions = versions;
	t->grants = grants;
	st = load_rows(l, "SELECT tenant, name, kind FROM secret ORDER BY tenant, name",
		       t->entries_n, add_entry);
	if (st == ST_OK)
		st = load_rows(
			l,
			"SELECT tenant, name, version, created, expires, retires, "
			"wrapped, sealed FROM version ORDER BY tenant, name, version",
			versions_n, add_version);
	if (st == ST_OK)
		st = load_rows(l,
			       "SELECT tenant, name, connector, user FROM permit ORDER "
			       "BY tenant, name, connector, user",
			       grants_n, add_grant);
	for (size_t i = 0; i < t->entries_n && st == ST_OK; i++)
		st = t->entries[i].versions_n > 0 ? ST_OK : ST_VAULT_DAMAGED;
	return st;
}

static enum status
finish_mac(struct load *l, const struct seal_key *key, struct str head,
	   struct seal_key *ret_mac)
{
	struct seal_key rows;
	unsigned n = 0;
	enum status st = feed(l, head);

	if (st != ST_OK)
		return st;
	if (EVP_DigestFinal_ex(l->digest, rows.b, &n) != 1 || n != sizeof rows.b)
		return ST_NOMEM;
	return seal_mac(key, str_of(rows.b, sizeof rows.b), ret_mac);
}

enum status
table_load(sqlite3 *db, const struct seal_key *key, struct str head,
	   struct seal_key *ret_mac, struct table **ret_t)
{
	enum { MEMORY_MAX = 1 << 30 };
	struct load l = { .db = db, .t = calloc(1, sizeof *l.t) };

	if (l.t == NULL)
		return ST_NOMEM;
	arena_init(&l.t->arena, MEMORY_MAX);
	l.digest = EVP_MD_CTX_new();
	enum status st =
		l.digest != NULL && EVP_DigestInit_ex(l.digest, EVP_sha256(), NULL) == 1
			? load_all(&l)
			: ST_NOMEM;
	if (st == ST_OK)
		st = finish_mac(&l, key, head, ret_mac);
	EVP_MD_CTX_free(l.digest);
	if (st != ST_OK) {
		table_free(l.t);
		return st;
	}
	*ret_t = l.t;
	return ST_OK;
}

void
table_free(struct table *t)
{
	if (t == NULL)
		return;
	arena_done(&t->arena);
	free(t);
}

size_t
table_size(const struct table *t)
{
	return t->entries_n;
}

const struct table_entry *
table_at(const struct table *t, size_t i)
{
	need(i < t->entries_n);
	return &t->entries[i];
}

size_t
table_after(const struct table *t, struct str tenant, struct str name)
{
	size_t low = 0, high = t->entries_n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (compare_key(&t->entries[mid], tenant, name) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct table_entry *
table_find(const struct table *t, struct str tenant, struct str name)
{
	size_t i = table_after(t, tenant, name);

	if (i == 0 || compare_key(&t->entries[i - 1], tenant, name) != 0)
		return NULL;
	return &t->entries[i - 1];
}

const struct table_version *
table_newest(const struct table_entry *e)
{
	return &e->versions[e->versions_n - 1];
}

const struct table_version *
table_version(const struct table_entry *e, uint32_t number, uint64_t now)
{
	for (size_t i = 0; i < e->versions_n; i++) {
		const struct table_version *v = &e->versions[i];
		if (v->number == number)
			return v->retires == 0 || v->retires > now ? v : NULL;
	}
	return NULL;
}

bool
table_is_granted(const struct table_entry *e, struct str connector, struct str user)
{
	for (size_t i = 0; i < e->grants_n; i++) {
		const struct table_grant *g = &e->grants[i];
		if (str_eq(g->connector, connector) &&
		    (g->user.n == 0 || str_eq(g->user, user)))
			return true;
	}
	return false;
}

struct envelope_place
table_place(const struct table_entry *e, const struct table_version *v)
{
	return (struct envelope_place){ e->tenant, e->name, e->kind, v->number };
}
