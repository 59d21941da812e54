/*
 * sandgate policy from-tools pip npm apt go cargo: a policy of the hosts that each
 * installed tool says it uses.  The tool is asked; no host is written down here, so a
 * company's mirror comes out as well as the public registry.
 */
#include "proxy/cli/from_tools.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "proxy/cli/tool_run.h"
#include "proxy/http/dest.h"

enum { OUT_MAX = 4 * 1024 * 1024, FOUND_MAX = 256 };

struct found {
	struct dest dest;
	const char *tool;
};

struct finder {
	const char *tool; /* at hand */
	struct found found[FOUND_MAX];
	size_t n;
};

static bool
add(struct finder *f, const struct dest *d)
{
	for (size_t i = 0; i < f->n; i++)
		if (dest_same_host(&f->found[i].dest, d) &&
		    f->found[i].dest.port == d->port)
			return true;
	if (f->n == FOUND_MAX)
		return false;
	f->found[f->n++] = (struct found){ *d, f->tool };
	return true;
}

/* A URL's host; what isn't http or https (file:, direct, off) has none.  A user and
 * password before the `@` stay out of the policy. */
static bool
add_url(struct finder *f, struct str url)
{
	bool is_tls = str_starts(url, STR("https://"));
	struct dest d;
	size_t n = 0;

	if (!is_tls && !str_starts(url, STR("http://")))
		return false;
	struct str rest = str_skip(url, is_tls ? 8 : 7);
	while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?')
		n++;
	struct str authority = str_head(rest, n);
	const char *at =
		authority.n == 0 ? NULL : memrchr(authority.p, '@', authority.n);
	if (at != NULL)
		authority = str_skip(authority, (size_t)(at - authority.p) + 1);
	return dest_from_authority(authority, is_tls ? 443 : 80, &d) == ST_OK &&
	       add(f, &d);
}

static struct str
view(const struct buf *b)
{
	struct str s;

	return buf_finish(b, &s) == ST_OK ? s : STR("");
}

/* Each line of the output that is a URL. */
static enum status
ask_lines(struct finder *f, const char *const *argv)
{
	CLEANUP(buf_done) struct buf out = { 0 };

	buf_init(&out, OUT_MAX);
	enum status st = tool_run(argv, &out);
	struct str rest = view(&out);
	while (st == ST_OK && rest.n > 0)
		(void)add_url(f, str_trim(str_cut(&rest, '\n')));
	return st;
}

/* "global.index-url='https://...'", also a list of several in one value. */
static bool
add_pip_setting(struct finder *f, struct str line)
{
	struct str value = line, key = str_cut(&value, '=');
	bool is_index = str_ends(key, STR("index-url"));
	bool is_main = is_index && !str_ends(key, STR("extra-index-url"));

	while (is_index && value.n > 0) {
		struct str word = str_cut(&value, ' ');
		while (word.n > 0 && (word.p[0] == '\'' || word.p[0] == '"'))
			word = str_skip(word, 1);
		while (word.n > 0 &&
		       (word.p[word.n - 1] == '\'' || word.p[word.n - 1] == '"'))
			word.n--;
		(void)add_url(f, word);
	}
	return is_main;
}

static enum status
ask_pip(struct finder *f)
{
	static const char *const settings[] = { "python3", "-m",   "pip",
						"config",  "list", NULL };
	/* pip's own idea of its default index and of where that keeps its files */
	static const char *const fallback[] = {
		"python3", "-c",
		"from pip._internal.models.index import PyPI as p\n"
		"print(p.simple_url)\nprint('https://' + p.file_storage_domain + '/')",
		NULL
	};
	CLEANUP(buf_done) struct buf out = { 0 };
	bool has_index = false;

	buf_init(&out, OUT_MAX);
	enum status st = tool_run(settings, &out);
	if (st != ST_OK)
		return st;
	struct str rest = view(&out);
	while (rest.n > 0)
		has_index =
			add_pip_setting(f, str_trim(str_cut(&rest, '\n'))) || has_index;
	return has_index ? ST_OK : ask_lines(f, fallback);
}

static enum status
ask_npm(struct finder *f)
{
	static const char *const list[] = { "npm", "config", "list", "--json", NULL };
	static const char *const one[] = { "npm", "config", "get", "registry", NULL };
	CLEANUP(buf_done) struct buf out = { 0 };
	const char *key;
	json_t *value;

	buf_init(&out, OUT_MAX);
	enum status st = tool_run(list, &out);
	struct str text = view(&out);
	json_t *root = st == ST_OK ? json_loadb(text.p, text.n, 0, NULL) : NULL;
	json_object_foreach(root, key, value)
	{
		/* "@company:registry": a scope may live elsewhere */
		if (str_ends(str_from(key), STR(":registry")) && json_is_string(value))
			(void)add_url(f, str_from(json_string_value(value)));
	}
	json_decref(root);
	return st == ST_NOT_FOUND ? st : ask_lines(f, one);
}

static enum status
ask_apt(struct finder *f)
{
	static const char *const argv[] = { "apt-get", "indextargets", "--format",
					    "$(REPO_URI)", NULL };

	return ask_lines(f, argv);
}

