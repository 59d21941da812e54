#include "proxy/base/redact.h"

#include "proxy/base/num.h"
#include "proxy/base/redact_find.h"

enum {
	BASIC_LEAST = 8,
	BEARER_LEAST = 6,
	AKIA = 16,
	HEAD_LEAST = 13, /* the shortest secret that is known by its head */
	PASSES = 8,      /* two are enough for what people write */
	TEXT_ROOM = 16,  /* what stands for one octet is shorter */
};

struct redactor {
	struct str s;
	struct buf *b;
	const struct redact_keep *keep;
	size_t copied; /* up to here the text, or what stands for it, is in b */
	char quote;    /* that is open */
	size_t no_at;  /* up to here no URL's path has an '@' */
};

static const struct str names[] = {
#define REDACT_NAME(part) { part, sizeof(part) - 1 },
#include "proxy/base/redact_names.def"
#undef REDACT_NAME
};

static const struct head {
	struct str text;
	size_t least;
	bool alone;
} heads[] = {
#define REDACT_HEAD(head, least, alone) { { head, sizeof(head) - 1 }, least, alone },
#include "proxy/base/redact_heads.def"
#undef REDACT_HEAD
};

/* What opens and shuts on the way from one place to another. */
static void
follow_quotes(struct redactor *r, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		char c = find_at(r->s, i);
		bool is_mark =
			find_is_quote(c) && (i == 0 || find_at(r->s, i - 1) != '\\');
		if (c == '\n' || (is_mark && r->quote == c))
			r->quote = '\0';
		else if (is_mark && r->quote == '\0')
			r->quote = c;
	}
}

static bool
is_kept(const struct redactor *r, struct str value)
{
	for (size_t i = 0; r->keep != NULL && i < r->keep->n; i++)
		if (str_eq(r->keep->texts[i], value))
			return true;
	return false;
}

static void
take_out(struct redactor *r, struct span v)
{
	if (v.to <= num_max(v.from, r->copied) ||
	    is_kept(r, find_part(r->s, v.from, v.to)))
		return;
	/* What touches the one before goes with it. */
	if (r->copied == 0 || v.from > r->copied) {
		buf_put(r->b, find_part(r->s, r->copied, v.from));
		buf_put(r->b, STR(REDACTED));
	}
	r->copied = v.to;
}

static bool
begins(struct str name, struct str word)
{
	size_t k = 0;

	while (k < word.n && k < name.n &&
	       (ascii_lower(name.p[k]) == word.p[k] ||
		(name.p[k] == '-' && word.p[k] == '_')))
		k++;
	return k == word.n;
}

/* Does the name hold this part? */
static bool
holds(struct str name, struct str word)
{
	for (size_t i = 0; i + word.n <= name.n; i++)
		if (begins(str_skip(name, i), word))
			return true;
	return false;
}

static bool
is_secret_name(struct str name)
{
	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (holds(name, names[i]))
			return true;
	return false;
}

/* The last letters before i may belong to an escape: \nsk-... */
static bool
is_alone(const struct redactor *r, size_t i)
{
	return i == 0 || !find_is_alnum(find_at(r->s, i - 1)) ||
	       (i > 1 && find_at(r->s, i - 2) == '\\');
}

static bool
is_key_id(struct str s)
{
	for (size_t i = 0; i < AKIA; i++)
		if (i >= s.n || !find_is_upper(s.p[i]))
			return false;
	return true;
}

/* Does a secret begin at i, within a name that ends at `end` and has its last dot at
 * `dot`? */
static bool
is_head(const struct redactor *r, size_t i, size_t end, size_t dot)
{
	struct str s = find_part(r->s, i, end);

	if (s.n < HEAD_LEAST)
		return false;
	if (str_starts(s, STR("eyJ")))
		return i + 3 < dot;
	for (size_t k = 0; k < COUNT_OF(heads); k++) {
		const struct head *h = &heads[k];
		if (s.p[0] != h->text.p[0] || !str_starts(s, h->text) ||
		    s.n - h->text.n < h->least || (h->alone && !is_alone(r, i)))
			continue;
		if (str_ends(h->text, STR("IA")) && !is_key_id(str_skip(s, 4)))
			continue;
		return true;
	}
	return false;
}

/* All heads are of characters of names, and so is what follows them. */
static void
take_heads(struct redactor *r, size_t from, size_t end)
{
	size_t dot = end;

	if (end - from < HEAD_LEAST)
		return;
	while (dot > from && find_at(r->s, dot) != '.')
		dot--;
	for (size_t i = from; i < end; i++) {
		if (is_head(r, i, end, dot)) {
			take_out(r, (struct span){ i, end });
			return;
		}
	}
}

