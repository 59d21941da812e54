#ifndef PROXY_CLI_NS_H
#define PROXY_CLI_NS_H
/*
 * ns: a network namespace whose only exit is the gateway.  Inside it `lo` answers for
 * every address, nft redirects what leaves, and the listening sockets are made there
 * and handed out.  A socket stays in the namespace that made it, so the sandbox has no
 * interface and no route, and the socket is its identity.
 *
 *	sandbox:  connect(203.0.113.9:443) -> lo -> redirect -> [::]:15001 | held
 *	          198.18.0.1:3128 is the explicit proxy                    | outside
 *	          any :53 is the gateway's DNS
 *
 * All of it runs in a process that already lives in the namespace with CAP_NET_ADMIN.
 */
#include "proxy/base/buf.h"

enum {
	NS_TCP_PORT = 15001,  /* where foreign TCP is redirected to */
	NS_DNS_PORT = 15053,  /* where port 53 is redirected to */
	NS_PROXY_PORT = 3128, /* the explicit proxy */
	NS_PORTS_MAX = 10,    /* wildcard listeners without nft */
	NS_SOCKETS_MAX = 16,
};

struct ns_sockets { /* made inside; text is what the gateway is told they are */
	int fds[NS_SOCKETS_MAX];
	const char *texts[NS_SOCKETS_MAX];
	size_t n;
	bool has_nft;
};

struct ns_wish {
	bool take;        /* remove what interfaces there are */
	bool without_nft; /* even where nft works */
	uint16_t ports[NS_PORTS_MAX];
	size_t ports_n; /* ports that the policy names, for use without nft */
};

/* Make this namespace the sandbox's.  On failure *ret_why says what to do about it. */
enum status ns_make(const struct ns_wish *w, struct buf *why,
		    struct ns_sockets *ret_s) MUSTCHECK;
void ns_close(struct ns_sockets *s);

/* Are the rules still there and is lo still alone?  For the check after attaching. */
enum status ns_verify(bool with_nft, struct buf *why) MUSTCHECK;

/* The nft rules used inside a namespace, and in front of one interface (gateway mode).
 */
void ns_put_rules(struct buf *b);

/* Run a tool with text on its standard input (or none); its exit code, 127 if it isn't
 * there, -1 on a system error.  Its standard error goes to ours unless quiet. */
int ns_tool(const char *const argv[], struct str input, bool quiet);

/* Send and receive the sockets over a Unix socket pair.  What comes without sockets is
 * the other side's reason for having none, and goes to why. */
enum status ns_send(int line, const struct ns_sockets *s) MUSTCHECK;
enum status ns_receive(int line, struct buf *why, struct ns_sockets *ret_s) MUSTCHECK;

#endif
