#ifndef PROXY_CLI_SIDECAR_H
#define PROXY_CLI_SIDECAR_H
/*
 * sidecar: the gateway as OpenSandbox starts an egress container: beside one sandbox, in
 * its network namespace, told what to do by its environment.
 *
 *	sandbox --tcp--> nft: redirect --> 127.0.0.1:15001 --+
 *	        --53---> nft: redirect --> 127.0.0.1:15053   | mark
 *	        --else-> dropped                             v
 *	server, SDK ---> :18080 (the egress API)            outside
 *
 * What tells the gateway's packets from the sandbox's is a packet mark: root in the sandbox
 * can become any user, and has no CAP_NET_ADMIN to set a mark.  The rules stay when this
 * process ends: then nothing gets out.
 */
#include "proxy/base/addr.h"
#include "proxy/base/buf.h"

#define SIDECAR_DIR    "/etc/sandgate"
#define SIDECAR_CONFIG SIDECAR_DIR "/sidecar.yaml"
#define SIDECAR_STATE  "/var/lib/sandgate"

enum {
	SIDECAR_MARK = 0x5347,
	SIDECAR_TCP = 15001,
	SIDECAR_DNS = 15053,
	SIDECAR_API = 18080,
	SIDECAR_ADDRS = 6, /* besides those of loopback */
};

struct sidecar {
	const char *rules, *token, *log_level; /* of the environment */
	const char *id;                        /* the sandbox's name */
	bool intercepts;
	bool knows_sockets; /* nft can look at the mark of who listens */
	bool has_v6; /* on loopback; what else there is of IPv6 is closed anyway */
	struct addr addrs[SIDECAR_ADDRS]; /* the namespace's own */
	size_t addrs_n;
};

/* sidecar_conf.c */

/* From the environment and the interfaces.  False: it was said what is wrong. */
bool sidecar_read(struct sidecar *s) MUSTCHECK;
/* The policy's name: SIDECAR_DIR/policies/NAME.yaml, or our own. */
const char *sidecar_policy(const struct sidecar *s);
void sidecar_put_config(struct buf *b, const struct sidecar *s);

/* sidecar_rules.c */
void sidecar_put_rules(struct buf *b, const struct sidecar *s);

#endif
