#ifndef PROXY_BASE_CRC_H
#define PROXY_BASE_CRC_H
/* CRC-32 as in IEEE 802.3 and gzip: finds accidents, proves nothing against malice. */
#include "proxy/base/str.h"

uint32_t crc_32(struct str s); /* of "123456789": 0xcbf43926 */

#endif
