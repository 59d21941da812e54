#include "proxy/cli/gateway_rules.h"

#include <string.h>

#include "proxy/base/enc.h"

enum {
	MARK = 0x5a47, /* of packets that TPROXY took; routed to lo */
	PINNED =
		0x5a50, /* of packets that came as they are pinned, until they are routed */
};

bool
gateway_is_ifname(struct str s)
{
	if (s.n == 0 || s.n > IFNAME_MAX)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		if (!ascii_is_alpha(c) && !ascii_is_digit(c) &&
		    !str_has(STR("._-@"), c))
			return false;
	}
	return true;
}

static bool
is_mac(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (i % 3 == 2 ? s.p[i] != ':' : enc_hex_digit(s.p[i]) < 0)
			return false;
	return s.n == 17;
}

bool
gateway_pin_parse(struct str text, struct gateway_pin *ret_p)
{
	struct gateway_pin p = { .port = "" };
	struct str port = str_cut(&text, ','), mac = str_cut(&text, ',');

	if (!gateway_is_ifname(port) || !is_mac(mac) || !addr_parse(text, &p.ip))
		return false;
	memcpy(p.port, port.p, port.n);
	memcpy(p.mac, mac.p, mac.n);
	*ret_p = p;
	return true;
}

/* Frames to a bridge's own group addresses (01:80:c2:00:00:0x) are no bridge's to pass on: the
 * kernel takes them at the port itself, that of LLDP past each hook of the bridge.  What is in
 * them comes to the host's sockets as from the port, past all rules about the bridge.  No host
 * sends packets so. */
#define TO_GROUPS "ether daddr & ff:ff:ff:ff:ff:f0 == 01:80:c2:00:00:00 counter drop\n"

static void
put_groups(struct buf *b)
{
	buf_put(b, STR("\tchain groups {\n"
		       "\t\ttype filter hook prerouting priority -300; policy accept;\n"
		       "\t\t" TO_GROUPS "\t}\n"));
}

/* Nor does anybody note there who has which address. */
static void
put_arp(struct buf *b)
{
	buf_put(b, STR("table arp sandgate_groups {\n\tchain groups {\n"
		       "\t\ttype filter hook input priority -300; policy accept;\n"
		       "\t\t" TO_GROUPS "\t}\n}\n"));
}

/* Frames between neighbours of one bridge are routed by nobody: no other table sees them. */
static void
put_between(struct buf *b, const struct gateway_rules *r)
{
	buf_put(b, STR("\tchain between {\n"
		       "\t\ttype filter hook forward priority -300; policy accept;\n"));
	for (size_t i = 0; i < r->pins_n; i++)
		buf_putf(b,
			 "\t\tiifname \"%s\" counter drop\n\t\toifname \"%s\" "
			 "counter drop\n",
			 r->pins[i].port, r->pins[i].port);
	buf_put(b, STR("\t}\n"));
}

/* A bridge sees frames before any address is routed or translated. */
static void
put_pins(struct buf *b, const struct gateway_rules *r)
{
	if (r->pins_n == 0)
		return;
	buf_put(b,
		STR("table bridge sandgate_pins {\n"
		    "\tchain ports {\n"
		    "\t\ttype filter hook prerouting priority -300; policy accept;\n"));
	for (size_t i = 0; i < r->pins_n; i++) {
		const struct gateway_pin *p = &r->pins[i];
		const char *family = p->ip.family == 4 ? "ip" : "ip6";
		CLEANUP(buf_done) struct buf ip = { 0 };
		struct str text;
		buf_init(&ip, 64);
		addr_put(&ip, &p->ip);
		if (buf_finish(&ip, &text) != ST_OK)
			continue;
		buf_putf(b, "\t\tiifname \"%s\" ether saddr %s %s saddr %.*s accept\n",
			 p->port, p->mac, family, STR_ARG(text));
		if (p->ip.family == 4)
			buf_putf(b,
				 "\t\tiifname \"%s\" ether saddr %s arp saddr ether %s "
				 "arp saddr "
				 "ip %.*s accept\n",
				 p->port, p->mac, p->mac, STR_ARG(text));
		else /* neighbour discovery also speaks from link-local addresses */
			buf_putf(b,
				 "\t\tiifname \"%s\" ether saddr %s ip6 saddr "
				 "fe80::/10 icmpv6 type "
				 "{ nd-neighbor-solicit, nd-neighbor-advert } accept\n",
				 p->port, p->mac);
	}
	/* A port has what it is pinned to alone; from any other that is somebody else's. */
	for (size_t i = 0; i < r->pins_n; i++) {
		CLEANUP(buf_done) struct buf ip = { 0 };
		struct str text;
		buf_init(&ip, 64);
		addr_put(&ip, &r->pins[i].ip);
		buf_putf(b, "\t\tiifname \"%s\" drop\n", r->pins[i].port);
		if (buf_finish(&ip, &text) != ST_OK)
			continue;
		if (r->pins[i].ip.family == 4)
			buf_putf(b,
				 "\t\tip saddr %.*s drop\n\t\tarp saddr ip %.*s drop\n",
				 STR_ARG(text), STR_ARG(text));
		else
			buf_putf(b, "\t\tip6 saddr %.*s drop\n", STR_ARG(text));
	}
	buf_put(b, STR("\t}\n"));
	put_between(b, r);
	buf_put(b, STR("}\n"));
}

