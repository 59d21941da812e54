#include "proxy/cli/sidecar.h"

/* A set of the namespace's own addresses of this family; nothing where there are none. */
static void
put_own(struct buf *b, const struct sidecar *s, uint8_t family, const char *verdict)
{
	size_t n = 0;

	for (size_t i = 0; i < s->addrs_n; i++) {
		if (s->addrs[i].family != family)
			continue;
		if (n++ == 0)
			buf_putf(b, "\t\t%s daddr { ", family == 4 ? "ip" : "ip6");
		else
			buf_put(b, STR(", "));
		addr_put(b, &s->addrs[i]);
	}
	if (n > 0)
		buf_putf(b, " } %s\n", verdict);
}

static void
put_local(struct buf *b, const struct sidecar *s, const char *verdict)
{
	buf_putf(b, "\t\tip daddr 127.0.0.0/8 %s\n\t\tip6 daddr ::1 %s\n", verdict,
		 verdict);
	put_own(b, s, 4, verdict);
	put_own(b, s, 6, verdict);
}

/* Neighbours of IPv6 are found by the kernel itself, whose packets carry no mark. */
static void
put_no_mark(struct buf *b)
{
	buf_put(b, STR("\t\tct state established ct direction reply accept\n"
		       "\t\ticmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } "
		       "accept\n"));
}

/* An address doesn't say where a packet goes: one to 127.0.0.1, or redirected there, leaves
 * by the interface that its socket is bound to (SO_BINDTODEVICE, IP_PKTINFO), for which
 * nobody needs a capability.  Only behind all hooks of output is that known. */
static void
put_leaving(struct buf *b, const struct sidecar *s)
{
	buf_put(b, STR("\tchain leaving {\n"
		       "\t\ttype filter hook postrouting priority 0; policy drop;\n"));
	buf_putf(b,
		 "\t\tmeta mark %u accept\n"
		 "\t\toifname \"lo\" accept\n",
		 SIDECAR_MARK);
	/* Were it an answer to one that did go over loopback. */
	put_local(b, s, "drop");
	put_no_mark(b);
	buf_put(b, STR("\t\tcounter drop\n\t}\n"));
}

/* Whatever the sandbox begins is for the gateway, or dropped; what was begun from outside is
 * for three ports, over IPv4 as docker publishes them.  Only answers count as established:
 * packets of a connection that was let in, or of one with the mark. */
void
sidecar_put_rules(struct buf *b, const struct sidecar *s)
{
	buf_put(b, STR("table inet sandgate_sidecar\n"
		       "delete table inet sandgate_sidecar\n"
		       "table inet sandgate_sidecar {\n"
		       "\tchain capture {\n"
		       "\t\ttype nat hook output priority -100; policy accept;\n"));
	buf_putf(b, "\t\tmeta mark %u return\n", SIDECAR_MARK);
	buf_putf(b, "\t\tmeta l4proto { tcp, udp } th dport 53 redirect to :%u\n",
		 SIDECAR_DNS);
	put_local(b, s, "return");
	buf_putf(b, "\t\tmeta l4proto tcp redirect to :%u\n\t}\n", SIDECAR_TCP);
	buf_put(b, STR("\tchain out {\n"
		       "\t\ttype filter hook output priority 0; policy drop;\n"));
	buf_putf(b, "\t\tmeta mark %u accept\n", SIDECAR_MARK);
	put_local(b, s, "accept");
	put_no_mark(b);
	buf_put(b, STR("\t\tmeta l4proto udp th dport 443 reject with icmpx "
		       "port-unreachable\n"
		       "\t\tcounter drop\n\t}\n"));
	put_leaving(b, s);
	buf_put(b, STR("\tchain in {\n"
		       "\t\ttype filter hook input priority 0; policy drop;\n"
		       "\t\tiifname \"lo\" accept\n"
		       "\t\tct state { established, related } accept\n"
		       "\t\ticmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } "
		       "accept\n"));
	buf_put(b, STR("\t\tip protocol tcp th dport { 44772, 8080 } accept\n"));
	/* A server that the sandbox puts there when the gateway is gone gets no token and no
	 * credential. */
	buf_putf(b, "\t\tip protocol tcp th dport %u ", SIDECAR_API);
	if (s->knows_sockets)
		buf_putf(b, "socket mark %u ", SIDECAR_MARK);
	buf_put(b, STR("accept\n"));
	buf_put(b, STR("\t\tcounter drop\n\t}\n"
		       "\tchain through {\n"
		       "\t\ttype filter hook forward priority 0; policy drop;\n"
		       "\t}\n}\n"));
}
