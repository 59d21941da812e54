#ifndef PROXY_HTTP_DNSMSG_H
#define PROXY_HTTP_DNSMSG_H
/*
 * dnsmsg: DNS messages (RFC 1035) with EDNS (RFC 6891) and extended errors (RFC 8914).
 *
 * The server's side reads a query and writes one answer into the caller's space: header
 * and question are copied from the query (so the case of its letters comes back),
 * records are put behind.  Nothing is allocated.  The client's side writes a query and
 * reads an answer; doctor and the tests use it.
 *
 * A query has one question, no records but at most one OPT, no compression, nothing
 * behind, and a name of letters, digits, '-' and '_' only.  All else is ST_BAD_QUERY:
 * clients of the kind we serve send nothing else, tunnels do.
 */
#include "proxy/base/addr.h"

enum dnsmsg_type { /* those that we treat apart from all others */
		   DNSMSG_A = 1,
		   DNSMSG_SOA = 6,
		   DNSMSG_PTR = 12,
		   DNSMSG_AAAA = 28,
		   DNSMSG_OPT = 41,
		   DNSMSG_SVCB = 64,
		   DNSMSG_HTTPS = 65,
};

enum dnsmsg_rcode {
	DNSMSG_NOERROR = 0,
	DNSMSG_FORMERR = 1,
	DNSMSG_SERVFAIL = 2,
	DNSMSG_NXDOMAIN = 3,
	DNSMSG_NOTIMP = 4,
	DNSMSG_REFUSED = 5,
	DNSMSG_BADVERS = 16, /* needs the OPT record; as RFC 6891 section 6.1.3 */
};

enum { /* extended errors, RFC 8914 section 4 */
       DNSMSG_EDE_OTHER = 0,
       DNSMSG_EDE_BLOCKED = 15,
       DNSMSG_EDE_NO_AUTHORITY = 22, /* none could be reached */
};

enum {
	DNSMSG_IN = 1, /* class */
	DNSMSG_HEADER = 12,
	DNSMSG_NAME_MAX = 253,    /* as text without the last dot */
	DNSMSG_QUERY_MAX = 4096,  /* a longer packet is refused unread */
	DNSMSG_ANSWER_MAX = 4096, /* space for any answer that we write */
	DNSMSG_UDP_LEAST = 512,   /* without EDNS, and when EDNS claims less */
	DNSMSG_UDP_MOST = 1232,   /* never more in one datagram: no fragments */
	DNSMSG_ADDRS_MAX = 32,
	DNSMSG_TTL_NEGATIVE = 5,
};

struct dnsmsg_query {
	struct str packet; /* as it came; must outlive the writing of the answer */
	uint16_t type, class;
	uint16_t question_size; /* bytes behind the header */
	bool has_opt;
	uint8_t edns_version;
	uint16_t
		udp_size; /* what an answer by UDP may measure: UDP_LEAST .. UDP_MOST */
	uint8_t name_len; /* 0: the root */
	char name[DNSMSG_NAME_MAX + 1]; /* lower case, no last dot, NUL behind */
};

/*
 * ST_OK; ST_BAD_QUERY and ST_METHOD_REFUSED (another opcode): answer with
 * dnsmsg_write_error(); ST_END: not a query at all, stay silent.
 */
enum status dnsmsg_read_query(struct str packet, struct dnsmsg_query *ret_q) MUSTCHECK;

struct dnsmsg_answer {
	enum dnsmsg_rcode rcode;
	bool is_tcp; /* no limit but ANSWER_MAX */
	uint32_t ttl;
	const struct addr *addrs; /* those of the question's family are written */
	size_t addrs_n;           /* none written and NOERROR: NODATA with SOA */
	uint16_t ede;             /* INFO-CODE of the extended error... */
	const char *code;         /* ...and its text; NULL: no extended error */
};

/* Write the answer into space of DNSMSG_ANSWER_MAX bytes; returns its size.  What does
 * not fit a datagram becomes a truncated answer (TC), which makes clients use TCP. */
size_t dnsmsg_write(const struct dnsmsg_query *q, const struct dnsmsg_answer *a,
		    char *space);
/* A header alone, for a packet that did not parse (ST_BAD_QUERY, ST_METHOD_REFUSED). */
size_t dnsmsg_write_error(struct str packet, enum dnsmsg_rcode rcode, char *space);

/* TCP (RFC 1035 section 4.2.2): the first message of a stream.  ST_AGAIN; ST_BAD_QUERY
 * when its length is none that a query has.  *ret_used counts the two length bytes. */
enum status dnsmsg_cut(struct str stream, struct str *ret_packet,
		       size_t *ret_used) MUSTCHECK;

#endif
