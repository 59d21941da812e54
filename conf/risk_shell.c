/*
 * A text as a shell reads it, taken apart into simple commands.  Groups, loops and
 * conditions are gone through as if all of their commands ran: what might run counts.
 */
#include "conf/risk_private.h"

#include <string.h>

enum { WORDS_LEAST = 16, HEREDOCS_MAX = 8 };

struct heredoc {
	struct str end, language;
	bool is_raw, is_stripped, is_shell, is_judged;
};

struct shell {
	struct risk_lex lex;
	struct risk_word *words; /* of the command at hand */
	size_t n, cap;
	struct risk_deed around;
	struct risk_deed pipe; /* programs before it in the pipe */
	bool is_piped_in;
	size_t cases, parens;
	bool is_pattern; /* of a case: what stands before `)` is no command */
	struct heredoc heredoc[HEREDOCS_MAX];
	size_t heredocs_n;
	struct str here; /* <<< */
	bool has_here;
};

static char
peek(const struct shell *s, size_t i)
{
	return risk_at(s->lex.rest, i);
}

static void
skip(struct shell *s, size_t n)
{
	s->lex.rest = str_skip(s->lex.rest, n);
}

static void
add_word(struct shell *s, const struct risk_word *w)
{
	if (s->n == s->cap) {
		size_t cap = s->cap == 0 ? WORDS_LEAST : s->cap * 2;
		struct risk_word *more =
			arena_alloc(&s->lex.run->arena, cap * sizeof *more);
		if (more == NULL)
			return;
		if (s->n > 0)
			memcpy(more, s->words, s->n * sizeof *more);
		s->words = more;
		s->cap = cap;
	}
	s->words[s->n++] = *w;
}

/* What is run on somebody's standard input. */
static void
judge_body(struct risk_run *run, bool is_shell, struct str language, struct str body)
{
	if (risk_has_hole(body) && (is_shell || language.n > 0))
		risk_sign(run, RISK_SIGN_COMPUTED);
	if (is_shell)
		risk_shell(run, body);
	else if (language.n > 0)
		risk_code(run, language, body);
}

static bool
is_redirected(const struct shell *s)
{
	for (size_t c = 0; c < IMAGE_CONDS; c++)
		if (s->around.fact[c] != NULL)
			return true;
	return false;
}

static void
mark_heredocs(struct shell *s, const struct risk_call *c)
{
	for (size_t i = 0; i < s->heredocs_n; i++) {
		struct heredoc *h = &s->heredoc[i];
		if (h->is_judged)
			continue;
		h->is_judged = true;
		h->is_shell = c->is_shell_body;
		h->language = c->body_language;
	}
}

static void
end_command(struct shell *s, bool is_pipe)
{
	struct risk_run *run = s->lex.run;
	bool is_case = s->n > 2 && str_eq(s->words[0].text, STR("case"));
	bool is_esac = s->n > 0 && str_eq(s->words[0].text, STR("esac"));
	struct risk_call c = { .words = s->words,
			       .n = s->n,
			       .around = &s->around,
			       .piped = s->pipe.fact[COND_PIPED_FROM],
			       .is_piped_in = s->is_piped_in,
			       .is_piped_out = is_pipe };
	s->cases += is_case;
	s->cases -= is_esac && s->cases > 0;
	s->is_pattern = s->is_pattern && !is_esac;
	bool was_here = s->has_here || s->heredocs_n > 0;

	if (s->n == 0 && !is_redirected(s) && !was_here && !is_pipe)
		return; /* an empty line does not end a pipe */
	/* With its input from elsewhere it reads nothing of the pipe. */
	c.is_piped_in = c.is_piped_in && !was_here;
	risk_command(run, &c);
	mark_heredocs(s, &c);
	if (s->has_here)
		judge_body(run, c.is_shell_body, c.body_language, s->here);
	s->has_here = false;
	s->n = 0;
	s->around = (struct risk_deed){ { NULL } };
	s->is_piped_in = is_pipe;
	if (!is_pipe)
		s->pipe.fact[COND_PIPED_FROM] = NULL;
	for (const struct risk_fact *f = is_pipe ? c.names : NULL; f != NULL;
	     f = f->next)
		risk_add(run, &s->pipe, COND_PIPED_FROM, f->text);
}

