#include "proxy/locator/pins.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#include "proxy/locator/nlmsg.h"

enum { BATCH_MAX = 4096, KEY_MAX = 40, KEY_PORT = 16, KEY_MAC = 8 };

enum set { PINNED4, PINNED6, PORTS, NAMES, MACS, SETS };

static const char table[] = "sandgate_pinned";
static const char *const sets[SETS] = { [PINNED4] = "pinned4",
					[PINNED6] = "pinned6",
					[PORTS] = "ports",
					[NAMES] = "names",
					[MACS] = "macs" };

struct element {
	enum set set;
	uint8_t key[KEY_MAX]; /* fields, each padded to four octets */
	size_t n;
};

static void
element_add(struct element *e, const void *p, size_t n, size_t room)
{
	memcpy(e->key + e->n, p, n);
	e->n += room;
}

static struct element
element_of(enum set set, const struct place *p, const struct addr *a)
{
	struct element e = { .set = set };

	if (set == MACS) {
		/* One field alone is not padded. */
		element_add(&e, p->mac, sizeof p->mac, sizeof p->mac);
		return e;
	}
	element_add(&e, p->port, strlen(p->port), KEY_PORT);
	if (set != NAMES)
		element_add(&e, p->mac, sizeof p->mac, KEY_MAC);
	if (set == PINNED4)
		element_add(&e, a->b, 4, 4);
	if (set == PINNED6)
		element_add(&e, a->b, 16, 16);
	return e;
}

static size_t
elements(const struct place *p, struct element *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < p->addrs_n; i++) {
		enum set set = p->addrs[i].family == 4 ? PINNED4 : PINNED6;

		ret[n++] = element_of(set, p, &p->addrs[i]);
	}
	for (enum set set = PORTS; set < SETS; set++)
		ret[n++] = element_of(set, p, NULL);
	return n;
}

static void
put_generic(struct buf *b, uint8_t family, uint16_t id)
{
	struct nfgenmsg g = { .nfgen_family = family,
			      .version = NFNETLINK_V0,
			      .res_id = htons(id) };

	nlmsg_raw(b, &g, sizeof g);
}

/* A batch is carried out whole or not at all. */
static void
put_edge(struct buf *b, uint16_t type)
{
	size_t at = nlmsg_begin(b, type, 0);

	put_generic(b, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
	nlmsg_end(b, at);
}

/* e NULL: every element of the set. */
static void
put_element(struct buf *b, uint16_t type, enum set set, const struct element *e)
{
	uint16_t flags =
		type == NFT_MSG_NEWSETELEM ? NLM_F_ACK | NLM_F_CREATE : NLM_F_ACK;
	size_t at = nlmsg_begin(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags);

	put_generic(b, NFPROTO_BRIDGE, 0);
	nlmsg_attr(b, NFTA_SET_ELEM_LIST_TABLE, table, sizeof table);
	nlmsg_attr(b, NFTA_SET_ELEM_LIST_SET, sets[set], strlen(sets[set]) + 1);
	if (e != NULL) {
		size_t list = nlmsg_nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
		size_t one = nlmsg_nest(b, NFTA_LIST_ELEM);
		size_t key = nlmsg_nest(b, NFTA_SET_ELEM_KEY);

		nlmsg_attr(b, NFTA_DATA_VALUE, e->key, e->n);
		nlmsg_nest_end(b, key);
		nlmsg_nest_end(b, one);
		nlmsg_nest_end(b, list);
	}
	nlmsg_end(b, at);
}

enum status
pins_add(int fd, const struct place *p)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct element of[PLACE_ADDRS + SETS];
	size_t n = elements(p, of);

	buf_init(&b, BATCH_MAX);
	put_edge(&b, NFNL_MSG_BATCH_BEGIN);
	for (size_t i = 0; i < n; i++)
		put_element(&b, NFT_MSG_NEWSETELEM, of[i].set, &of[i]);
	put_edge(&b, NFNL_MSG_BATCH_END);
	return nlmsg_ask(fd, &b, n);
}

static enum status
remove_one(int fd, enum set set, const struct element *e)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	enum status st;

	buf_init(&b, BATCH_MAX);
	put_edge(&b, NFNL_MSG_BATCH_BEGIN);
	put_element(&b, NFT_MSG_DELSETELEM, set, e);
	put_edge(&b, NFNL_MSG_BATCH_END);
	st = nlmsg_ask(fd, &b, 1);
	return st == ST_NOT_FOUND ? ST_OK : st;
}

/* One at a time: one that isn't there must not keep the others. */
enum status
pins_remove(int fd, const struct place *p)
{
	struct element of[PLACE_ADDRS + SETS];
	size_t n = elements(p, of);
	enum status all = ST_OK;

	for (size_t i = 0; i < n; i++) {
		enum status st = remove_one(fd, of[i].set, &of[i]);

		if (st != ST_OK)
			all = st;
	}
	return all;
}

enum status
pins_flush(int fd)
{
	enum status all = ST_OK;

	for (enum set set = PINNED4; set < SETS; set++) {
		enum status st = remove_one(fd, set, NULL);

		if (st != ST_OK)
			all = st;
	}
	return all;
}
