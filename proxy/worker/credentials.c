#include "proxy/worker/credentials.h"

#include "conf/placeholder.h"
#include "proxy/base/buf.h"

const struct placeholders *
credentials_of(struct worker *w, struct limit *l, const struct who *who)
{
	struct role_self *r = &w->role;
	struct placeholders *made = NULL;

	if (l->placeholders != NULL && l->placeholders_for == r->generation &&
	    l->placeholders_revision == who->revision)
		return l->placeholders;
	if (placeholders_new(r->image, &r->shapes, who, &made) != ST_OK)
		return NULL;
	placeholders_free(l->placeholders);
	l->placeholders = made;
	l->placeholders_for = r->generation;
	l->placeholders_revision = who->revision;
	return made;
}

static void
put_member(struct buf *b, const char *key, struct str value)
{
	buf_putf(b, "\"%s\":", key);
	if (value.n > 0)
		buf_put_json(b, value);
	else
		buf_put(b, STR("null"));
}

static void
put_one(struct buf *b, const struct image *im, const struct placeholder *p)
{
	size_t n;
	const struct image_connector *c = image_connectors(im, &n);

	c += p->connector;
	buf_putc(b, '{');
	put_member(b, "connector", image_str(im, c->name));
	buf_putc(b, ',');
	put_member(b, "env", image_str(im, c->auth.env));
	buf_putc(b, ',');
	put_member(b, "placeholder", p->text);
	buf_putc(b, '}');
}

void
credentials_put(struct buf *b, const struct image *im, const struct placeholders *p)
{
	const struct placeholder *all;
	size_t n = 0;

	all = p != NULL ? placeholders_all(p, &n) : NULL;
	buf_put(b, STR("{\"placeholders\":["));
	for (size_t i = 0; i < n; i++) {
		buf_put(b, i > 0 ? STR(",") : STR(""));
		put_one(b, im, &all[i]);
	}
	buf_put(b, STR("]}\n"));
}
