/* What calls do with their strings. */
#include "conf/risk_code.h"

#include "conf/risk_programs.h"

enum { PATH_LEN_MAX = 1024 };

static const char runners[] =
	"system|popen|run|call|check_call|check_output|Popen|getoutput|"
	"getstatusoutput|exec|execSync|execFile|execFileSync|spawn|spawnSync|"
	"shell_exec|passthru|proc_open|execl|execle|execlp|execv|execve|execvp|spawnl|"
	"spawnv|spawnlp|spawnvp|create_subprocess_shell|create_subprocess_exec|Command|"
	"capture2|capture2e|capture3|popen2|popen3|posix_spawn|$|sh|ProcessBuilder|"
	"execute|os_execute|doShellScript|startProcess|system2|execa|execaSync|"
	"Process.Start";
static const char writers[] =
	"write_text|write_bytes|writeFile|writeFileSync|appendFile|appendFileSync|"
	"createWriteStream|file_put_contents|truncate|chmod|chown|mkdir|makedirs|touch|"
	"symlink|link|symlinkSync|copy|copyfile|copy2|copytree|copyFileSync|WriteFile|"
	"to_csv|savetxt|chmodSync";
static const char deleters[] =
	"remove|unlink|rmtree|rmdir|removedirs|unlinkSync|rmSync|rmdirSync|rm|rm_rf|"
	"rm_r|remove_tree|delete|Delete|RemoveAll|Remove|rename|renameSync|move|"
	"replace|"
	"rimraf";
static const char reachers[] =
	"connect|create_connection|HTTPConnection|HTTPSConnection|Socket|"
	"createConnection|Dial|open_connection|gethostbyname|getaddrinfo|connect_ex|"
	"FTP|SMTP|Telnet|SSHClient|TCPSocket|lookup|fsockopen";
static const char environments[] =
	"os.environ|environ|os.getenv|getenv|os.environ.get|environ.get|process.env|"
	"ENV|ENV.fetch|$ENV|$_ENV|$_SERVER|Deno.env.get|os.Getenv|System.getenv|"
	"Sys.getenv|os.environ.pop|os.environb|env|Bun.env";
static const char modes[] = "w|a|x|wb|ab|xb|w+|a+|r+|rb+|r+b|wt|at|w+b|wb+|>|>>|+<";

static struct str
last_part(struct str name)
{
	size_t n = name.n;

	while (n > 0 && name.p[n - 1] != '.')
		n--;
	return str_skip(name, n);
}

static bool
is_runner(struct str name)
{
	return risk_is_among(last_part(name), runners);
}

static void
run_strings(struct risk_code *c, const struct code_strings *of)
{
	struct risk_word *w = arena_alloc(&c->run->arena, (of->n + 1) * sizeof *w);
	struct risk_call call = { .words = w, .n = of->n };
	size_t i = of->n;

	if (w == NULL || of->n == 0)
		return;
	for (const struct risk_fact *f = of->first; f != NULL && i > 0; f = f->next)
		w[--i] = (struct risk_word){ .text = f->text, .name = STR("") };
	if (of->n == 1 || str_has(w[0].text, ' '))
		risk_shell(c->run, w[0].text);
	if (of->n > 1)
		risk_command(c->run, &call);
}

static void
touch_strings(struct risk_code *c, const struct code_strings *of, enum risk_touch t)
{
	for (const struct risk_fact *f = of->first; f != NULL; f = f->next)
		if (f->text.n <= PATH_LEN_MAX)
			risk_add_path(c->run, &c->deed, t, f->text);
}

static enum risk_touch
touch_of(struct str name)
{
	struct str verb = last_part(name);

	if (risk_is_among(verb, deleters))
		return TOUCH_DELETE;
	return risk_is_among(verb, writers) ? TOUCH_WRITE : TOUCH_READ;
}

static void
end_call(struct risk_code *c, struct str name, const struct code_strings *of)
{
	enum risk_touch t = touch_of(name);

	if (t == TOUCH_READ && risk_is_among(last_part(name), "open|fopen|File.open"))
		for (const struct risk_fact *f = of->first; f != NULL; f = f->next)
			if (risk_is_among(f->text, modes))
				t = TOUCH_WRITE;
	if (t != TOUCH_READ)
		touch_strings(c, of, t);
	if (is_runner(name))
		run_strings(c, of);
}

bool
code_is(const struct risk_code *c, const char *languages)
{
	return risk_is_among(c->language, languages);
}

struct code_frame *
code_frame(struct risk_code *c)
{
	size_t i = c->frames_n;

	return &c->frame[i < CODE_FRAMES ? i : CODE_FRAMES - 1];
}

void
code_open(struct risk_code *c, struct str name)
{
	/* The strings of what is deeper than we count go to the deepest that we do. */
	c->frames_n++;
	if (c->frames_n < CODE_FRAMES)
		*code_frame(c) = (struct code_frame){ .name = name };
	else if (is_runner(name))
		risk_sign(c->run, RISK_SIGN_DEEP);
}

void
code_close(struct risk_code *c)
{
	struct code_frame *f = code_frame(c);

	if (c->frames_n == 0)
		return;
	if (c->frames_n < CODE_FRAMES) {
		end_call(c, f->name, &f->strings);
		c->last = f->strings;
	}
	c->frames_n--;
}

void
code_method(struct risk_code *c, struct str name)
{
	enum risk_touch t = touch_of(name);

	if (t != TOUCH_READ)
		touch_strings(c, &c->last, t);
}

static void
keep(struct risk_code *c, struct code_frame *f, struct str s)
{
	struct risk_fact *one = arena_alloc(&c->run->arena, sizeof *one);

	if (one == NULL)
		return;
	*one = (struct risk_fact){ s, f->strings.first };
	f->strings.first = one;
	f->strings.n++;
}

/* Each call around it that runs commands may be given it: run(["rm", str("x")]). */
static void
keep_all(struct risk_code *c, struct str s)
{
	size_t top = c->frames_n < CODE_FRAMES ? c->frames_n : CODE_FRAMES - 1;

	for (size_t i = 0; i <= top; i++)
		if (i == top || is_runner(c->frame[i].name))
			keep(c, &c->frame[i], s);
}

void
code_string(struct risk_code *c, struct str s)
{
	if (!risk_spend(c->run, s.n + c->frames_n))
		return;
	keep_all(c, s);
	if (risk_is_among(c->name, environments))
		risk_add(c->run, &c->deed, COND_ENV, s);
	risk_add_host(c->run, &c->deed, s,
		      risk_is_among(last_part(code_frame(c)->name), reachers));
	if (s.n > 1 && s.n <= PATH_LEN_MAX && (str_has(s, '/') || s.p[0] == '.'))
		risk_add_paths(c->run, &c->deed, TOUCH_READ, s);
	/* What is run by exec(), and what we take for a string and is none. */
	if (str_has(s, '(') && c->run->depth < RISK_DEPTH_MAX)
		risk_code(c->run, c->language, s);
}
