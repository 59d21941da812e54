/* A connector's `headers`: fields added to and stripped from requests and responses. */
#include <string.h>

#include "conf/build_connector.h"
#include "conf/value.h"
#include "proxy/http/head.h"

enum { NAME_MAX_LEN = 128 };

/* The list at hand. */
struct context {
	struct image_connector *image;
	bool is_response;
};

bool
build_field_name(struct build *b, const struct node *n, struct image_ref *ret_name)
{
	struct str s = n->text;
	char low[NAME_MAX_LEN];

	if (!value_text(b->report, n, &s))
		return false;
	if (s.n > sizeof low || !is_http_token(s)) {
		report_error(b->report, n->at, "`%.*s` is not the name of a field",
			     STR_ARG(s));
		return false;
	}
	enum token t = token_folded(s);
	if (t == TOKEN_HOST ||
	    (token_flags(t) & (TOKEN_IS_HOP | TOKEN_IS_FRAMING)) != 0) {
		report_error(b->report, n->at,
			     "`%.*s` frames or routes a message; only the gateway "
			     "writes it",
			     STR_ARG(s));
		return false;
	}
	for (size_t i = 0; i < s.n; i++)
		low[i] = ascii_lower(s.p[i]);
	*ret_name = draft_str(b->draft, str_of(low, s.n));
	return true;
}

static bool
is_value(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if ((s.p[i] < ' ' && s.p[i] != '\t') || s.p[i] > '~')
			return false;
	return str_trim(s).n == s.n;
}

static void
add_field(struct build *b, const struct node *n)
{
	struct node name = { .kind = NODE_SCALAR, .at = n->key_at, .text = n->key };
	struct image_header_line line;
	struct str value;

	if (!build_field_name(b, &name, &line.name) ||
	    !value_text(b->report, n, &value))
		return;
	if (!is_value(value)) {
		report_error(b->report, n->at,
			     "a field's value is printable ASCII, without blanks at "
			     "its ends");
		return;
	}
	line.value = draft_str(b->draft, value);
	(void)draft_add(b->draft, IMAGE_HEADERS, &line);
}

static void
on_add(struct build *b, const struct node *n, void *ctx)
{
	struct context *c = ctx;
	uint32_t first = draft_count(b->draft, IMAGE_HEADERS);

	if (!build_is_kind(b, n, NODE_MAP))
		return;
	for (const struct node *one = n->first; one != NULL; one = one->next)
		add_field(b, one);
	uint32_t count = draft_count(b->draft, IMAGE_HEADERS) - first;
	if (c->is_response) {
		c->image->response_add = first;
		c->image->response_add_n = count;
	} else {
		c->image->request_add = first;
		c->image->request_add_n = count;
	}
}

static void
on_strip_item(struct build *b, const struct node *n, void *ctx)
{
	struct image_ref name;

	(void)ctx;
	if (build_field_name(b, n, &name))
		(void)draft_add(b->draft, IMAGE_WORDS, &name);
}

static void
on_strip(struct build *b, const struct node *n, void *ctx)
{
	struct context *c = ctx;
	uint32_t first = draft_count(b->draft, IMAGE_WORDS);

	build_items(b, n, on_strip_item, NULL);
	uint32_t count = draft_count(b->draft, IMAGE_WORDS) - first;
	if (c->is_response) {
		c->image->response_strip = first;
		c->image->response_strip_n = count;
	} else {
		c->image->request_strip = first;
		c->image->request_strip_n = count;
	}
}

static const struct build_field side_fields[] = {
	{ "add", on_add },
	{ "strip", on_strip },
};

static void
on_request(struct build *b, const struct node *n, void *ctx)
{
	((struct context *)ctx)->is_response = false;
	build_fields(b, n, side_fields, COUNT_OF(side_fields), ctx);
}

static void
on_response(struct build *b, const struct node *n, void *ctx)
{
	((struct context *)ctx)->is_response = true;
	build_fields(b, n, side_fields, COUNT_OF(side_fields), ctx);
}

static const struct build_field fields[] = {
	{ "request", on_request },
	{ "response", on_response },
};

void
build_headers(struct build *b, const struct node *n, struct image_connector *c)
{
	struct context ctx = { .image = c };

	build_fields(b, n, fields, COUNT_OF(fields), &ctx);
}
