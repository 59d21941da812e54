#ifndef PROXY_CLI_GATEWAY_RULES_H
#define PROXY_CLI_GATEWAY_RULES_H
/*
 * gateway_rules: the nft rules that put the gateway in front of one interface (a docker
 * bridge, a veth, a tap): TCP and port 53 are redirected to the listeners, QUIC is
 * refused with ICMP so that clients fall back, all else of the interface is dropped,
 * in both families.  Nothing passes when the gateway is down: what is redirected then
 * meets a closed port, and nothing is forwarded.
 *
 * A pin binds a sandbox's bridge port, MAC and IP to each other; with pins, frames that
 * fit none are dropped before they are anything else, and pinned ports exchange none
 * with other ports of the bridge.  Without pins neighbours on one bridge see each
 * other.
 *
 * With `sandboxes` the table `bridge sandgate_pinned` has sets instead, which begin empty:
 * nothing on the interface passes that isn't in them.  proxy/locator/pins.h says what each
 * of them is.
 */
#include "proxy/base/addr.h"

enum { PINS_MAX = 1024, IFNAME_MAX = 15 };

struct gateway_pin {
	char port[IFNAME_MAX + 1];
	char mac[18]; /* aa:bb:cc:dd:ee:ff */
	struct addr ip;
};

struct gateway_rules {
	char interface[IFNAME_MAX + 1];
	uint16_t tcp_port, dns_port; /* of the transparent and the dns listener */
	bool tproxy;                 /* TPROXY instead of REDIRECT, for TCP */
	bool sandboxes; /* pins come while the gateway runs: sandgate-locator */
	const struct gateway_pin *pins;
	size_t pins_n;
};

bool gateway_is_ifname(struct str s); /* letters, digits, '.', '_', '-', '@'; 1 to 15 */
/* PORT,MAC,IP */
bool gateway_pin_parse(struct str text, struct gateway_pin *ret_p) MUSTCHECK;

/* The ports of the first fitting listeners of a configuration; says on standard error
 * which kind is missing. */
bool gateway_find_ports(const char *config, struct gateway_rules *g) MUSTCHECK;

void gateway_put_rules(struct buf *b, const struct gateway_rules *r);

#endif