/* $NAME or ${NAME} */
static bool
is_variable(struct str s)
{
	if (!str_starts(s, STR("$")))
		return false;
	s = str_skip(s, 1);
	if (str_starts(s, STR("{")) && str_ends(s, STR("}")))
		s = str_head(str_skip(s, 1), s.n - 2);
	for (size_t i = 0; i < s.n; i++)
		if (!find_is_upper(s.p[i]) && s.p[i] != '_')
			return false;
	return s.n > 0;
}

/* $(cat key) and `cat key`, or --token-file /run/token: that tells where it is, not what it is. */
static bool
is_place(struct str name, struct str value)
{
	if (str_starts(value, STR("$(")) || str_starts(value, STR("`")))
		return true;
	return (str_ends(name, STR("file")) || str_ends(name, STR("path"))) &&
	       value.n > 0 && find_is_one_of(value.p[0], "/.~");
}

static size_t take_name(struct redactor *r, size_t from, size_t end);

/* A value was taken; if it ends with a name itself, so is the value of that. */
static size_t
go_on(struct redactor *r, struct span v)
{
	size_t end = v.to;

	while (end > v.from && find_is_one_of(find_at(r->s, end - 1), ":=>\"'`\\])"))
		end--;
	size_t from = end;
	while (from > v.from && find_is_name(find_at(r->s, from - 1)))
		from--;
	return from < end ? num_max(v.to, take_name(r, from, end)) : v.to;
}

/* The value that the name has at `from`. */
static size_t
take_value(struct redactor *r, struct span name, size_t from)
{
	struct str word = find_part(r->s, name.from, name.to);
	bool is_line =
		str_has(find_part(r->s, name.to, from), ':') &&
		(holds(word, STR("authorization")) || holds(word, STR("cookie")));

	from = find_skip_scheme(r->s, from);
	follow_quotes(r, num_max(name.to, r->copied), from);
	struct span v = find_value(r->s, from, r->quote, is_line);
	struct str text = find_part(r->s, v.from, v.to);
	if (text.n == 0 || is_place(word, text))
		return v.from;
	if (is_variable(text))
		return v.to;
	take_out(r, v);
	return go_on(r, v);
}

static bool
has_quote(struct str s)
{
	return str_has(s, '"') || str_has(s, '\'') || str_has(s, '`');
}

/* user:password, not UID:GID */
static size_t
take_login(struct redactor *r, size_t end, size_t from)
{
	uint64_t n;

	follow_quotes(r, num_max(end, r->copied), from);
	struct span v = find_value(r->s, from, r->quote, false);
	while (v.from < v.to && find_at(r->s, v.from) != ':')
		v.from++;
	bool is_id = num_parse_u64(find_part(r->s, from, v.from), UINT64_MAX, &n);
	v.from += v.from < v.to;
	/* Half of a pair of quotes is not left alone. */
	if (v.from < v.to && has_quote(find_part(r->s, from, v.to)))
		v.from = from;
	struct str password = find_part(r->s, v.from, v.to);
	if (!is_variable(password) &&
	    !(is_id && num_parse_u64(password, UINT64_MAX, &n)))
		take_out(r, v);
	return v.to;
}

/* Small letters alone are a word of some sentence. */
static bool
is_like_base64(struct str s)
{
	for (size_t i = 1; i < s.n; i++)
		if (s.p[i] < 'a' || s.p[i] > 'z')
			return s.n >= BASIC_LEAST;
	return false;
}

static size_t
take_scheme(struct redactor *r, struct str word, size_t end)
{
	struct span v = { end, end };

	while (find_is_blank(find_at(r->s, v.from)))
		v.from++;
	for (v.to = v.from; find_is_name(find_at(r->s, v.to)) ||
			    find_is_one_of(find_at(r->s, v.to), "~+/=");)
		v.to++;
	bool is_bearer = str_ieq(word, STR("bearer")) && v.to - v.from >= BEARER_LEAST;
	bool is_basic = str_ieq(word, STR("basic")) &&
			is_like_base64(find_part(r->s, v.from, v.to));
	if (v.from == end || (!is_bearer && !is_basic))
		return end;
	take_out(r, v);
	return go_on(r, v);
}

static bool
is_login_flag(struct str name)
{
	return str_eq(name, STR("-u")) || str_eq(name, STR("--user")) ||
	       str_eq(name, STR("--proxy-user"));
}