/* GOPROXY: URLs separated by `,` or `|`; GOSUMDB: a host, or a name and a URL. */
static enum status
ask_go(struct finder *f)
{
	static const char *const argv[] = { "go", "env", "GOPROXY", "GOSUMDB", NULL };
	CLEANUP(buf_done) struct buf out = { 0 };
	struct dest d;

	buf_init(&out, OUT_MAX);
	enum status st = tool_run(argv, &out);
	if (st != ST_OK)
		return st;
	struct str sums = view(&out), proxies = str_cut(&sums, '\n');
	while (proxies.n > 0) {
		struct str comma = proxies, one = str_cut(&comma, ',');
		struct str bar = proxies, other = str_cut(&bar, '|');
		(void)add_url(f, one.n < other.n ? one : other);
		proxies = one.n < other.n ? comma : bar;
	}
	sums = str_trim(str_cut(&sums, '\n'));
	struct str name = str_cut(&sums, ' ');
	if (sums.p != NULL)
		(void)add_url(f, str_trim(sums));
	else if (dest_from_host(str_cut(&name, '+'), 443, &d) == ST_OK)
		(void)add(f, &d);
	return ST_OK;
}

static void
add_cargo_download(struct finder *f, const char *path)
{
	json_t *root = json_load_file(path, 0, NULL);
	const char *dl = json_string_value(json_object_get(root, "dl"));

	if (dl != NULL)
		(void)add_url(f, str_from(dl));
	json_decref(root);
}

/* cargo has no command that tells its index.  Its home does: registry/index/HOST-HASH
 * for each index it has used, with config.json saying where that keeps its files. */
static void
add_cargo_index(struct finder *f, const char *dir, const char *entry)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	struct str host = str_from(entry);
	struct dest d;

	while (host.n > 0 && host.p[host.n - 1] != '-')
		host.n--;
	if (host.n == 0 || dest_from_host(str_head(host, host.n - 1), 443, &d) != ST_OK)
		return;
	(void)add(f, &d);
	buf_init(&path, 8192);
	buf_put(&path, str_from(dir));
	buf_putc(&path, '/');
	buf_put(&path, str_from(entry));
	buf_put(&path, STR("/config.json"));
	if (buf_cstr(&path) != NULL)
		add_cargo_download(f, buf_cstr(&path));
}

static bool
cargo_index_dir(struct buf *b)
{
	const char *home = getenv("CARGO_HOME"), *user = getenv("HOME");

	if (home == NULL && user == NULL)
		return false;
	buf_put(b, str_from(home != NULL ? home : user));
	buf_put(b,
		home != NULL ? STR("/registry/index") : STR("/.cargo/registry/index"));
	return buf_cstr(b) != NULL;
}

static enum status
ask_cargo(struct finder *f)
{
	static const char *const version[] = { "cargo", "--version", NULL };
	CLEANUP(buf_done) struct buf out = { 0 }, dir = { 0 };

	buf_init(&out, OUT_MAX);
	buf_init(&dir, 8192);
	enum status st = tool_run(version, &out);
	if (st != ST_OK)
		return st;
	DIR *d = cargo_index_dir(&dir) ? opendir(buf_cstr(&dir)) : NULL;
	for (struct dirent *e = d == NULL ? NULL : readdir(d); e != NULL;
	     e = readdir(d))
		if (e->d_name[0] != '.')
			add_cargo_index(f, buf_cstr(&dir), e->d_name);
	if (d != NULL)
		(void)closedir(d);
	return ST_OK;
}

static const struct {
	const char *name;
	enum status (*ask)(struct finder *f);
} tools[] = {
	{ "pip", ask_pip }, { "npm", ask_npm },     { "apt", ask_apt },
	{ "go", ask_go },   { "cargo", ask_cargo },
};

static bool
ask(struct finder *f, const char *name)
{
	size_t before = f->n, i = 0;

	while (i < COUNT_OF(tools) && strcmp(name, tools[i].name) != 0)
		i++;
	if (i == COUNT_OF(tools)) {
		(void)fprintf(stderr,
			      "sandgate: `%s` is not one of pip, npm, apt, go, cargo\n",
			      name);
		return false;
	}
	f->tool = tools[i].name;
	enum status st = tools[i].ask(f);
	if (st == ST_NOT_FOUND)
		(void)fprintf(stderr, "sandgate: %s is not installed\n", name);
	else if (st != ST_OK)
		(void)fprintf(stderr, "sandgate: %s does not say which hosts it uses\n",
			      name);
	else if (f->n == before)
		(void)fprintf(stderr, "sandgate: %s names no host%s\n", name,
			      strcmp(name, "cargo") == 0 ? " until it has fetched once"
							 : " of its own");
	return true;
}

static void
print_one(struct buf *b, const struct found *f)
{
	bool is_name = dest_is_name(&f->dest);

	buf_put(b, is_name ? STR("      - {hosts: [") : STR("      - {cidrs: [\""));
	if (is_name)
		dest_put_host(b, &f->dest);
	else
		addr_put(b, &f->dest.addr);
	buf_putf(b,
		 is_name ? "], ports: [%u]}  # %s\n"
			 : "\"], ports: [%u], protocol: tcp}  # %s\n",
		 f->dest.port, f->tool);
}

int
from_tools(int argc, char **argv)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct finder f = { 0 };
	bool ok = argc > 1;

	for (int i = 1; i < argc; i++)
		ok = ask(&f, argv[i]) && ok;
	if (!ok) {
		(void)fprintf(stderr, "usage: sandgate policy from-tools [pip] [npm] "
				      "[apt] [go] [cargo]\n");
		return 2;
	}
	buf_init(&b, OUT_MAX);
	buf_put(&b, STR("policies:\n  tools:\n    allow:"));
	buf_put(&b, f.n == 0 ? STR(" []\n") : STR("\n"));
	for (size_t i = 0; i < f.n; i++)
		print_one(&b, &f.found[i]);
	struct str text = view(&b);
	return fwrite(text.p, 1, text.n, stdout) == text.n ? 0 : 2;
}
