#include "conf/build_system.h"

#include "conf/auth_text.h"
#include "conf/rule_part.h"
#include "conf/value.h"
#include "proxy/http/dest.h"

enum { HTTPS = 443 };

static void
gather_one(struct build *b, const struct node *n, void *ctx)
{
	const enum connector_use *use = ctx;

	if (!build_is_kind(b, n, NODE_MAP))
		return;
	const struct node *name = node_get(n, STR("name"));
	if (name == NULL) {
		report_error(b->report, n->at, "`name` is missing");
		return;
	}
	struct connector_source *s = build_connector_add(b, name, n);
	if (s == NULL)
		return;
	s->use = *use;
	s->is_listed = true; /* by us */
}

void
build_systems_gather(struct build *b, const struct node *n, enum connector_use use,
		     size_t most)
{
	if (n->kind == NODE_LIST && n->n > most)
		report_error(b->report, n->at, "more than %zu in `%.*s`", most,
			     STR_ARG(n->key));
	else
		build_items(b, n, gather_one, &use);
}

static const char *
group_word(enum connector_use use)
{
	return use == USE_STORE ? "source/" : "server/";
}

static struct image_ref
group_of(struct build *b, const struct connector_source *source)
{
	CLEANUP(buf_done) struct buf text = { 0 };
	struct str s = STR("");

	buf_init(&text, SYSTEM_NAME_MAX + 8);
	buf_put(&text, str_from(group_word(source->use)));
	buf_put(&text, str_head(source->name, SYSTEM_NAME_MAX));
	if (buf_finish(&text, &s) != ST_OK)
		s = STR("system"); /* out of memory; the draft will be too */
	return draft_str(b->draft, s);
}

void
build_system_begin(struct build *b, struct build_system *s)
{
	const struct image_ports https = { HTTPS, HTTPS };
	const struct connector_source *source = s->source;

	s->source->image = (struct image_connector){
		.name = draft_str(b->draft, source->name),
		.group = group_of(b, source),
		.file = draft_str(b->draft, source->node->at.file),
		.line = source->node->at.line,
		.column = source->node->at.column,
		.ports = draft_add(b->draft, IMAGE_PORTS, &https),
		.ports_n = 1,
		.upstream_http = UPSTREAM_HTTP_AUTO,
		.is_listed = true,
	};
}

void
build_system_end(struct build *b, struct build_system *s)
{
	struct place at = s->source->node->at;
	const char *word = build_connector_word(s->source->use);

	s->source->image.addresses = s->rule.rule.addresses;
	s->source->image.addresses_n = s->rule.rule.addresses_n;
	if (s->url == NULL)
		report_error(b->report, at, "%s must say its `url`", word);
	if (s->source->name.n > SYSTEM_NAME_MAX)
		report_error(b->report, at, "the name of %s has %d bytes at most", word,
			     SYSTEM_NAME_MAX);
}

void
build_system_url(struct build *b, const struct node *n, void *ctx)
{
	struct build_system *s = ctx;
	struct dest d;

	s->url = n;
	if (build_upstream(b, n, "url", &s->source->image, &d) && !dest_is_name(&d))
		s->addr = d.addr;
}

void
build_system_addresses(struct build *b, const struct node *n, void *ctx)
{
	rule_part_addresses(b, n, &((struct build_system *)ctx)->rule);
}

void
build_system_secret(struct build *b, const struct node *n, void *ctx)
{
	struct build_system *c = ctx;
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (auth_is_shared_secret(s))
		c->source->image.auth.secret = draft_str(b->draft, s);
	else
		report_error(b->report, n->at,
			     "`%.*s` is not a name in the vault, without {user}",
			     STR_ARG(s));
}
