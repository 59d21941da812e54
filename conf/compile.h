#ifndef CONF_COMPILE_H
#define CONF_COMPILE_H
/*
 * compile: what sandgate-compile tells the process that started it.
 *
 *	argv[1]       the main configuration file
 *	descriptor 3  a SOCK_SEQPACKET; one packet is sent, then the process ends
 *
 * The packet: status u16 (ST_OK or why not), then messages for the operator, errors and
 * warnings, as lines "file:line:col: text" (may be empty; cut at a line's end to fit).
 * With ST_OK it carries descriptors: the image's sealed memfd, then the database of
 * countries, then that of networks, of those that the image names; then the roots for
 * TLS towards hosts, unless none are named and the system has none.
 */
enum { COMPILE_FD = 3, COMPILE_PACKET_MAX = 32000 };

#endif
