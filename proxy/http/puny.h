#ifndef PROXY_HTTP_PUNY_H
#define PROXY_HTTP_PUNY_H
/*
 * puny: is this the one punycode spelling (RFC 3492) of some non-ASCII label?  Only
 * asks; names stay in the form they came in, and Unicode never enters the gateway.
 */
#include "proxy/base/str.h"

/* The part behind "xn--", lower case. */
bool puny_is_valid(struct str ace);

#endif
