#include "proxy/flow/exec_tap.h"

enum state {
	LINE, /* at its beginning, or in what may stand before the object */
	DATA, /* behind data: */
	EVENT,
	BEHIND, /* the object is whole */
	IGNORE, /* nothing of it counts */
	BROKEN,
};

enum want { TYPE, TEXT, TIME, ERROR, ENAME, EVALUE, RESULTS, KIND, WANTS };

static const struct jpick_want wants[WANTS] = {
	[TYPE] = { -1, "type" },           [TEXT] = { -1, "text" },
	[TIME] = { -1, "execution_time" }, [ERROR] = { -1, "error" },
	[ENAME] = { ERROR, "ename" },      [EVALUE] = { ERROR, "evalue" },
	[RESULTS] = { -1, "results" },     [KIND] = { RESULTS, NULL },
};

enum status
exec_tap_init(struct exec_tap *t)
{
	enum status st = ST_OK;

	*t = (struct exec_tap){ .state = LINE };
	for (int i = 0; i < EXEC_OUTS && st == ST_OK; i++)
		st = tally_init(&t->out[i]);
	if (st != ST_OK)
		exec_tap_done(t);
	return st;
}

void
exec_tap_done(struct exec_tap *t)
{
	for (int i = 0; i < EXEC_OUTS; i++) {
		tally_done(&t->out[i]);
		tally_done(&t->early[i]);
	}
}

static void
break_line(struct exec_tap *t)
{
	t->state = BROKEN;
	t->unreadable++;
}

static void
begin_event(struct exec_tap *t)
{
	struct exec_event *e = &t->now;

	held_clear(&e->type);
	held_clear(&e->text);
	held_clear(&e->ename);
	held_clear(&e->evalue);
	held_clear(&e->ms);
	e->is_early = e->is_forked = false;
	jpick_init(&t->pick, wants, WANTS);
	t->state = EVENT;
}

/* One walk: a peer may send as many names as it likes. */
static bool
has_kind(const struct exec_tap *t, struct str name)
{
	for (const char *p = t->kinds; p < t->kinds + t->kinds_n;
	     p += 1 + (uint8_t)*p) {
		if (str_eq(str_of(p + 1, (uint8_t)*p), name))
			return true;
	}
	return false;
}

static void
add_kind(struct exec_tap *t, struct str name)
{
	if (has_kind(t, name))
		return;
	if (name.n > JPICK_NAME || name.n + 1 > sizeof t->kinds - t->kinds_n ||
	    t->kinds_count == EXEC_TAP_KINDS) {
		t->is_kinds_cut = true;
		return;
	}
	t->kinds[t->kinds_n] = (char)name.n;
	memcpy(t->kinds + t->kinds_n + 1, name.p, name.n);
	t->kinds_n = (uint16_t)(t->kinds_n + 1 + name.n);
	t->kinds_count++;
}

bool
exec_tap_kind(const struct exec_tap *t, size_t i, struct str *ret_kind)
{
	const char *p = t->kinds;

	if (i >= t->kinds_count)
		return false;
	for (; i > 0; i--)
		p += 1 + (uint8_t)*p;
	*ret_kind = str_of(p + 1, (uint8_t)*p);
	return true;
}

/*
 * Text before its type, and longer than what is held of it: counted for whichever of the
 * two outputs it may be.  before: what was held without this part.
 */
static void
put_early(struct exec_tap *t, struct str part, size_t before)
{
	struct exec_event *e = &t->now;
	enum status st = ST_OK;

	for (int i = 0; i < EXEC_OUTS && !e->is_forked && st == ST_OK; i++) {
		st = tally_fork(&t->early[i], &t->out[i]);
		if (st == ST_OK)
			tally_put(&t->early[i], held_str(&e->text));
	}
	if (st != ST_OK) {
		break_line(t);
		return;
	}
	part = str_skip(part, e->is_forked ? 0 : HELD_MAX - before);
	e->is_forked = true;
	for (int i = 0; i < EXEC_OUTS; i++)
		tally_put(&t->early[i], part);
}

/* Which output an event is; EXEC_OUTS: none. */
static enum exec_out
out_of(const struct exec_event *e)
{
	if (held_is(&e->type, STR("stdout")))
		return EXEC_STDOUT;
	return held_is(&e->type, STR("stderr")) ? EXEC_STDERR : EXEC_OUTS;
}

static void
put_text(struct exec_tap *t, struct str part)
{
	struct exec_event *e = &t->now;
	enum exec_out out = out_of(e);
	size_t before = e->text.n;

	held_put(&e->text, part);
	if ((t->pick.seen >> TYPE & 1) == 0) {
		e->is_early = true;
		if (e->text.is_cut)
			put_early(t, part, before);
	} else if (out != EXEC_OUTS) {
		tally_put(&t->out[out], part);
	}
}

