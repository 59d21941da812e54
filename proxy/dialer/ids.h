#ifndef PROXY_DIALER_IDS_H
#define PROXY_DIALER_IDS_H
/*
 * ids: do these query ids and source ports look drawn by chance?  A resolver library
 * that lost its source of randomness says nothing (CVE-2023-31147), so the dialer looks
 * at what really leaves before it serves anyone.  A good source fails once in some
 * hundred million starts.
 */
#include "proxy/base/base.h"

enum { IDS_SAMPLE = 1000 };

bool ids_are_plausible(const uint16_t ids[IDS_SAMPLE]);
/* Of queries that leave from one channel after the other, 64 from each: are ports
 * renewed (channel.h), as far as chance and a small range allow? */
bool ids_ports_are_renewed(const uint16_t ports[IDS_SAMPLE]);

#endif
