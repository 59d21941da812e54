#ifndef PROXY_IO_STATE_DIR_H
#define PROXY_IO_STATE_DIR_H
/*
 * state_dir: where a gateway keeps its ledger, its keys and its admin socket.
 *
 *	lock          held by super while it runs
 *	admin.sock    where operators connect
 *	ledger/       ledger.db and signed heads; of the roles' user
 *	keeper/       the signing key; of the roles' user
 *	control/      exec.db: whose sandbox is whose; of the roles' user
 */
#include "proxy/base/buf.h"

/* configured: state_dir of the file.  Empty: /var/lib/sandgate for root, else sandgate
 * below $XDG_STATE_HOME or ~/.local/state.  ST_NOT_FOUND: neither is set;
 * ST_BAD_CONFIG: not an absolute path. */
enum status state_dir_put(struct buf *b, struct str configured) MUSTCHECK;

#endif
