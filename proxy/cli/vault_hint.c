#include "proxy/cli/vault_hint.h"

#include <stdio.h>

#include "proxy/cli/config_read.h"
#include "proxy/cli/where.h"

enum { WORDS_MAX = 1 << 20 };

struct search {
	const struct image *im;
	struct str tenant, name;             /* of the secret, or of a connector */
	const struct image_connector *found; /* names it */
	bool is_token;                       /* of a sandbox: nobody is granted it */
	struct buf words;                    /* all that there are, for the nearest */
};

/* {user} is any part. */
static bool
covers(struct str secret, struct str name)
{
	while (secret.p != NULL && name.p != NULL) {
		struct str part = str_cut(&secret, '/');
		struct str other = str_cut(&name, '/');

		if (!str_eq(part, other) && !str_eq(part, STR("{user}")))
			return false;
	}
	return secret.p == NULL && name.p == NULL;
}

/* One of its own tenant counts before others. */
static void
see_secret(struct search *s, const struct image_connector *c, struct image_ref ref)
{
	struct str secret = image_str(s->im, ref);

	if (secret.n == 0)
		return;
	buf_putc(&s->words, '|');
	buf_put(&s->words, secret);
	if (covers(secret, s->name) &&
	    (s->found == NULL || str_eq(image_str(s->im, c->tenant), s->tenant)))
		s->found = c;
}

static void
look(struct search *s)
{
	size_t n;
	const struct image_connector *c = image_connectors(s->im, &n);

	for (size_t i = 0; i < n; i++) {
		see_secret(s, &c[i], c[i].auth.secret);
		see_secret(s, &c[i], c[i].auth.client_secret);
		see_secret(s, &c[i], c[i].auth.session_token);
		see_secret(s, &c[i], c[i].auth.certificate);
	}
	const struct image_sandbox *box = image_sandboxes(s->im, &n);
	for (size_t i = 0; i < n; i++)
		s->is_token |= str_eq(image_str(s->im, box[i].token), s->name);
}

static void
say_found(const struct search *s)
{
	struct str connector = image_str(s->im, s->found->name);
	struct str tenant = image_str(s->im, s->found->tenant);

	if (!str_eq(tenant, s->tenant))
		(void)fprintf(
			stderr,
			"sandgate: nobody was granted it: connector `%.*s`, which "
			"names it, %s%.*s\n",
			STR_ARG(connector),
			tenant.n > 0 ? "needs it with --tenant "
				     : "is no tenant's: leave out --tenant ",
			STR_ARG(tenant.n > 0 ? tenant : s->tenant));
	else
		(void)fprintf(stderr,
			      "sandgate: nobody was granted it: the gateway that runs "
			      "does not have connector `%.*s` yet, or with another "
			      "secret; `sandgate vault grant %.*s --connector %.*s`, "
			      "then `sandgate reload`\n",
			      STR_ARG(connector), STR_ARG(s->name), STR_ARG(connector));
}

static void
say_nearest(const struct search *s)
{
	struct str near = report_nearest(s->name, str_of(s->words.p, s->words.len));

	(void)fprintf(stderr,
		      "sandgate: nobody was granted it: no connector or server of the "
		      "configuration names `%.*s`",
		      STR_ARG(s->name));
	if (near.p != NULL)
		(void)fprintf(stderr, "; is `%.*s` meant?\n", STR_ARG(near));
	else
		(void)fprintf(stderr,
			      "; once one does, `sandgate vault grant %.*s` lets it\n",
			      STR_ARG(s->name));
}

static void
hint_secret(struct search *s)
{
	look(s);
	if (s->found != NULL)
		say_found(s);
	else if (!s->is_token)
		say_nearest(s);
}

static void
hint_connector(struct search *s)
{
	size_t n;
	const struct image_connector *c = image_connectors(s->im, &n);

	for (size_t i = 0; i < n; i++) {
		struct str name = image_str(s->im, c[i].name);

		if (str_eq(name, s->name))
			return;
		buf_putc(&s->words, '|');
		buf_put(&s->words, name);
	}
	struct str near = report_nearest(s->name, str_of(s->words.p, s->words.len));
	(void)fprintf(stderr,
		      "sandgate: granted, but the configuration has no connector or "
		      "server `%.*s`",
		      STR_ARG(s->name));
	if (near.p != NULL)
		(void)fprintf(stderr, "; is `%.*s` meant?", STR_ARG(near));
	(void)fputc('\n', stderr);
}

static void
with_config(const char *config, struct search *s, void (*fn)(struct search *s))
{
	CLEANUP(buf_done) struct buf path = { 0 };
	struct config c;

	buf_init(&path, 4096);
	if (where_config(config, &path) != ST_OK)
		return;
	if (config_read(&c, buf_cstr(&path)) == ST_OK) {
		s->im = c.image;
		buf_init(&s->words, WORDS_MAX);
		fn(s);
		buf_done(&s->words);
	}
	config_done(&c);
}

void
vault_hint_unused(const char *config, struct str tenant, struct str name)
{
	struct search s = { .tenant = tenant, .name = name };

	with_config(config, &s, hint_secret);
}

void
vault_hint_connector(const char *config, struct str connector)
{
	struct search s = { .name = connector };

	with_config(config, &s, hint_connector);
}