static struct str
line_of(struct str s)
{
	const char *end = s.n == 0 ? NULL : memchr(s.p, '\n', s.n);

	return end == NULL ? s : str_head(s, (size_t)(end - s.p));
}

static void
read_heredoc(struct shell *s, const struct heredoc *h)
{
	struct str start = s->lex.rest;
	size_t n = 0;

	while (s->lex.rest.n > 0) {
		struct str line = line_of(s->lex.rest), bare = line;
		skip(s, line.n + 1);
		while (h->is_stripped && bare.n > 0 && bare.p[0] == '\t')
			bare = str_skip(bare, 1);
		if (str_eq(bare, h->end))
			break;
		n = start.n - s->lex.rest.n;
	}
	struct str body = str_head(start, n);
	if (!h->is_raw)
		risk_expansions(s->lex.run, body);
	/* What is filled in before it is run can't be read. */
	if (!h->is_raw && (h->is_shell || h->language.n > 0) &&
	    (str_has(body, '$') || str_has(body, '`')))
		risk_sign(s->lex.run, RISK_SIGN_COMPUTED);
	judge_body(s->lex.run, h->is_shell, h->language, body);
}

static void
read_newline(struct shell *s)
{
	skip(s, 1);
	end_command(s, false);
	for (size_t i = 0; i < s->heredocs_n; i++)
		read_heredoc(s, &s->heredoc[i]);
	s->heredocs_n = 0;
}

static void
skip_blanks(struct shell *s)
{
	while (peek(s, 0) == ' ' || peek(s, 0) == '\t' || peek(s, 0) == '\r')
		skip(s, 1);
}

/* Behind "<<". */
static void
open_heredoc(struct shell *s)
{
	struct heredoc h = { .is_stripped = peek(s, 0) == '-', .language = STR("") };
	struct risk_word w;

	skip(s, h.is_stripped);
	skip_blanks(s);
	struct str before = s->lex.rest;
	risk_word_read(&s->lex, &w);
	struct str raw = str_head(before, before.n - s->lex.rest.n);
	h.is_raw = str_has(raw, '\'') || str_has(raw, '"') || str_has(raw, '\\');
	h.end = w.text;
	if (s->heredocs_n == HEREDOCS_MAX)
		risk_sign(s->lex.run, RISK_SIGN_DEEP);
	else
		s->heredoc[s->heredocs_n++] = h;
}

/* Behind "<(" or ">(". */
static void
read_process(struct shell *s)
{
	static const char hole[] = { HOLE_ANY };
	size_t end = risk_span(s->lex.rest, '(', ')');
	struct risk_word w = { .text = str_of(hole, 1), .name = STR("<()") };

	if (end == s->lex.rest.n)
		risk_sign(s->lex.run, RISK_SIGN_OPEN);
	risk_shell(s->lex.run, str_head(s->lex.rest, end));
	skip(s, end + 1);
	add_word(s, &w);
}

/* At '<' or '>'. */
static void
read_redirection(struct shell *s)
{
	bool is_out = peek(s, 0) == '>';
	char next = peek(s, 1);
	struct risk_word w;

	skip(s, 1);
	if (next == '(') {
		skip(s, 1);
		read_process(s);
		return;
	}
	if (!is_out && next == '<') {
		s->has_here = peek(s, 1) == '<';
		skip(s, s->has_here ? 2 : 1);
		if (!s->has_here) {
			open_heredoc(s);
			return;
		}
		skip_blanks(s);
		risk_word_read(&s->lex, &w);
		s->here = w.text;
		return;
	}
	is_out = is_out || next == '>';
	while (peek(s, 0) == '>' || peek(s, 0) == '&' || peek(s, 0) == '|')
		skip(s, 1);
	skip_blanks(s);
	risk_word_read(&s->lex, &w);
	if (!is_out && w.text.n > 0)
		s->is_piped_in = false;
	risk_add_path(s->lex.run, &s->around, is_out ? TOUCH_WRITE : TOUCH_READ,
		      w.text);
}

