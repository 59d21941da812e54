/* admin.roles: who may ask what of the gateway, and what they are called. */
#include <string.h>

#include "conf/build.h"
#include "conf/value.h"

enum { NAME_MAX_HERE = 128 };

struct admin {
	struct image_admin image;
	bool has_token, has_name, has_role;
};

/* As callers of execution listeners may be called: the two are compared. */
static bool
is_name(struct str s)
{
	static const char marks[] = "-_.@+:|=~";

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		if (!is_letter && !(c >= '0' && c <= '9') &&
		    memchr(marks, c, sizeof marks - 1) == NULL)
			return false;
	}
	return s.n > 0 && s.n <= NAME_MAX_HERE;
}

static void
on_name(struct build *b, const struct node *n, void *ctx)
{
	struct admin *a = ctx;
	struct str s;

	if (!value_text(b->report, n, &s))
		return;
	if (!is_name(s)) {
		report_error(b->report, n->at,
			     "a name is 1 to 128 letters, digits and -_.@+:|=~");
		return;
	}
	a->image.name = draft_str(b->draft, s);
	a->has_name = true;
}

static void
on_uid(struct build *b, const struct node *n, void *ctx)
{
	struct admin *a = ctx;
	uint64_t v = 0;

	if (!value_number(b->report, n, 0, UINT32_MAX - 1, &v))
		return;
	a->image.uid = (uint32_t)v;
	a->image.has_uid = 1;
}

static void
on_token(struct build *b, const struct node *n, void *ctx)
{
	struct admin *a = ctx;

	a->has_token = value_sha256(b->report, n, a->image.token_hash);
}

static void
on_role(struct build *b, const struct node *n, void *ctx)
{
	struct admin *a = ctx;
	uint64_t v = 0;

	if (!value_choice(b->report, n, STR("viewer|approver|operator"), &v))
		return;
	a->image.role = (uint8_t)v;
	a->has_role = true;
}

static const struct build_field fields[] = {
	{ "name", on_name },
	{ "uid", on_uid },
	{ "token_sha256", on_token },
	{ "role", on_role },
};

static bool
is_same(const struct image_admin *a, const struct image_admin *b)
{
	if (a->has_uid != b->has_uid)
		return false;
	return a->has_uid ? a->uid == b->uid
			  : memcmp(a->token_hash, b->token_hash, 32) == 0;
}

static bool
is_known(const struct build *b, const struct image_admin *a)
{
	const struct image_admin *all = draft_table(b->draft, IMAGE_ADMINS);

	for (uint32_t i = 0; i < draft_count(b->draft, IMAGE_ADMINS); i++)
		if (is_same(&all[i], a))
			return true;
	return false;
}

static void
on_one(struct build *b, const struct node *n, void *ctx)
{
	struct admin a = { 0 };
	size_t before = b->report->errors;

	(void)ctx;
	if (!build_is_kind(b, n, NODE_MAP))
		return;
	build_fields(b, n, fields, COUNT_OF(fields), &a);
	if (b->report->errors > before)
		return;
	if (!a.has_name || !a.has_role)
		report_error(b->report, n->at, "`%s` is missing",
			     a.has_name ? "role" : "name");
	else if ((a.image.has_uid != 0) == a.has_token)
		report_error(b->report, n->at,
			     "either `uid` or `token_sha256` says who this is");
	else if (is_known(b, &a.image))
		report_error(b->report, n->at,
			     "another role has this uid, or this token");
	else
		(void)draft_add(b->draft, IMAGE_ADMINS, &a.image);
}

void
build_admin_roles(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	if (build_is_kind(b, n, NODE_LIST))
		build_items(b, n, on_one, NULL);
}
