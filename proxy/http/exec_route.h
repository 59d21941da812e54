#ifndef PROXY_HTTP_EXEC_ROUTE_H
#define PROXY_HTTP_EXEC_ROUTE_H
/*
 * exec_route: what a request on a listener of kind opensandbox asks for.  The path is
 * read once, here; who decides, forwards and records goes by the result and never looks
 * at the path again.  One row per route: exec_routes.def.
 *
 *	/v1/sandboxes/{sandbox}/proxy/44772/proxy/8080/a//b?c
 *	                              hop         hop |rest| query
 *
 * The same thing is reached in many ways: with and without /v1, through the server's
 * proxy, through execd's own (also to itself and to the egress API).  All of them give
 * the same op, port and rest, and that is what is sent: no hop but the last one is left.
 *
 * What routes has one spelling, because the servers behind us decode, fold and redirect
 * each in its own way: segments of 1 to EXEC_SEGMENT_MAX unreserved octets or one of
 * "!$&'()*+,:=@".  Percent triplets, empty segments, ';' and names of routes in other
 * case are refused, not repaired; one slash at the end is dropped.  An application
 * gets its rest byte by byte, as far as uri_check_path() lets it.
 *
 * Views lie within the target that was given.
 */
#include "proxy/http/head.h"

/* Whose API it is.  The egress API is ours to serve. */
enum exec_part { EXEC_PART_SERVER, EXEC_PART_EXECD, EXEC_PART_EGRESS, EXEC_PART_APP };

/* EXEC_OP_APP, EXEC_OP_EXECD_OTHER and EXEC_OP_EGRESS_OTHER stand for routes that no row
 * names. */
#define EXEC_ROUTE(part, op, name, methods, pattern, class, body, answer) EXEC_OP_##op,
#define EXEC_FILES                                                        EXEC_ROUTE
#define EXEC_HOP(part, pattern)
#define EXEC_REST(part, pattern, op, class)
enum exec_op {
#include "proxy/http/exec_routes.def"
	EXEC_OP_EXECD_OTHER,
	EXEC_OP_EGRESS_OTHER,
	EXEC_OP_APP,
	EXEC_OP_COUNT
};
#undef EXEC_ROUTE
#undef EXEC_FILES
#undef EXEC_HOP
#undef EXEC_REST

/* What the ledger keeps of it. */
enum exec_class {
	EXEC_CLASS_LIFECYCLE,
	EXEC_CLASS_COMMAND,
	EXEC_CLASS_CODE,
	EXEC_CLASS_FILE,
	EXEC_CLASS_PTY,
	EXEC_CLASS_EGRESS,
	EXEC_CLASS_APP,
	EXEC_CLASS_HEALTH,
	EXEC_CLASS_COUNT
};

/* What to do with the body of the request. */
enum exec_body {
	EXEC_BODY_NONE,    /* the route has none; one that comes means nothing */
	EXEC_BODY_JSON,    /* small: read whole, parsed, then judged */
	EXEC_BODY_PARTS,   /* multipart/form-data: streamed through a tap */
	EXEC_BODY_STREAM,  /* streamed; an upgrade is refused */
	EXEC_BODY_UPGRADE, /* must become a WebSocket */
	EXEC_BODY_ANY,     /* streamed, or upgraded if the request asks for it */
};

/* What comes back when it goes well. */
enum exec_answer {
	EXEC_ANSWER_PLAIN,  /* one small document */
	EXEC_ANSWER_EVENTS, /* execd's event stream: what ran, and how it ended */
	EXEC_ANSWER_BYTES,  /* of any length, passed on as they come */
};

enum {
	EXEC_PORT_EXECD = 44772,
	EXEC_PORT_EGRESS = 18080,
	EXEC_SEGMENT_MAX = 128,
	EXEC_HOPS_MAX = 4,
};

struct exec_route {
	enum exec_op op;
	enum exec_part part;
	enum exec_class class;
	enum exec_body body;
	enum exec_answer answer;
	bool is_v1;         /* /v1 came first: addresses that we give out keep it */
	uint16_t port;      /* where it goes, or of which an endpoint is asked; or 0 */
	struct str sandbox; /* a name (str_is_name), not known to exist; or empty */
	/* What else the route names: snapshot, pool, template, command, session, terminal,
	 * context, credential or binding; and the run within a session. */
	struct str id, run;
	struct str uid, gid; /* files of this user and group: plain numbers; or empty */
	struct str rest;  /* path in that part, "" or from its '/' on, as it is sent */
	struct str query; /* without '?', as it is sent */
	bool has_query;
	bool use_server_proxy; /* EXEC_OP_SANDBOX_ENDPOINT only, as is expires */
	struct str expires;    /* as sent; p == NULL: not asked */
};

/*
 * target: origin form, or absolute form whose host the caller has checked.
 * ST_BAD_PATH, ST_BAD_PORT, ST_BAD_TARGET: can't be read in one way only.
 * ST_METHOD_REFUSED: the server has the route, but not with this method, or nobody
 * forwards the method.  ST_NOT_FOUND: no such route of the server.
 */
enum status exec_route_read(enum method m, struct str target,
			    struct exec_route *ret_r) MUSTCHECK;

/* The same where the egress API of this sandbox is all that is served. */
enum status exec_route_read_egress(enum method m, struct str target, struct str sandbox,
				   struct exec_route *ret_r) MUSTCHECK;

const char *exec_op_name(enum exec_op op); /* stable words, for ledger and rules */
/* May it change anything?  What is only read may not. */
bool exec_op_changes(enum exec_op op);
const char *exec_class_name(enum exec_class class);

#endif
