#include "proxy/worker/exec_judge.h"

#include <openssl/evp.h>

#include "proxy/base/num.h"
#include "proxy/io/place.h"
#include "proxy/worker/exec_judge_in.h"

enum { TREE_MAX = 4 * 1024 * 1024 };

void
judge_ask(struct judge *j, const struct risk_question *q)
{
	struct risk_answer *worst = &j->out->answer, a;

	risk_judge(j->im, q, &a);
	bool is_first = worst->rule == RISK_NO_RULE && worst->sign == RISK_SIGN_NONE;
	if (a.level > worst->level || (is_first && a.level == worst->level))
		*worst = a;
}

void
judge_unreadable(struct judge *j)
{
	enum risk_level level =
		(enum risk_level)image_number(j->im, OPT_RISK_UNREADABLE);

	if (level > j->out->answer.level)
		j->out->answer =
			(struct risk_answer){ level, RISK_NO_RULE, RISK_SIGN_LONG };
}

void
judge_show(struct judge *j, struct str s, char behind)
{
	size_t room = SPACE_MAX - num_min(j->text.len + 1, SPACE_MAX);

	buf_put(&j->text, str_head(s, room));
	if (room > s.n)
		buf_putc(&j->text, behind);
}

/* Without what is behind the last one. */
struct str
judge_shown(const struct judge *j, size_t begun)
{
	size_t end = j->text.len;

	while (end > begun && (j->text.p[end - 1] == '\n' || j->text.p[end - 1] == ' '))
		end--;
	return end == begun ? (struct str){ "", 0 }
			    : str_of(j->text.p + begun, end - begun);
}

void
judge_add_name(struct names *to, struct str s)
{
	if (to->n < NAMES_MAX)
		to->all[to->n] = s;
	to->n++;
}

void
judge_note_names(struct judge *j, const char *key, const struct names *names)
{
	if (names->n > 0)
		exec_note_list(&j->out->note, key, names->all,
			       num_min(names->n, NAMES_MAX));
}

enum status
judge_member(const struct jnode *o, const char *name, const struct jnode **ret_n)
{
	return jtree_get(o, str_from(name), ret_n);
}

/* What a newer execd runs behind a route that nobody knows here can't be read. */
static void
unknown(struct judge *j)
{
	if (j->route->op != EXEC_OP_EXECD_OTHER || j->route->class == EXEC_CLASS_FILE)
		return;
	judge_unreadable(j);
	exec_note_text(&j->out->note, "path", j->route->rest);
	judge_show(j, j->route->rest, '\n');
}

/* What is typed there waits for nobody, so it may be that who opens one has to. */
static void
terminal(struct judge *j)
{
	enum risk_level level = (enum risk_level)image_number(j->im, OPT_RISK_TERMINAL);

	if (j->route->op != EXEC_OP_PTY_ATTACH || level <= j->out->answer.level)
		return;
	j->out->answer =
		(struct risk_answer){ level, RISK_NO_RULE, RISK_SIGN_TERMINAL };
	judge_show(j, j->route->rest, '\n');
}

static enum status
read_one(struct judge *j, const struct jnode *root)
{
	unknown(j);
	terminal(j);
	if (j->route->op == EXEC_OP_SANDBOX_CREATE)
		return judge_create(j, root);
	switch (j->route->class) {
	case EXEC_CLASS_COMMAND:
	case EXEC_CLASS_CODE:
	case EXEC_CLASS_PTY:
		return root == NULL ? ST_OK : judge_run(j, root);
	case EXEC_CLASS_FILE:
		return j->route->body == EXEC_BODY_PARTS ? ST_OK : judge_paths(j, root);
	case EXEC_CLASS_LIFECYCLE:
	case EXEC_CLASS_EGRESS:
	case EXEC_CLASS_APP:
	case EXEC_CLASS_HEALTH:
	case EXEC_CLASS_COUNT:
		break;
	}
	return ST_OK;
}

/* An approval is for this route with this body, and for no other. */
static enum status
digest(const struct exec_route *r, struct str body, uint8_t ret_hash[EXEC_HASH])
{
	static const char zero = '\0';
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const struct str parts[] = { str_from(exec_op_name(r->op)),
				     r->id,
				     r->run,
				     r->uid,
				     r->gid,
				     r->rest,
				     r->query,
				     body };
	bool is_ok = ctx != NULL && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;

	for (size_t i = 0; is_ok && i < COUNT_OF(parts); i++) {
		if (parts[i].n > 0)
			is_ok = EVP_DigestUpdate(ctx, parts[i].p, parts[i].n) == 1;
		is_ok = is_ok && EVP_DigestUpdate(ctx, &zero, 1) == 1;
	}
	is_ok = is_ok && EVP_DigestFinal_ex(ctx, ret_hash, NULL) == 1;
	EVP_MD_CTX_free(ctx);
	return is_ok ? ST_OK : ST_NOMEM;
}

static enum status
tell(struct judge *j)
{
	struct exec_judged *out = j->out;
	CLEANUP(buf_done) struct buf why = { 0 };
	CLEANUP(buf_done) struct buf text = { 0 };

	if (j->text.len == 0 && out->answer.level == RISK_LOW)
		return ST_OK;
	exec_note_text(&out->note, "level",
		       str_from(risk_level_word(out->answer.level)));
	buf_init(&why, 2048);
	risk_put_reason(&why, j->im, &out->answer);
	if (why.st == ST_OK)
		exec_note_text(&out->note, "why", str_of(why.p, why.len));
	buf_init(&text, (size_t)2 * SPACE_MAX);
	redact_put(&text, judge_shown(j, 0), NULL);
	buf_put(&out->text, str_head(str_of(text.p, text.len), EXEC_TEXT_MAX));
	return j->text.st != ST_OK ? j->text.st : out->text.st;
}

enum status
exec_judge(const struct image *im, const struct exec_route *r, struct str body,
	   const struct str *kernel, struct exec_judged *out)
{
	struct judge j = { .im = im, .route = r, .kernel = kernel, .out = out };
	const struct jnode *root = NULL;
	enum status st;

	out->answer = (struct risk_answer){ RISK_LOW, RISK_NO_RULE, RISK_SIGN_NONE };
	exec_note_begin(&out->note, str_from(exec_op_name(r->op)));
	buf_init(&out->text, EXEC_TEXT_MAX);
	buf_init(&out->context, PLACE_CONTEXT_MAX);
	buf_init(&out->claimed, PLACE_LANGUAGE_MAX);
	arena_init(&j.tree, TREE_MAX);
	buf_init(&j.text, SPACE_MAX);
	st = digest(r, body, out->hash);
	if (st == ST_OK && body.p != NULL)
		st = jtree_read(&j.tree, body, &root);
	if (st == ST_OK)
		st = read_one(&j, root);
	if (st == ST_OK)
		st = tell(&j);
	arena_done(&j.tree);
	buf_done(&j.text);
	return st;
}

void
exec_judged_done(struct exec_judged *j)
{
	exec_note_done(&j->note);
	buf_done(&j->context);
	buf_done(&j->claimed);
	buf_done(&j->text);
}
