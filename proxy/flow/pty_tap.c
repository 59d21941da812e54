#include "proxy/flow/pty_tap.h"

enum state {
	CHANNEL, /* of a binary message, its first octet */
	BYTES,
	OBJECT,
	BEHIND, /* the object is whole */
	BROKEN,
};

enum want { TYPE, DATA, CODE, MODE, WANTS };

static const struct jpick_want wants[WANTS] = {
	[TYPE] = { -1, "type" },
	[DATA] = { -1, "data" },
	[CODE] = { -1, "exit_code" },
	[MODE] = { -1, "mode" },
};

enum { REPLAY_PLACE = 8 };

enum status
pty_tap_init(struct pty_tap *t)
{
	enum status st = ST_OK;

	memset(t, 0, sizeof *t);
	for (int i = 0; i < PTY_CHANNELS && st == ST_OK; i++)
		st = tally_init(&t->channels[i]);
	for (int i = 0; i < PTY_SIDES; i++)
		ws_frame_init(&t->sides[i].frames, i == PTY_CLIENT);
	if (st != ST_OK)
		pty_tap_done(t);
	return st;
}

void
pty_tap_done(struct pty_tap *t)
{
	for (int i = 0; i < PTY_CHANNELS; i++)
		tally_done(&t->channels[i]);
	tally_done(&t->early);
}

static void
break_message(struct pty_side_tap *s)
{
	s->is_hidden = s->is_hidden || s->state == OBJECT || s->state == BEHIND;
	s->state = BROKEN;
	s->unreadable++;
}

static void
begin_text(struct pty_side_tap *s)
{
	jpick_init(&s->pick, wants, WANTS);
	held_clear(&s->type);
	held_clear(&s->number);
	held_clear(&s->mode);
	s->is_early = false;
	s->state = OBJECT;
}

static void
take_channel(struct pty_tap *t, enum pty_side from, uint8_t channel)
{
	struct pty_side_tap *s = &t->sides[from];

	if (channel >= PTY_CHANNELS || (channel == PTY_STDIN) != (from == PTY_CLIENT)) {
		s->is_hidden = true;
		break_message(s);
		return;
	}
	s->channel = channel;
	s->skip = channel == PTY_REPLAY ? REPLAY_PLACE : 0;
	s->state = BYTES;
	t->channels[channel].texts++;
}

static void
typed(const struct pty_tap *t, struct str octets)
{
	if (t->typed != NULL)
		t->typed(t->ctx, octets);
}

static void
take_bytes(struct pty_tap *t, struct pty_side_tap *s, struct str data)
{
	size_t skip = num_min(s->skip, data.n);

	s->skip = (uint8_t)(s->skip - skip);
	data = str_skip(data, skip);
	if (s->channel == PTY_REPLAY)
		t->channels[PTY_REPLAY].octets += data.n;
	else
		tally_put(&t->channels[s->channel], data);
	if (s->channel == PTY_STDIN)
		typed(t, data);
}

static bool
is_stdin(const struct pty_side_tap *s)
{
	return held_is(&s->type, STR("stdin"));
}

/* What is typed, of a message whose type may come behind it. */
static void
take_typed(struct pty_tap *t, struct pty_side_tap *s, struct str part)
{
	bool is_typed = (s->pick.seen >> TYPE & 1) != 0;

	if (s != &t->sides[PTY_CLIENT])
		return;
	if (is_typed) {
		if (!is_stdin(s))
			return;
		tally_put(&t->channels[PTY_STDIN], part);
		typed(t, part);
		return;
	}
	if (!s->is_early && tally_fork(&t->early, &t->channels[PTY_STDIN]) != ST_OK) {
		break_message(s);
		return;
	}
	s->is_early = true;
	tally_put(&t->early, part);
	typed(t, part);
}

static void
take_object(struct pty_tap *t, struct pty_side_tap *s, struct str *in)
{
	struct str part;
	int want;

	while (s->state == OBJECT) {
		enum jpick_found k = jpick_next(&s->pick, in, &want, &part);
		if (k == JPICK_AGAIN)
			return;
		if (k == JPICK_OVER)
			s->state = BEHIND;
		else if (k == JPICK_BAD)
			break_message(s);
		else if (want == CODE && k == JPICK_NUMBER)
			held_put(&s->number, part);
		else if (want == TYPE && k == JPICK_STRING)
			held_put(&s->type, part);
		else if (want == MODE && k == JPICK_STRING)
			held_put(&s->mode, part);
		else if (want == DATA && k == JPICK_STRING)
			take_typed(t, s, part);
	}
}

static void
take_behind(struct pty_side_tap *s, struct str in)
{
	for (size_t i = 0; i < in.n && s->state == BEHIND; i++) {
		if (!jscan_is_space(in.p[i]))
			break_message(s);
	}
}

static void
take_data(struct pty_tap *t, enum pty_side from, struct str data)
{
	struct pty_side_tap *s = &t->sides[from];

	if (s->state == CHANNEL) {
		take_channel(t, from, (uint8_t)data.p[0]);
		data = str_skip(data, 1);
	}
	if (s->state == BYTES)
		take_bytes(t, s, data);
	if (s->state == OBJECT)
		take_object(t, s, &data);
	if (s->state == BEHIND)
		take_behind(s, data);
}

static void
settle_object(struct pty_tap *t, enum pty_side from)
{
	struct pty_side_tap *s = &t->sides[from];

	if (from == PTY_CLIENT && is_stdin(s)) {
		t->channels[PTY_STDIN].texts++;
		if (s->is_early)
			tally_settle(&t->channels[PTY_STDIN], &t->early);
	} else if (from == PTY_CLIENT && s->is_early) {
		break_message(s);
	}
	if (from == PTY_SERVER && held_is(&s->type, STR("exit")))
		t->has_code = held_int(&s->number, &t->code);
	if (from == PTY_SERVER && held_is(&s->type, STR("connected")))
		t->is_tty = held_is(&s->mode, STR("pty"));
}

static void
end_message(struct pty_tap *t, enum pty_side from)
{
	struct pty_side_tap *s = &t->sides[from];

	s->messages++;
	if (s->state == BEHIND)
		settle_object(t, from);
	else if (s->state == OBJECT || s->state == CHANNEL || s->skip > 0)
		break_message(s);
	s->skip = 0;
}

void
pty_tap_put(struct pty_tap *t, enum pty_side from, struct str in)
{
	struct pty_side_tap *s = &t->sides[from];
	enum ws_event e = WS_PING;
	struct str data;

	while (e != WS_AGAIN && e != WS_BAD) {
		e = ws_frame_next(&s->frames, &in, &data);
		if (e == WS_TEXT)
			begin_text(s);
		else if (e == WS_BINARY)
			s->state = CHANNEL;
		else if (e == WS_DATA)
			take_data(t, from, data);
		else if (e == WS_END)
			end_message(t, from);
		else if (e == WS_CLOSE)
			s->is_closed = true;
	}
	s->is_blind = e == WS_BAD;
	s->is_hidden = s->is_hidden || s->is_blind;
}
