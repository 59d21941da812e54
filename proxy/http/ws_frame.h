#ifndef PROXY_HTTP_WS_FRAME_H
#define PROXY_HTTP_WS_FRAME_H
/*
 * ws_frame: one direction of a WebSocket (RFC 6455 section 5) taken apart into messages as
 * it comes: payload as views, of the input or, unmasked, of the reader.  Nothing else is
 * kept; a message may be of any length.
 *
 * What the RFC forbids is WS_BAD, for good: a mask on the wrong side, reserved bits (no
 * extension is read here), lengths in more octets than needed or of 2^63, control frames
 * that are long or in pieces, pieces of no message, octets behind a close.
 */
#include "proxy/base/str.h"

enum { WS_PIECE = 512 };

enum ws_event {
	WS_AGAIN, /* all of the input was taken */
	WS_TEXT,  /* a message begins */
	WS_BINARY,
	WS_DATA, /* a piece of it, not empty */
	WS_END,  /* it is whole */
	WS_PING, /* a control frame; its payload is read over */
	WS_PONG,
	WS_CLOSE,
	WS_BAD,
};

struct ws_frame {
	bool is_client; /* whose frames these are */
	uint8_t state;
	bool is_open, is_final, is_control; /* a message; this frame */
	bool is_closed;
	uint8_t head_n;
	uint8_t head[14];
	uint8_t mask_at;
	uint64_t left;
	char out[WS_PIECE];
};

void ws_frame_init(struct ws_frame *f, bool is_client);
/* Takes from *in; *ret_data is set for WS_DATA only. */
enum ws_event ws_frame_next(struct ws_frame *f, struct str *in,
			    struct str *ret_data) MUSTCHECK;

#endif
