#ifndef PROXY_BASE_SIP_H
#define PROXY_BASE_SIP_H
/*
 * sip: SipHash-2-4, a keyed hash of 64 bits that nobody without the key can foretell
 * (Aumasson and Bernstein, 2012).  For numbers that must look random and come again from
 * the same input; not for what must withstand a search for collisions of 2^32 steps.
 */
#include "proxy/base/str.h"

struct sip_key {
	unsigned char bytes[16];
};

uint64_t sip_hash(const struct sip_key *key, struct str s);

#endif
