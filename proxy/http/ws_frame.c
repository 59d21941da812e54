#include "proxy/http/ws_frame.h"

#include "proxy/base/num.h"

enum state { HEAD, PAYLOAD, BAD };

enum opcode { CONTINUATION, TEXT, BINARY, CLOSE = 8, PING, PONG };

enum {
	FINAL = 0x80,
	RESERVED = 0x70,
	OPCODE = 0x0f,
	CONTROL = 0x08,
	MASKED = 0x80,
	LENGTH = 0x7f,
	LENGTH_16 = 126,
	LENGTH_64 = 127,
	CONTROL_MAX = 125,
	MASK = 4,
};

void
ws_frame_init(struct ws_frame *f, bool is_client)
{
	*f = (struct ws_frame){ .is_client = is_client, .state = HEAD };
}

static enum ws_event
fail(struct ws_frame *f)
{
	f->state = BAD;
	return WS_BAD;
}

/* Octets of the head, as far as they are known. */
static size_t
head_size(const struct ws_frame *f)
{
	size_t n = 2 + (f->is_client ? (size_t)MASK : 0);

	if (f->head_n < 2)
		return n;
	uint8_t length = f->head[1] & LENGTH;
	return n + (length == LENGTH_16 ? 2 : length == LENGTH_64 ? 8 : 0);
}

/* The first two octets, as soon as they are there. */
static bool
is_head_good(const struct ws_frame *f)
{
	uint8_t code = f->head[0] & OPCODE, length = f->head[1] & LENGTH;
	bool is_control = (code & CONTROL) != 0;

	if ((f->head[0] & RESERVED) != 0 || f->is_closed ||
	    ((f->head[1] & MASKED) != 0) != f->is_client)
		return false;
	if (is_control)
		return code <= PONG && (f->head[0] & FINAL) != 0 &&
		       length <= CONTROL_MAX;
	return code <= BINARY && (code == CONTINUATION) == f->is_open;
}

static bool
take_length(struct ws_frame *f)
{
	uint8_t length = f->head[1] & LENGTH;

	f->left = length;
	if (length == LENGTH_16) {
		f->left = num_be16(f->head + 2);
		return f->left > CONTROL_MAX;
	}
	if (length == LENGTH_64) {
		f->left = num_be64(f->head + 2);
		return f->left > UINT16_MAX && f->left <= INT64_MAX;
	}
	return true;
}

static enum ws_event
begin_control(struct ws_frame *f, uint8_t code)
{
	if (code == PING)
		return WS_PING;
	if (code == PONG)
		return WS_PONG;
	f->is_closed = true;
	return WS_CLOSE;
}

static enum ws_event
begin_frame(struct ws_frame *f)
{
	uint8_t code = f->head[0] & OPCODE;

	if (!take_length(f))
		return fail(f);
	f->state = PAYLOAD;
	f->mask_at = 0;
	f->is_control = (code & CONTROL) != 0;
	f->is_final = (f->head[0] & FINAL) != 0;
	if (f->is_control)
		return begin_control(f, code);
	f->is_open = true;
	if (code == CONTINUATION)
		return WS_AGAIN;
	return code == TEXT ? WS_TEXT : WS_BINARY;
}

static enum ws_event
step_head(struct ws_frame *f, struct str *in)
{
	f->head[f->head_n++] = (uint8_t)in->p[0];
	*in = str_skip(*in, 1);
	if (f->head_n == 2 && !is_head_good(f))
		return fail(f);
	return f->head_n < head_size(f) ? WS_AGAIN : begin_frame(f);
}

static struct str
unmask(struct ws_frame *f, struct str s)
{
	const uint8_t *mask = f->head + f->head_n - MASK;

	for (size_t i = 0; i < s.n; i++) {
		f->out[i] = (char)((uint8_t)s.p[i] ^ mask[f->mask_at]);
		f->mask_at = (uint8_t)((f->mask_at + 1U) % MASK);
	}
	return str_of(f->out, s.n);
}

static enum ws_event
step_payload(struct ws_frame *f, struct str *in, struct str *ret_data)
{
	size_t n = f->left < in->n ? (size_t)f->left : in->n;

	if (f->left == 0) {
		f->state = HEAD;
		f->head_n = 0;
		if (f->is_control || !f->is_final)
			return WS_AGAIN;
		f->is_open = false;
		return WS_END;
	}
	if (n == 0)
		return WS_AGAIN;
	if (f->is_client && !f->is_control)
		n = num_min(n, sizeof f->out);
	struct str piece = str_head(*in, n);
	*in = str_skip(*in, n);
	f->left -= n;
	if (f->is_control)
		return WS_AGAIN;
	*ret_data = f->is_client ? unmask(f, piece) : piece;
	return WS_DATA;
}

enum ws_event
ws_frame_next(struct ws_frame *f, struct str *in, struct str *ret_data)
{
	enum ws_event e = WS_AGAIN;

	/* The end of a frame is told without an octet behind it. */
	while (e == WS_AGAIN && f->state != BAD &&
	       (in->n > 0 || (f->state == PAYLOAD && f->left == 0))) {
		if (f->state == HEAD)
			e = step_head(f, in);
		else
			e = step_payload(f, in, ret_data);
	}
	return f->state == BAD ? WS_BAD : e;
}
