/*
 * What an answer says depends on its question and its answer section alone, and every
 * address that is taken stands in the packet with the right length before it.
 *
 * Input: type (odd: AAAA), then the packet behind the question; the question is ours.
 */
#include <string.h>

#include "proxy/dialer/packet.c"

enum { FUZZ_MAX = 4096, TAIL = 16 };

static bool
stands_in(struct str packet, const struct addr *a)
{
	size_t n = a->family == 4 ? 4 : 16;

	for (size_t at = 2; at + n <= packet.n; at++)
		if (num_be16(packet.p + at - 2) == n &&
		    memcmp(packet.p + at, a->b, n) == 0)
			return true;
	return false;
}

static void
check_letters(const struct packet_query *q, uint8_t *packet, size_t n)
{
	struct packet_answer a;

	for (size_t i = HEADER; i < q->len - 4; i++) {
		if (!ascii_is_alpha((char)packet[i]))
			continue;
		packet[i] ^= 0x20;
		need(packet_read_answer(q, str_of(packet, n), &a) == ST_MISMATCH);
		packet[i] ^= 0x20;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t noise[PACKET_NOISE] = { 1, 2, 0xa5 };
	uint8_t packet[HEADER + 64 + FUZZ_MAX + TAIL];
	struct packet_query q;
	struct packet_answer a, again;

	if (size < 5 || size > FUZZ_MAX)
		return 0;
	uint16_t type = data[0] & 1 ? PACKET_TYPE_AAAA : PACKET_TYPE_A;
	need(packet_make_query(STR("www.ok.test"), type, noise, &q) == ST_OK);
	memcpy(packet, q.bytes, q.len);
	memcpy(packet + 2, data + 1, 2); /* flags */
	memcpy(packet + 6, data + 3, 2); /* how many answers */
	memcpy(packet + q.len, data + 5, size - 5);
	size_t n = q.len + size - 5;
	enum status st = packet_read_answer(&q, str_of(packet, n), &a);
	memset(packet + n, 0xc0, TAIL);
	if (st != ST_OK)
		return 0;
	need(a.n <= PACKET_ADDRS_MAX && (a.n > 0 || a.ttl == 0));
	need(a.ttl <= INT32_MAX);
	for (size_t i = 0; i < a.n; i++)
		need(stands_in(str_of(packet, n), &a.addrs[i]));
	need(packet_read_answer(&q, str_of(packet, n + TAIL), &again) == ST_OK);
	need(again.st == a.st && again.n == a.n && again.ttl == a.ttl);
	check_letters(&q, packet, n);
	return 0;
}