static void
take_string(struct exec_tap *t, int want, struct str part)
{
	if (want == TYPE)
		held_put(&t->now.type, part);
	else if (want == TEXT)
		put_text(t, part);
	else if (want == ENAME)
		held_put(&t->now.ename, part);
	else if (want == EVALUE)
		held_put(&t->now.evalue, part);
}

/* What picking has found in a piece of the line; the rest is left in *line. */
static void
take_event(struct exec_tap *t, struct str *line)
{
	struct str part;
	int want;

	while (t->state == EVENT) {
		enum jpick_found k = jpick_next(&t->pick, line, &want, &part);
		if (k == JPICK_AGAIN)
			return;
		if (k == JPICK_OVER)
			t->state = BEHIND;
		else if (k == JPICK_BAD)
			break_line(t);
		else if (k == JPICK_KEY)
			add_kind(t, part);
		else if (k == JPICK_STRING)
			take_string(t, want, part);
		else if (want == TIME)
			held_put(&t->now.ms, part);
	}
}

static void
settle_error(struct exec_tap *t)
{
	t->has_error = true;
	t->ename = t->now.ename;
	t->has_code = held_int(&t->now.evalue, &t->code);
}

static void
settle_time(struct exec_tap *t)
{
	const struct held *ms = &t->now.ms;

	t->is_complete = true;
	t->has_ms = !ms->is_cut && num_parse_strict(held_str(ms), INT64_MAX, &t->ms);
}

static void
settle_event(struct exec_tap *t)
{
	const struct exec_event *e = &t->now;
	enum exec_out out = out_of(e);

	t->events++;
	if (out != EXEC_OUTS) {
		t->out[out].texts++;
		if (e->is_forked)
			tally_settle(&t->out[out], &t->early[out]);
		else if (e->is_early)
			tally_put(&t->out[out], held_str(&e->text));
	} else if (held_is(&e->type, STR("init"))) {
		t->id = e->text;
	} else if (held_is(&e->type, STR("error"))) {
		settle_error(t);
	} else if (held_is(&e->type, STR("execution_complete"))) {
		settle_time(t);
	}
}

static void
end_line(struct exec_tap *t)
{
	if (t->state == BEHIND)
		settle_event(t);
	else if (t->state == EVENT || (t->state == LINE && t->prefix_n > 0))
		break_line(t);
	t->state = LINE;
	t->prefix_n = 0;
}

/* Does the line begin with a field of server-sent events, or may it become one? */
static void
judge_prefix(struct exec_tap *t)
{
	static const struct {
		struct str name;
		enum state then;
	} fields[] = {
		{ { "data:", 5 }, DATA },    { { ":", 1 }, IGNORE },
		{ { "event:", 6 }, IGNORE }, { { "id:", 3 }, IGNORE },
		{ { "retry:", 6 }, IGNORE },
	};
	struct str have = str_of(t->prefix, t->prefix_n);

	for (size_t i = 0; i < COUNT_OF(fields); i++) {
		if (str_eq(have, fields[i].name))
			t->state = (uint8_t)fields[i].then;
		if (str_starts(fields[i].name, have))
			return;
	}
	break_line(t);
}

/* What stands before the object, octet by octet. */
static void
take_lead(struct exec_tap *t, struct str *line)
{
	while (line->n > 0 && (t->state == LINE || t->state == DATA)) {
		char c = line->p[0];
		bool may_begin = t->state == DATA || t->prefix_n == 0;
		if (c == '{' && may_begin) {
			begin_event(t);
			return;
		}
		*line = str_skip(*line, 1);
		if (jscan_is_space(c) && may_begin)
			continue;
		if (t->state == DATA) {
			break_line(t);
			return;
		}
		t->prefix[t->prefix_n++] = c;
		judge_prefix(t);
	}
}

static void
take_behind(struct exec_tap *t, struct str line)
{
	for (size_t i = 0; i < line.n; i++) {
		if (!jscan_is_space(line.p[i])) {
			break_line(t);
			return;
		}
	}
}

static void
take_line(struct exec_tap *t, struct str line)
{
	if (t->state == LINE || t->state == DATA)
		take_lead(t, &line);
	if (t->state == EVENT)
		take_event(t, &line);
	if (t->state == BEHIND)
		take_behind(t, line);
}

void
exec_tap_put(struct exec_tap *t, struct str in)
{
	while (in.n > 0) {
		const char *end = memchr(in.p, '\n', in.n);
		size_t n = end == NULL ? in.n : (size_t)(end - in.p);
		take_line(t, str_head(in, n));
		if (end == NULL)
			return;
		end_line(t);
		in = str_skip(in, n + 1);
	}
}

void
exec_tap_end(struct exec_tap *t)
{
	end_line(t);
}

bool
exec_tap_exit(const struct exec_tap *t, int64_t *ret_code)
{
	if (t->has_error && !t->has_code)
		return false;
	if (!t->has_error && !t->is_complete)
		return false;
	*ret_code = t->has_error ? t->code : 0;
	return true;
}
