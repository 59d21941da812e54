#ifndef CONF_VALUE_H
#define CONF_VALUE_H
/*
 * value: one scalar of the file as what it means.  Each function reports what is wrong
 * at the scalar's place and returns false, or fills its output.  The report remembers
 * the failure, so a caller with nothing to undo may go on.
 */
#include "conf/node.h"
#include "proxy/base/addr.h"

/* A scalar that isn't empty. */
bool value_text(struct report *r, const struct node *n, struct str *ret_s);
bool value_flag(struct report *r, const struct node *n, bool *ret_f); /* true, false */
bool value_number(struct report *r, const struct node *n, uint64_t least, uint64_t most,
		  uint64_t *ret_v);
/* 2s, 50ms, 1h, 90d; in ms.  A bare number has no unit and is refused, but 0. */
bool value_duration(struct report *r, const struct node *n, uint64_t least,
		    uint64_t most, uint64_t *ret_ms);
/* 512, 64KiB, 1GiB; in bytes. */
bool value_size(struct report *r, const struct node *n, uint64_t least, uint64_t most,
		uint64_t *ret_bytes);
/* One of words ("a|b|c"): its index. */
bool value_choice(struct report *r, const struct node *n, struct str words,
		  uint64_t *ret_i);
/* 443, "443" or 9000-9100. */
bool value_ports(struct report *r, const struct node *n, uint16_t *ret_low,
		 uint16_t *ret_high);
bool value_addr(struct report *r, const struct node *n, struct addr *ret_a);
/* 10.0.0.0/8, or a bare address. */
bool value_cidr(struct report *r, const struct node *n, struct cidr *ret_c);
/* ADDRESS:PORT or [V6]:PORT; default_port 0: the port must be there. */
bool value_addr_port(struct report *r, const struct node *n, uint16_t default_port,
		     struct addr *ret_a, uint16_t *ret_port);
/* A SHA-256 in 64 hex digits. */
bool value_sha256(struct report *r, const struct node *n, uint8_t ret_hash[32]);
/* Letters, digits, `-`, `_`, `.`, at most 64: what names a listener, sandbox or policy.
 */
bool value_name(struct report *r, const struct node *n, struct str *ret_s);

/* The same numbers out of plain text, for defaults; false when malformed. */
bool value_parse_duration(struct str s, uint64_t *ret_ms) MUSTCHECK;
bool value_parse_size(struct str s, uint64_t *ret_bytes) MUSTCHECK;

#endif
