#include "proxy/base/shape.h"

#include <string.h>

#include "proxy/base/num.h"

static const char digits[] = "0123456789";
static const char lower[] = "abcdefghijklmnopqrstuvwxyz";
static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
static const char any[] =
	"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* How services begin their secrets, so that people and scanners know them. */
static const char *const beginnings[] = {
	"ghp_",   "gho_",      "ghu_",    "ghs_",     "ghr_", "github_pat_", "glpat-",
	"glrt-",  "gldt-",     "sk-ant-", "sk-proj-", "sk-",  "xoxb-",       "xoxp-",
	"xoxa-",  "xapp-",     "AKIA",    "ASIA",     "AIza", "ya29.",       "npm_",
	"pypi-",  "dckr_pat_", "hvs.",    "eyJ",      "SG.",  "sk_live_",    "rk_live_",
	"ATATT3", "dop_v1_",   "shpat_",
};

enum { FEW = 4, ENOUGH = 12 };

/* A stream of random numbers; a block of it is one hash. */
struct stream {
	const struct shape_owner *o;
	uint32_t block, attempt;
	uint64_t left;
};

static uint64_t
next_block(struct stream *s)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str label;

	/* Names are at most STR_NAME_MAX long. */
	buf_init(&b, 4096);
	buf_put_u32(&b, s->attempt);
	buf_put_u32(&b, s->block++);
	buf_put_u32(&b, (uint32_t)s->o->sandbox.n);
	buf_put(&b, str_head(s->o->sandbox, 1024));
	buf_put(&b, str_head(s->o->connector, 1024));
	label = str_of(b.p, b.st == ST_OK ? b.len : 0);
	return sip_hash(s->o->key, label);
}

/* One of set; a hash gives five, so that a remainder is as good as even. */
static char
draw(struct stream *s, const char *set)
{
	size_t n = strlen(set);

	if (s->left < UINT64_MAX >> 48)
		s->left = next_block(s);
	char c = set[s->left % n];
	s->left /= n;
	return c;
}

bool
shape_is_good(struct str shape)
{
	size_t stars = 0;

	for (size_t i = 0; i < shape.n; i++) {
		if (shape.p[i] <= ' ' || shape.p[i] > '~')
			return false;
		stars += shape.p[i] == '*';
	}
	return stars >= SHAPE_STARS && shape.n <= SHAPE_MAX;
}

void
shape_fill(const struct shape_owner *o, struct str shape, char *out)
{
	struct stream s = { .o = o };

	for (size_t i = 0; i < shape.n; i++) {
		out[i] = shape.p[i];
		if (out[i] == '*')
			out[i] = draw(&s, any);
	}
}

/* NULL: stays as it is. */
static const char *
set_of(char c)
{
	if (ascii_is_digit(c))
		return digits;
	if (c >= 'a' && c <= 'z')
		return lower;
	return c >= 'A' && c <= 'Z' ? upper : NULL;
}

static size_t
kept_of(struct str secret)
{
	size_t kept = secret.n >= 24 ? 3 : secret.n >= 12 ? 1 : 0;

	for (size_t i = 0; i < COUNT_OF(beginnings); i++) {
		struct str known = str_from(beginnings[i]);

		if (str_starts(secret, known) && secret.n - known.n >= ENOUGH)
			return known.n;
	}
	return kept;
}

static size_t
drawn(struct str part)
{
	size_t n = 0;

	for (size_t i = 0; i < part.n; i++)
		n += set_of(part.p[i]) != NULL;
	return n;
}

void
shape_like(const struct shape_owner *o, struct str secret, char *out)
{
	struct stream s = { .o = o };
	size_t kept = kept_of(secret);
	/* What is made of other characters would be its own likeness. */
	bool is_odd = drawn(str_skip(secret, kept)) < FEW;

	do {
		s.left = 0;
		s.block = 0;
		s.attempt++;
		for (size_t i = 0; i < secret.n; i++) {
			const char *set = is_odd ? lower : set_of(secret.p[i]);

			out[i] = secret.p[i];
			if (is_odd || (i >= kept && set != NULL))
				out[i] = draw(&s, set);
		}
	} while (s.attempt < 8 && str_eq(str_of(out, secret.n), secret));
}