/* Pins that come and go while the gateway runs: sandgate-locator fills these sets.  A frame
 * doesn't say which bridge it is on (not every kernel knows `meta ibrname`), so what is
 * pinned is marked here, and what has no mark goes no further on our interface. */
static void
put_pinned(struct buf *b)
{
	buf_put(b,
		STR("table bridge sandgate_pinned {\n"
		    "\tset pinned4 { type ifname . ether_addr . ipv4_addr; }\n"
		    "\tset pinned6 { type ifname . ether_addr . ipv6_addr; }\n"
		    "\tset ports { type ifname . ether_addr; }\n"
		    "\tset names { type ifname; }\n"
		    "\tset macs { type ether_addr; }\n"
		    "\tchain pinned {\n"
		    "\t\ttype filter hook prerouting priority -300; policy accept;\n"));
	buf_putf(b, "\t\tmeta mark 0x%x meta mark set 0\n", PINNED);
	buf_putf(b,
		 "\t\tiifname . ether saddr . ip saddr @pinned4 meta mark set 0x%x "
		 "accept\n",
		 PINNED);
	buf_put(b,
		STR("\t\tiifname . ether saddr . arp saddr ip @pinned4 iifname . arp "
		    "saddr ether . arp saddr ip @pinned4 accept\n"));
	/* Who has an address is noted for good: no advertisement is needed. */
	buf_put(b, STR("\t\tiifname @names icmpv6 type nd-neighbor-advert drop\n"));
	buf_putf(b,
		 "\t\tiifname . ether saddr . ip6 saddr @pinned6 meta mark set 0x%x "
		 "accept\n"
		 "\t\tiifname . ether saddr @ports ip6 saddr fe80::/10 icmpv6 type "
		 "nd-neighbor-solicit meta mark set 0x%x accept\n",
		 PINNED, PINNED);
	buf_put(b, STR("\t\tiifname @names counter drop\n"
		       "\t\tether saddr @macs counter drop\n"
		       "\t}\n\tchain between {\n"
		       "\t\ttype filter hook forward priority -300; policy accept;\n"
		       "\t\tiifname @names counter drop\n"
		       "\t\toifname @names counter drop\n"
		       "\t}\n}\n"));
}

/* The mark goes in a chain of its own: rules that are loaded twice stand twice in theirs. */
static void
put_marked(struct buf *b, const struct gateway_rules *r)
{
	buf_putf(b,
		 "\tchain pinned {\n"
		 "\t\ttype filter hook prerouting priority -300; policy accept;\n"
		 "\t\tiifname \"%s\" meta mark != 0x%x counter drop\n\t}\n"
		 "\tchain unmark {\n"
		 "\t\ttype filter hook prerouting priority -299; policy accept;\n"
		 "\t\tiifname \"%s\" meta mark set 0\n\t}\n",
		 r->interface, PINNED, r->interface);
}