static void
read_paren(struct shell *s)
{
	bool is_function = s->n == 1 && peek(s, 1) == ')';
	struct str name = is_function ? s->words[0].text : STR("");

	if (s->is_pattern && s->n == 0) { /* `(a)` */
		skip(s, 1);
		return;
	}
	s->parens += !is_function;
	skip(s, is_function ? 2 : 1);
	if (!is_function) {
		end_command(s, false);
		return;
	}
	/* `:(){ :|:& };:` and others that hide behind punctuation. */
	for (size_t i = 0; i < name.n; i++)
		if (!ascii_is_alpha(name.p[i]) && !ascii_is_digit(name.p[i]) &&
		    !str_has(STR("_-."), name.p[i]))
			risk_sign(s->lex.run, RISK_SIGN_NAME);
	s->n = 0;
}

/* `in a)`, `;; b)`: a pattern ends, and commands begin. */
static void
close_paren(struct shell *s)
{
	skip(s, 1);
	if (s->parens > 0) {
		s->parens--;
	} else if (s->is_pattern) {
		s->is_pattern = false;
		s->n = 0;
	}
	end_command(s, false);
}

static void
end_clause(struct shell *s)
{
	skip(s, 2);
	end_command(s, false);
	s->is_pattern = s->cases > 0;
}

static void
read_operator(struct shell *s)
{
	char c = peek(s, 0), next = peek(s, 1);

	if (c == '\n') {
		read_newline(s);
	} else if (c == '(') {
		read_paren(s);
	} else if (c == '<' || c == '>') {
		read_redirection(s);
	} else if (c == '&' && next == '>') {
		skip(s, 1);
		read_redirection(s);
	} else if (c == ')') {
		close_paren(s);
	} else if (c == ';' && next == ';') {
		end_clause(s);
	} else if (c == '|' && s->is_pattern) {
		skip(s, 1);
	} else if (c == '|' && next != '|') {
		skip(s, next == '&' ? 2 : 1);
		end_command(s, true);
	} else {
		skip(s, c == '|' ? 2 : 1);
		end_command(s, false);
	}
}

/* The 2 of `2>file`. */
static bool
is_descriptor(const struct shell *s, struct str word)
{
	for (size_t i = 0; i < word.n; i++)
		if (!ascii_is_digit(word.p[i]))
			return false;
	return peek(s, 0) == '<' || peek(s, 0) == '>';
}

static void
read_text(struct shell *s)
{
	struct risk_word w;

	while (s->lex.rest.n > 0 && risk_spend(s->lex.run, 1)) {
		char c = s->lex.rest.p[0];
		if (c == ' ' || c == '\t' || c == '\r') {
			skip(s, 1);
		} else if (c == '#') {
			skip(s, line_of(s->lex.rest).n);
		} else if (str_has(STR("\n;&|<>()"), c)) {
			read_operator(s);
		} else {
			risk_word_read(&s->lex, &w);
			if (!is_descriptor(s, w.text))
				add_word(s, &w);
		}
	}
	end_command(s, false);
}

void
risk_shell(struct risk_run *run, struct str text)
{
	struct shell s = { .lex = { .run = run, .rest = text } };

	if (run->depth >= RISK_DEPTH_MAX || !risk_spend(run, text.n)) {
		risk_sign(run, RISK_SIGN_DEEP);
		return;
	}
	if (risk_has_hole(text))
		risk_sign(run, RISK_SIGN_COMPUTED);
	s.lex.out = arena_alloc(&run->arena, text.n + 1);
	if (s.lex.out == NULL)
		return;
	run->depth++;
	read_text(&s);
	run->depth--;
}
