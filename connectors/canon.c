#include "connectors/canon.h"

#include <string.h>

#include "connectors/pair.h"

size_t
canon_bound(const struct canon *r)
{
	/* Every octet may become a triplet; '=' and line ends come on top. */
	size_t n = 256 + 3 * (r->path.n + r->query.n) + r->query.n + r->method.n +
		   r->payload.n;

	for (size_t i = 0; i < r->fields_n; i++)
		n += 2 * r->fields[i].name.n + r->fields[i].value.n + 4;
	return n;
}

static void
put_decoded_path(struct cred *out, struct str path)
{
	while (path.n > 0) {
		char octet = pair_octet(&path, false);
		cred_put_percent(out, str_of(&octet, 1), STR("/"));
	}
}

/* Segments are taken away from the end of what was written so far. */
static void
put_plain_path(struct cred *out, struct str path)
{
	size_t start = cred_mark(out);
	struct str rest = path;

	while (rest.p != NULL) {
		struct str segment = str_cut(&rest, '/');
		bool is_up = str_eq(segment, STR(".."));

		if (is_up)
			while (out->len > start && out->p[--out->len] != '/')
				;
		if (!is_up && segment.n > 0 && !str_eq(segment, STR("."))) {
			cred_putc(out, '/');
			cred_put_percent(out, segment, STR(""));
		}
		/* What ended in a slash, or in a dot segment, still does. */
		if (rest.p == NULL &&
		    (segment.n == 0 || is_up || str_eq(segment, STR("."))))
			cred_putc(out, '/');
	}
}

void
canon_put_path(struct cred *out, struct str path, bool is_s3)
{
	if (path.n == 0)
		cred_putc(out, '/');
	else if (is_s3)
		put_decoded_path(out, path);
	else
		put_plain_path(out, path);
}

struct param { /* both encoded already */
	struct str name, value;
};

static int
compare(struct str a, struct str b)
{
	int d = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

	if (d != 0)
		return d;
	return a.n < b.n ? -1 : a.n > b.n;
}

static bool
param_is_before(const struct param *a, const struct param *b)
{
	int d = compare(a->name, b->name);

	return d != 0 ? d < 0 : compare(a->value, b->value) < 0;
}

static void
put_encoded(struct cred *out, struct str raw)
{
	while (raw.n > 0) {
		char octet = pair_octet(&raw, true);
		cred_put_percent(out, str_of(&octet, 1), STR(""));
	}
}

/* Insertion: requests have few parameters, and those few are nearly sorted. */
static void
insert_param(struct param *params, size_t n, struct param p)
{
	while (n > 0 && param_is_before(&p, &params[n - 1])) {
		params[n] = params[n - 1];
		n--;
	}
	params[n] = p;
}

void
canon_put_query(struct cred *out, struct str query)
{
	CLEANUP(cred_done) struct cred space = { 0 };
	struct param params[CANON_PARAMS_MAX];
	struct pair pair;
	size_t n = 0;

	cred_init(&space, 3 * query.n);
	while (pair_next(&query, &pair)) {
		size_t at = cred_mark(&space), value_at;

		if (n == COUNT_OF(params)) {
			out->st = ST_TOO_BIG;
			return;
		}
		put_encoded(&space, pair.name);
		value_at = cred_mark(&space);
		put_encoded(&space, pair.value);
		if (space.st != ST_OK) {
			out->st = space.st;
			return;
		}
		insert_param(params, n++,
			     (struct param){ str_of(space.p + at, value_at - at),
					     cred_since(&space, value_at) });
	}
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			cred_putc(out, '&');
		cred_put(out, params[i].name);
		cred_putc(out, '=');
		cred_put(out, params[i].value);
	}
}

static int
compare_folded(struct str a, struct str b)
{
	for (size_t i = 0; i < a.n && i < b.n; i++) {
		char x = ascii_lower(a.p[i]), y = ascii_lower(b.p[i]);
		if (x != y)
			return (unsigned char)x < (unsigned char)y ? -1 : 1;
	}
	return a.n < b.n ? -1 : a.n > b.n;
}

/* Stable, so that fields of one name keep their order.  0: too many. */
static size_t
sort_fields(const struct canon *r, const struct field *sorted[CANON_FIELDS_MAX])
{
	if (r->fields_n > CANON_FIELDS_MAX)
		return 0;
	for (size_t i = 0; i < r->fields_n; i++) {
		size_t at = i;
		while (at > 0 &&
		       compare_folded(r->fields[i].name, sorted[at - 1]->name) < 0) {
			sorted[at] = sorted[at - 1];
			at--;
		}
		sorted[at] = &r->fields[i];
	}
	return r->fields_n;
}

static void
put_lower(struct cred *out, struct str name)
{
	for (size_t i = 0; i < name.n; i++)
		cred_putc(out, ascii_lower(name.p[i]));
}

static void
put_value(struct cred *out, struct str value)
{
	value = str_trim(value);
	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] != ' ' || value.p[i - 1] != ' ')
			cred_putc(out, value.p[i]);
}

static void
put_fields(struct cred *out, const struct canon *r)
{
	const struct field *sorted[CANON_FIELDS_MAX];
	size_t n = sort_fields(r, sorted);

	if (n != r->fields_n)
		out->st = ST_HEAD_TOO_LARGE;
	for (size_t i = 0; i < n; i++) {
		bool is_more = i > 0 && str_ieq(sorted[i - 1]->name, sorted[i]->name);

		if (i > 0)
			cred_putc(out, is_more ? ',' : '\n');
		if (!is_more) {
			put_lower(out, sorted[i]->name);
			cred_putc(out, ':');
		}
		put_value(out, sorted[i]->value);
	}
	if (n > 0)
		cred_putc(out, '\n');
}

void
canon_put_names(struct cred *out, const struct canon *r)
{
	const struct field *sorted[CANON_FIELDS_MAX];
	size_t n = sort_fields(r, sorted);

	for (size_t i = 0; i < n; i++) {
		if (i > 0 && str_ieq(sorted[i - 1]->name, sorted[i]->name))
			continue;
		if (i > 0)
			cred_putc(out, ';');
		put_lower(out, sorted[i]->name);
	}
}

void
canon_put(struct cred *out, const struct canon *r)
{
	cred_put(out, r->method);
	cred_putc(out, '\n');
	canon_put_path(out, r->path, r->is_s3);
	cred_putc(out, '\n');
	canon_put_query(out, r->query);
	cred_putc(out, '\n');
	put_fields(out, r);
	cred_putc(out, '\n');
	canon_put_names(out, r);
	cred_putc(out, '\n');
	cred_put(out, r->payload);
}
