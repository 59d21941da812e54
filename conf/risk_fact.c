/* What stands in a word: paths, hosts and ports. */
#include "conf/risk_private.h"

#include <string.h>

#include "proxy/base/num.h"

static size_t
find(struct str s, char c)
{
	const char *at = s.n == 0 ? NULL : memchr(s.p, c, s.n);

	return at == NULL ? s.n : (size_t)(at - s.p);
}

struct str
risk_lower(struct risk_run *run, struct str s)
{
	char *p = arena_alloc(&run->arena, s.n + 1);

	if (p == NULL)
		return STR("");
	for (size_t i = 0; i < s.n; i++)
		p[i] = ascii_lower(s.p[i]);
	return str_of(p, s.n);
}

/* Takes away the last segment; what begins at a root stays there. */
static size_t
parent(const char *p, size_t n)
{
	while (n > 0 && p[n - 1] != '/')
		n--;
	return n > 0 ? n - 1 : 0;
}

/* Appends the segments of s to p.  Above what is known lies the root: "../../etc/x" is
 * "/etc/x", the worst that it can be. */
static size_t
walk(char *p, size_t n, struct str s, bool *is_root)
{
	while (s.p != NULL) {
		struct str one = str_cut(&s, '/');
		if (one.n == 0 || str_eq(one, STR(".")))
			continue;
		if (str_eq(one, STR(".."))) {
			*is_root |= n == 0;
			n = parent(p, n);
			continue;
		}
		if (n > 0 || *is_root)
			p[n++] = '/';
		memcpy(p + n, one.p, one.n);
		n += one.n;
	}
	return n;
}

struct str
risk_path(struct risk_run *run, struct str text)
{
	bool is_root = str_starts(text, STR("/"));
	bool is_bound = is_root || str_starts(text, STR("~"));
	struct str folder = is_bound ? STR("") : run->folder;
	char *p = arena_alloc(&run->arena, folder.n + text.n + 2);
	size_t n = 0;

	if (p == NULL || !risk_spend(run, folder.n + text.n))
		return STR("");
	if (folder.n > 0) {
		is_root = folder.p[0] == '/';
		n = walk(p, 0, folder, &is_root);
	}
	n = walk(p, n, text, &is_root);
	if (n == 0)
		p[n++] = is_root ? '/' : '.';
	return str_of(p, n);
}

static void
add_socket(struct risk_run *run, struct risk_deed *d, struct str path)
{
	struct str rest = str_skip(path, sizeof "/dev/tcp/" - 1);
	struct str host = str_cut(&rest, '/');

	if (!str_starts(path, STR("/dev/tcp/")) && !str_starts(path, STR("/dev/udp/")))
		return;
	risk_add(run, d, COND_HOSTS, risk_lower(run, host));
	if (rest.n > 0)
		risk_add(run, d, COND_PORTS, rest);
}

void
risk_add_path(struct risk_run *run, struct risk_deed *d, enum risk_touch t,
	      struct str text)
{
	/* A word that is nothing but a hole says nothing about a path. */
	if (text.n == 0 || (text.n == 1 && text.p[0] == HOLE_ANY))
		return;
	struct str path = risk_path(run, text);
	add_socket(run, d, path);
	if (t == TOUCH_NAME)
		return;
	risk_add(run, d, COND_PATHS, path);
	if (t == TOUCH_READ)
		risk_add(run, d, COND_READS, path);
	else
		risk_add(run, d, COND_WRITES, path);
	if (t == TOUCH_DELETE)
		risk_add(run, d, COND_DELETES, path);
}

void
risk_add_paths(struct risk_run *run, struct risk_deed *d, enum risk_touch t,
	       struct str word)
{
	size_t at = find(word, '@'), is = find(word, '='), slash = find(word, '/');
	size_t colon = find(word, ':');

	if (str_starts(word, STR("file://")))
		risk_add_path(run, d, t, str_skip(word, 7));
	if (str_starts(word, STR("-")) && slash < word.n)
		risk_add_path(run, d, t, str_skip(word, slash));
	else if (!str_starts(word, STR("-")))
		risk_add_path(run, d, t, word);
	if (is < word.n)
		risk_add_path(run, d, t, str_skip(word, is + 1));
	if (at < word.n)
		risk_add_path(run, d, t, str_skip(word, at + 1));
	if (colon < word.n && colon > 0)
		risk_add_path(run, d, t, str_skip(word, colon + 1));
}

static bool
is_host_byte(char c)
{
	return ascii_is_alpha(c) || ascii_is_digit(c) || c == '.' || c == '-' ||
	       c == '_' || c == HOLE_ANY || c == HOLE_PART;
}

/* HOST, HOST:PORT or [V6]:PORT, and whatever follows. */
static void
add_authority(struct risk_run *run, struct risk_deed *d, struct str s)
{
	size_t n = 0, digits = 0;

	if (str_starts(s, STR("["))) {
		n = find(s, ']');
		risk_add(run, d, COND_HOSTS,
			 risk_lower(run, str_skip(str_head(s, n), 1)));
		n = num_min(n + 1, s.n);
	} else {
		while (n < s.n && is_host_byte(s.p[n]))
			n++;
		struct str host = str_head(s, n);
		if (str_ends(host, STR(".")))
			host.n--;
		if (host.n > 0)
			risk_add(run, d, COND_HOSTS, risk_lower(run, host));
	}
	if (n == s.n || s.p[n] != ':')
		return;
	s = str_skip(s, n + 1);
	while (digits < s.n && ascii_is_digit(s.p[digits]))
		digits++;
	if (digits > 0)
		risk_add(run, d, COND_PORTS, str_head(s, digits));
}

static struct str
without_user(struct str s)
{
	size_t end = num_min(num_min(find(s, '/'), find(s, '?')), find(s, '#'));
	struct str authority = str_head(s, end);

	for (size_t at = find(authority, '@'); at < authority.n;
	     at = find(authority, '@'))
		authority = str_skip(authority, at + 1);
	return authority;
}

void
risk_add_host(struct risk_run *run, struct risk_deed *d, struct str word, bool is_host)
{
	struct str rest = word;
	bool is_url = false;

	for (size_t i = find(rest, ':'); i < rest.n; i = find(rest, ':')) {
		rest = str_skip(rest, i + 1);
		if (!str_starts(rest, STR("//")))
			continue;
		is_url = true;
		rest = str_skip(rest, 2);
		if (!risk_spend(run, rest.n))
			return;
		add_authority(run, d, without_user(rest));
	}
	if (!is_url && is_host && !str_starts(word, STR("-")) &&
	    !str_starts(word, STR("/")) && !str_starts(word, STR(".")))
		add_authority(run, d, without_user(word));
}
