/* resolver: whom to ask, and names that are answered from the file. */
#include "conf/build.h"
#include "conf/host.h"
#include "conf/value.h"

enum { DNS_PORT = 53 };

static void
on_server(struct build *b, const struct node *n, void *ctx)
{
	struct image_server s = { 0 };

	(void)ctx;
	if (value_addr_port(b->report, n, DNS_PORT, &s.addr, &s.port))
		(void)draft_add(b->draft, IMAGE_RESOLVERS, &s);
}

static void
on_address(struct build *b, const struct node *n, void *ctx)
{
	struct image_name *name = ctx;
	struct addr a = { 0 };

	if (!value_addr(b->report, n, &a))
		return;
	(void)draft_add(b->draft, IMAGE_ADDRS, &a);
	name->addrs_n++;
}

static void
on_host(struct build *b, const struct node *n)
{
	struct image_name name = { .addrs = draft_count(b->draft, IMAGE_ADDRS) };
	const struct host_wish wish = { .may_be_single = true };
	struct host_pattern h;
	struct node key = { .kind = NODE_SCALAR, .at = n->key_at, .text = n->key };

	build_items(b, n, on_address, &name);
	if (!host_parse(b->arena, b->report, &key, &wish, &h))
		return;
	if (h.is_wild) {
		report_error(b->report, n->key_at, "resolver.hosts takes exact names");
		return;
	}
	name.name = draft_str(b->draft, h.name);
	(void)draft_add(b->draft, IMAGE_NAMES, &name);
}

void
build_resolver(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	if (str_eq(n->key, STR("servers"))) {
		build_items(b, n, on_server, NULL);
		if (n->n > image_record_max(IMAGE_RESOLVERS))
			report_error(b->report, n->at, "more than %zu servers",
				     image_record_max(IMAGE_RESOLVERS));
		return;
	}
	if (!build_is_kind(b, n, NODE_MAP))
		return;
	for (const struct node *host = n->first; host != NULL; host = host->next)
		on_host(b, host);
}

static void
on_no_proxy(struct build *b, const struct node *n, void *ctx)
{
	struct buf *list = ctx;
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (list->len > 0)
		buf_putc(list, ',');
	buf_put(list, s);
}

void
build_upstream_proxy(struct build *b, const struct node *n, void *ctx)
{
	CLEANUP(buf_done) struct buf list = { 0 };
	struct str view;

	(void)ctx;
	buf_init(&list, option_row(OPT_NO_PROXY)->most);
	build_items(b, n, on_no_proxy, &list);
	if (buf_finish(&list, &view) != ST_OK) {
		report_error(b->report, n->at, "longer than %llu bytes in all",
			     (unsigned long long)option_row(OPT_NO_PROXY)->most);
		return;
	}
	struct image_option *o = draft_table(b->draft, IMAGE_OPTIONS);
	o[OPT_NO_PROXY].text = draft_str(b->draft, view);
}
