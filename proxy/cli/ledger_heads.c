#include "proxy/cli/ledger_heads.h"

#include <stdio.h>
#include <string.h>

#include "proxy/base/enc.h"
#include "proxy/base/num.h"

enum { LINE_MAX_BYTES = 512, PATH_MAX_BYTES = 4200 };

static FILE *
open_file(const char *dir, const char *name)
{
	char path[PATH_MAX_BYTES];

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	return fopen(path, "re");
}

void
ledger_keys_load(struct ledger_keys *k, const char *dir)
{
	FILE *f = open_file(dir, "keeper.pub");

	k->n = 0;
	if (f == NULL)
		return;
	k->n = fread(k->text, 1, sizeof k->text, f);
	(void)fclose(f);
}

bool
ledger_keys_has(const struct ledger_keys *k, struct str key)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str want, rest = str_of(k->text, k->n);

	buf_init(&b, (size_t)2 * CHAIN_KEY);
	enc_put_hex(&b, key);
	if (buf_finish(&b, &want) != ST_OK)
		return false;
	while (rest.n > 0)
		if (str_eq(str_trim(str_cut(&rest, '\n')), want))
			return true;
	return false;
}

static bool
hear_line(struct str line, ledger_place_fn fn, void *ctx)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct verify_place p;
	struct str link;

	buf_init(&b, CHAIN_HASH);
	if (!num_parse_strict(str_cut(&line, ' '), INT64_MAX, &p.seq))
		return fn(ctx, NULL, false);
	(void)str_cut(&line, ' ');
	if (!enc_get_hex(&b, str_cut(&line, ' ')) || buf_finish(&b, &link) != ST_OK ||
	    !chain_from(link, &p.link))
		return fn(ctx, NULL, false);
	return fn(ctx, &p, !str_eq(str_cut(&line, ' '), STR("-")));
}

bool
ledger_places_each(const char *dir, ledger_place_fn fn, void *ctx)
{
	static const char *const names[] = { "heads.log.1", "heads.log" };
	char line[LINE_MAX_BYTES];
	bool ok = true;

	for (size_t i = 0; ok && i < COUNT_OF(names); i++) {
		FILE *f = open_file(dir, names[i]);
		if (f == NULL)
			continue;
		while (ok && fgets(line, sizeof line, f) != NULL)
			ok = hear_line(str_of(line, strcspn(line, "\n")), fn, ctx);
		(void)fclose(f);
	}
	return ok;
}