static void
put_capture(struct buf *b, const struct gateway_rules *r)
{
	buf_put(b, STR("\tchain capture {\n"
		       "\t\ttype nat hook prerouting priority -100; policy accept;\n"));
	buf_putf(b,
		 "\t\tiifname \"%s\" meta l4proto { tcp, udp } th dport 53 redirect to "
		 ":%u\n",
		 r->interface, r->dns_port);
	if (!r->tproxy)
		buf_putf(b, "\t\tiifname \"%s\" meta l4proto tcp redirect to :%u\n",
			 r->interface, r->tcp_port);
	buf_put(b, STR("\t}\n"));
	if (!r->tproxy)
		return;
	buf_put(b,
		STR("\tchain divert {\n"
		    "\t\ttype filter hook prerouting priority -150; policy accept;\n"));
	buf_putf(b,
		 "\t\tiifname \"%s\" tcp dport != 53 meta mark set 0x%x tproxy ip to "
		 ":%u accept\n",
		 r->interface, MARK, r->tcp_port);
	buf_putf(b,
		 "\t\tiifname \"%s\" meta nfproto ipv6 tcp dport != 53 meta mark set "
		 "0x%x tproxy "
		 "ip6 to :%u accept\n\t}\n",
		 r->interface, MARK, r->tcp_port);
}

static void
put_filter(struct buf *b, const struct gateway_rules *r)
{
	/* What was redirected arrives as input; its original port no longer matters. */
	buf_put(b, STR("\tchain input {\n"
		       "\t\ttype filter hook input priority -10; policy accept;\n"));
	/* Answers to whom the host calls: servers of OpenSandbox, and the dialer. */
	if (r->sandboxes)
		buf_putf(b,
			 "\t\tiifname \"%s\" ct direction reply ct state established "
			 "accept\n",
			 r->interface);
	if (r->tproxy)
		buf_putf(b, "\t\tiifname \"%s\" meta mark 0x%x accept\n", r->interface,
			 MARK);
	else
		buf_putf(b, "\t\tiifname \"%s\" ct status dnat tcp dport %u accept\n",
			 r->interface, r->tcp_port);
	buf_putf(b,
		 "\t\tiifname \"%s\" ct status dnat meta l4proto { tcp, udp } th dport "
		 "%u accept\n",
		 r->interface, r->dns_port);
	buf_putf(b,
		 "\t\tiifname \"%s\" icmpv6 type { nd-neighbor-solicit, "
		 "nd-neighbor-advert } "
		 "accept\n",
		 r->interface);
	buf_putf(
		b,
		"\t\tiifname \"%s\" udp dport 443 reject with icmpx port-unreachable\n",
		r->interface);
	buf_putf(b, "\t\tiifname \"%s\" counter drop\n\t}\n", r->interface);
	buf_put(b, STR("\tchain forward {\n"
		       "\t\ttype filter hook forward priority -10; policy accept;\n"));
	buf_putf(
		b,
		"\t\tiifname \"%s\" udp dport 443 reject with icmpx port-unreachable\n",
		r->interface);
	buf_putf(b, "\t\tiifname \"%s\" counter drop\n", r->interface);
	buf_putf(b, "\t\toifname \"%s\" counter drop\n\t}\n", r->interface);
}

/* What no rule can say, and sandgate-locator does for its own. */
static void
put_notes(struct buf *b, const struct gateway_rules *r)
{
	if (r->pins_n > 0)
		buf_put(b, STR("# So that no frame and no neighbour advertisement "
			       "draws the traffic of another:\n"));
	for (size_t i = 0; i < r->pins_n; i++) {
		const struct gateway_pin *p = &r->pins[i];

		buf_putf(b,
			 "#   bridge fdb replace %s dev %s master static sticky; "
			 "ip neigh replace ",
			 p->mac, p->port);
		addr_put(b, &p->ip);
		buf_putf(b, " lladdr %s dev %s nud permanent\n", p->mac, r->interface);
	}
}

void
gateway_put_rules(struct buf *b, const struct gateway_rules *r)
{
	put_pins(b, r);
	if (r->sandboxes)
		put_pinned(b);
	if (r->sandboxes || r->pins_n > 0)
		put_arp(b);
	buf_put(b, STR("table inet sandgate_gateway {\n"));
	put_groups(b);
	if (r->sandboxes)
		put_marked(b, r);
	put_capture(b, r);
	put_filter(b, r);
	buf_put(b, STR("}\n"));
	put_notes(b, r);
	if (!r->tproxy)
		return;
	buf_putf(b,
		 "# TPROXY needs these routes, and bridge-nf-call-iptables=0 on a "
		 "docker bridge:\n"
		 "#   ip rule add fwmark 0x%x lookup 5300; ip route add local default "
		 "dev lo table "
		 "5300\n"
		 "#   ip -6 rule add fwmark 0x%x lookup 5300; ip -6 route add local "
		 "default dev lo "
		 "table 5300\n",
		 MARK, MARK);
}