static size_t
take_name(struct redactor *r, size_t from, size_t end)
{
	struct str name = find_part(r->s, from, end);
	size_t value = find_value_start(r->s, from, end);

	if (r->copied < end)
		take_heads(r, from, end);
	if (value > end && is_secret_name(name))
		return take_value(r, (struct span){ from, end }, value);
	if (value > end && is_login_flag(name))
		return take_login(r, end, value);
	return take_scheme(r, name, end);
}

/* Where the '@' behind a URL's userinfo is; `from` if it has none. */
static size_t
find_login(struct redactor *r, size_t from)
{
	size_t end = from, login = from, colon = 0;

	for (;
	     end < r->s.n && !find_is_one_of(find_at(r->s, end), "/?# \t\r\n\"'`<>\\");
	     end++) {
		if (find_at(r->s, end) == '@')
			login = end;
		if (find_at(r->s, end) == ':')
			colon = end + 1;
	}
	/* A port is a number; all else is a password with a slash that should have been
	 * escaped. */
	if (login > from || colon == 0 || find_at(r->s, from) == '[' ||
	    from < r->no_at || ascii_is_digit(find_at(r->s, colon)) || colon == end)
		return login;
	for (; end < r->s.n && !find_is_one_of(find_at(r->s, end), " \t\r\n\"'`<>\\");
	     end++)
		if (find_at(r->s, end) == '@')
			login = end;
	if (login == from)
		r->no_at = end;
	return login;
}

static size_t
take_url(struct redactor *r, size_t from)
{
	struct span v = { from, find_login(r, from) };
	struct str login = find_part(r->s, v.from, v.to), password = login;

	(void)str_cut(&password, ':');
	if (!str_eq(login, STR("git")) && !is_variable(password) &&
	    !is_kept(r, password))
		take_out(r, v);
	return v.to;
}

static size_t
step(struct redactor *r, size_t i)
{
	size_t end = find_pem_end(r->s, i);

	if (end > i) {
		take_out(r, (struct span){ i, end });
		return end;
	}
	if (str_starts(str_skip(r->s, i), STR("://")))
		return take_url(r, i + 3);
	if (find_is_name(find_at(r->s, i)))
		return take_name(r, i, find_name_end(r->s, i));
	follow_quotes(r, i, i + 1);
	return i + 1;
}

static void
pass(struct buf *b, struct str text, const struct redact_keep *keep)
{
	struct redactor r = { .s = text, .b = b, .keep = keep };

	for (size_t i = 0; i < text.n;)
		i = step(&r, i);
	buf_put(b, str_skip(text, r.copied));
}

void
redact_put(struct buf *b, struct str text, const struct redact_keep *keep)
{
	struct buf of[2] = { 0 };
	struct str seen = text;
	bool is_done = false;

	/* What is taken out may hold a quote, and then the rest reads differently. */
	for (size_t i = 0; i < PASSES && !is_done; i++) {
		struct buf *next = &of[i % 2];

		buf_done(next);
		buf_init(next, TEXT_ROOM * text.n + TEXT_ROOM);
		pass(next, seen, keep);
		if (next->st != ST_OK && b->st == ST_OK)
			b->st = next->st; /* nothing unread is put */
		is_done = next->st != ST_OK || str_eq(str_of(next->p, next->len), seen);
		seen = str_of(next->p, next->len);
	}
	buf_put(b, seen);
	buf_done(&of[0]);
	buf_done(&of[1]);
}

/* Where in the argument the value is. */
static struct span
argument(struct str flag, struct str text)
{
	struct str rest = text;
	bool is_next = text.n > 1 && text.p[0] == '-' &&
		       (text.p[1] == '-' || ascii_is_alpha(text.p[1]));

	if (is_next || !str_starts(flag, STR("-")) || is_variable(text) ||
	    is_place(flag, text) || find_name_end(flag, 0) != flag.n)
		return (struct span){ 0, 0 };
	if (is_login_flag(flag) && str_cut(&rest, ':').n < text.n)
		return (struct span){ text.n - rest.n, text.n };
	return (struct span){ is_secret_name(flag) ? 0 : text.n, text.n };
}

void
redact_put_behind(struct buf *b, struct str flag, struct str text,
		  const struct redact_keep *keep)
{
	struct redactor r = { .s = text, .b = b, .keep = keep };
	struct span v = argument(flag, text);

	if (v.from == v.to) {
		redact_put(b, text, keep);
		return;
	}
	take_out(&r, v);
	buf_put(b, str_skip(text, r.copied));
}
