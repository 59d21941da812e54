#include "proxy/http/framing.h"

#include "proxy/base/num.h"

/* Content-Length and Transfer-Encoding, without saying yet what they mean here. */
static enum status
parse_lengths(struct head *h, bool *ret_is_chunked)
{
	const struct field *cl = head_get(h, TOKEN_CONTENT_LENGTH);
	const struct field *te = head_get(h, TOKEN_TRANSFER_ENCODING);

	if (head_count(h, TOKEN_CONTENT_LENGTH) +
		    head_count(h, TOKEN_TRANSFER_ENCODING) >
	    1)
		return ST_BAD_FRAMING;
	if (te != NULL && (h->minor == 0 || !str_ieq(te->value, STR("chunked"))))
		return ST_BAD_FRAMING;
	if (cl != NULL && !num_parse_strict(cl->value, INT64_MAX, &h->length))
		return ST_BAD_FRAMING;
	h->has_length = cl != NULL;
	*ret_is_chunked = te != NULL;
	return ST_OK;
}

static enum status
check_expect(struct head *h)
{
	const struct field *e = head_get(h, TOKEN_EXPECT);

	if (e == NULL ||
	    h->minor == 0) /* RFC 9110 section 10.1.1: 1.0 is to be ignored */
		return ST_OK;
	if (head_count(h, TOKEN_EXPECT) > 1 || !str_ieq(e->value, STR("100-continue")))
		return ST_EXPECT_FAILED;
	h->expects_continue = true;
	return ST_OK;
}

enum status
framing_of_request(struct head *h)
{
	bool is_chunked = false;

	enum status st = parse_lengths(h, &is_chunked);
	if (st != ST_OK)
		return st;
	if (h->method_id == METHOD_CONNECT && (is_chunked || h->has_length))
		return ST_BAD_FRAMING;
	h->body = is_chunked ? BODY_CHUNKED : h->has_length ? BODY_LENGTH : BODY_NONE;
	return check_expect(h);
}

enum status
framing_of_response(struct head *h, enum method asked, bool asked_upgrade)
{
	bool is_success = h->status >= 200 && h->status < 300;
	bool is_connected = asked == METHOD_CONNECT && is_success;
	bool is_empty = !is_connected && (h->status < 200 || h->status == 204);
	bool is_chunked = false;

	enum status st = parse_lengths(h, &is_chunked);
	if (st != ST_OK)
		return st;
	if (is_empty && (is_chunked || (h->has_length && h->length > 0)))
		return ST_UPSTREAM_BAD; /* it says that a body follows where none may */
	if (is_connected || h->status == 101)
		h->body = BODY_TUNNEL;
	else if (is_empty || h->status == 304 || asked == METHOD_HEAD)
		h->body = BODY_NONE;
	else if (is_chunked)
		h->body = BODY_CHUNKED;
	else
		h->body = h->has_length ? BODY_LENGTH : BODY_UNTIL_CLOSE;
	return h->status == 101 && !asked_upgrade ? ST_UPSTREAM_BAD : ST_OK;
}
