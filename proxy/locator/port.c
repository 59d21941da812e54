#include "proxy/locator/port.h"

#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "proxy/locator/nlmsg.h"

enum { QUESTION_MAX = 512 };

struct link { /* one interface, as told */
	uint32_t index, master;
	int32_t netns; /* -1: its other end is no other namespace's */
	struct str name;
};

static bool
link_read(uint16_t type, struct str body, struct link *ret_l)
{
	struct link l = { .netns = -1 };
	struct ifinfomsg info;
	struct nlmsg_part part;

	if (type != RTM_NEWLINK || body.n < sizeof info)
		return false;
	memcpy(&info, body.p, sizeof info);
	l.index = (uint32_t)info.ifi_index;
	body = str_skip(body, sizeof info);
	while (nlmsg_next(&body, &part)) {
		if (part.type == IFLA_IFNAME && part.value.n > 0)
			l.name = str_head(part.value, part.value.n - 1);
		else if (part.type == IFLA_MASTER)
			l.master = nlmsg_u32(part.value);
		else if (part.type == IFLA_LINK_NETNSID && part.value.n == 4)
			l.netns = (int32_t)nlmsg_u32(part.value);
	}
	*ret_l = l;
	return true;
}

static enum status
dump_links(int fd, nlmsg_fn fn, void *ctx)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct ifinfomsg info = { .ifi_family = AF_UNSPEC };

	buf_init(&b, QUESTION_MAX);
	size_t at = nlmsg_begin(&b, RTM_GETLINK, NLM_F_DUMP);
	nlmsg_raw(&b, &info, sizeof info);
	nlmsg_end(&b, at);
	return nlmsg_query(fd, &b, fn, ctx);
}

struct search {
	struct str bridge;
	uint32_t index; /* of the bridge; 0: not seen */
	int32_t netns;
	size_t found;
	struct place *place;
};

static void
on_bridge(void *ctx, uint16_t type, struct str body)
{
	struct search *s = ctx;
	struct link l;

	if (link_read(type, body, &l) && str_eq(l.name, s->bridge))
		s->index = l.index;
}

static void
on_port(void *ctx, uint16_t type, struct str body)
{
	struct search *s = ctx;
	struct link l;

	if (!link_read(type, body, &l) || l.master != s->index || l.netns != s->netns ||
	    l.name.n == 0 || l.name.n > PLACE_NAME)
		return;
	s->found++;
	s->place->port_index = l.index;
	memset(s->place->port, 0, sizeof s->place->port);
	memcpy(s->place->port, l.name.p, l.name.n);
}

static void
on_netns(void *ctx, uint16_t type, struct str body)
{
	struct search *s = ctx;
	struct nlmsg_part part;

	if (type != RTM_NEWNSID || body.n < 4)
		return;
	body = str_skip(body, 4); /* struct rtgenmsg, padded */
	while (nlmsg_next(&body, &part))
		if (part.type == NETNSA_NSID && part.value.n == 4)
			s->netns = (int32_t)nlmsg_u32(part.value);
}

static enum status
find_netns(int fd, uint32_t pid, struct search *s)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct rtgenmsg any = { .rtgen_family = AF_UNSPEC };

	buf_init(&b, QUESTION_MAX);
	size_t at = nlmsg_begin(&b, RTM_GETNSID, 0);
	nlmsg_raw(&b, &any, sizeof any);
	nlmsg_attr(&b, NETNSA_PID, &pid, sizeof pid);
	nlmsg_end(&b, at);
	s->netns = -1;
	return nlmsg_query(fd, &b, on_netns, s);
}

/* The first look at all links is also what has the kernel number the namespaces. */
enum status
port_find(int fd, const char *bridge, uint32_t pid, struct place *ret_place)
{
	struct place place = *ret_place;
	struct search s = { .bridge = str_from(bridge), .place = &place };
	enum status st = dump_links(fd, on_bridge, &s);

	if (st == ST_OK)
		st = find_netns(fd, pid, &s);
	if (st == ST_OK && (s.index == 0 || s.netns < 0))
		st = ST_NOT_FOUND;
	if (st == ST_OK)
		st = dump_links(fd, on_port, &s);
	if (st == ST_OK && s.found != 1)
		st = s.found == 0 ? ST_NOT_FOUND : ST_CONFLICT;
	place.bridge_index = s.index;
	if (st == ST_OK)
		*ret_place = place;
	return st;
}

static enum status
note(int fd, uint16_t type, const struct place *p, const struct addr *a)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct ndmsg nd = { .ndm_family = a->family == 4 ? AF_INET : AF_INET6,
			    .ndm_ifindex = (int)p->bridge_index,
			    .ndm_state = NUD_PERMANENT };
	uint16_t flags = type == RTM_NEWNEIGH ? NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
					      : NLM_F_ACK;

	buf_init(&b, QUESTION_MAX);
	size_t at = nlmsg_begin(&b, type, flags);
	nlmsg_raw(&b, &nd, sizeof nd);
	nlmsg_attr(&b, NDA_DST, a->b, a->family == 4 ? 4 : 16);
	nlmsg_attr(&b, NDA_LLADDR, p->mac, sizeof p->mac);
	nlmsg_end(&b, at);
	return nlmsg_ask(fd, &b, 1);
}

/* A bridge learns where a MAC is also from frames to its own group addresses, which no rule
 * sees: what is static and sticky it doesn't learn anew. */
static enum status
note_mac(int fd, uint16_t type, const struct place *p)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct ndmsg nd = { .ndm_family = AF_BRIDGE,
			    .ndm_ifindex = (int)p->port_index,
			    .ndm_state = NUD_NOARP,
			    .ndm_flags = NTF_MASTER | NTF_STICKY };
	uint16_t flags = type == RTM_NEWNEIGH ? NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
					      : NLM_F_ACK;

	buf_init(&b, QUESTION_MAX);
	size_t at = nlmsg_begin(&b, type, flags);
	nlmsg_raw(&b, &nd, sizeof nd);
	nlmsg_attr(&b, NDA_LLADDR, p->mac, sizeof p->mac);
	nlmsg_end(&b, at);
	return nlmsg_ask(fd, &b, 1);
}

enum status
port_note(int fd, const struct place *p)
{
	enum status st = note_mac(fd, RTM_NEWNEIGH, p);

	for (size_t i = 0; i < p->addrs_n && st == ST_OK; i++)
		st = note(fd, RTM_NEWNEIGH, p, &p->addrs[i]);
	return st;
}

/* One that isn't there is what was wanted. */
void
port_unnote(int fd, const struct place *p)
{
	for (size_t i = 0; i < p->addrs_n; i++)
		(void)(note(fd, RTM_DELNEIGH, p, &p->addrs[i]) == ST_OK);
	(void)(note_mac(fd, RTM_DELNEIGH, p) == ST_OK);
}
