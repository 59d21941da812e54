/*
 * Whatever a body or query says: the same answer twice, a note that is a JSON object within
 * its bound, a text within its own.  What Jansson finds as the command, the code or an
 * argument of a body that is taken is at least as sensitive by itself as the whole is said to
 * be: nothing that runs escapes the rules.
 *
 * Input: an octet for the route, then the body; of routes without one, the query.
 */
#include <jansson.h>
#include <string.h>

#include "proxy/base/jtidy.h"
#include "proxy/worker/exec_judge.h"
#include "tests/unit/risk_files.h"

#define EXECD "/sandboxes/s/proxy/44772"

static const struct {
	enum method method;
	const char *target;
	bool has_body;
} routes[] = {
	{ METHOD_POST, EXECD "/command", true },
	{ METHOD_POST, EXECD "/session/a/run", true },
	{ METHOD_POST, EXECD "/code", true },
	{ METHOD_POST, EXECD "/pty", true },
	{ METHOD_POST, "/sandboxes", true },
	{ METHOD_POST, EXECD "/files/mv", true },
	{ METHOD_POST, EXECD "/files/permissions", true },
	{ METHOD_POST, EXECD "/directories", true },
	{ METHOD_DELETE, EXECD "/files", false },
	{ METHOD_GET, EXECD "/files/download", false },
	{ METHOD_POST, EXECD "/newer", false },
};

static void
need_sound(struct exec_judged *j)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str note = exec_note_end(&j->note);

	buf_init(&b, 4 * ROW_EXEC_MAX);
	need(note.n <= ROW_EXEC_MAX && j->text.len <= EXEC_TEXT_MAX);
	need(jtidy_put_object(&b, note));
}

static struct str
text_of(json_t *v)
{
	return str_of(json_string_value(v), json_string_length(v));
}

/* By itself, as a shell or an interpreter gets it. */
static void
need_within(const struct image *im, enum risk_level all, struct risk_question q)
{
	struct risk_answer a;

	risk_judge(im, &q, &a);
	need(a.level <= all);
}

static void
need_all_judged(const struct image *im, struct str body, enum risk_level all)
{
	json_t *v = json_loadb(body.p, body.n, 0, NULL);
	json_t *command = json_object_get(v, "command"),
	       *argv = json_object_get(v, "argv");
	struct str words[16];
	struct risk_question q = { .kind = RISK_ARGV, .argv = words };

	if (json_is_string(command))
		need_within(im, all,
			    (struct risk_question){ .kind = RISK_COMMAND,
						    .text = text_of(command) });
	if (json_array_size(argv) > 0 && json_array_size(argv) <= COUNT_OF(words)) {
		for (q.argv_n = 0; q.argv_n < json_array_size(argv); q.argv_n++)
			words[q.argv_n] = text_of(json_array_get(argv, q.argv_n));
		need_within(im, all, q);
	}
	json_decref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* What isn't known is as bad as the worst that it may be. */
static void
need_no_less_in_context(const struct image *im, const struct exec_route *r,
			struct str body, enum risk_level claimed)
{
	CLEANUP(exec_judged_done)
	struct exec_judged any = { 0 }, shell = { 0 }, python = { 0 };
	const struct str none = STR(""), bash = STR("bash"), py = STR("python");

	need(exec_judge(im, r, body, &none, &any) == ST_OK);
	need(exec_judge(im, r, body, &bash, &shell) == ST_OK);
	need(exec_judge(im, r, body, &py, &python) == ST_OK);
	need(shell.answer.level >= claimed && python.answer.level >= claimed);
	need(any.answer.level >= shell.answer.level &&
	     any.answer.level >= python.answer.level);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct image *im;
	CLEANUP(exec_judged_done) struct exec_judged one = { 0 };
	CLEANUP(exec_judged_done) struct exec_judged two = { 0 };
	struct exec_route r;

	if (size < 1)
		return 0;
	if (im == NULL)
		im = risk_image_shipped();
	size_t which = data[0] % COUNT_OF(routes);
	struct str in = str_of(data + 1, size - 1), none = { 0 };
	struct str body = routes[which].has_body ? in : none;
	need(exec_route_read(routes[which].method, str_from(routes[which].target),
			     &r) == ST_OK);
	if (!routes[which].has_body)
		r.query = in;
	enum status st = exec_judge(im, &r, body, NULL, &one);
	need(exec_judge(im, &r, body, NULL, &two) == st);
	need(one.answer.level == two.answer.level &&
	     one.answer.rule == two.answer.rule);
	need(memcmp(one.hash, two.hash, sizeof one.hash) == 0);
	need_sound(&one);
	if (st == ST_OK && one.has_context)
		need_no_less_in_context(im, &r, body, one.answer.level);
	if (st == ST_OK && which < 2 && !str_has(in, '\0'))
		need_all_judged(im, body, one.answer.level);
	return 0;
}
