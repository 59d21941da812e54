#ifndef PROXY_IO_ROW_H
#define PROXY_IO_ROW_H
/*
 * row: one line of the audit ledger, as the role that saw the event writes it into its
 * ring and as the ledger stores it.  Fields that a peer chose are capped here, at the
 * source: at most ROW_FIELD_MAX bytes, the rest replaced by its length and a hash.
 *
 * The id is drawn where the event happened, so that a refusal can name it:
 * milliseconds since 2020 (40 bits), role slot (8 bits), sequence (16 bits).
 */
#include "proxy/base/buf.h"

#define ROW_KIND(name, word, what) ROW_##name,
enum row_kind {
#include "proxy/io/rows.def"
	ROW_COUNT
};
#undef ROW_KIND

enum {
	ROW_FIELD_MAX = 2048,
	ROW_EXEC_MAX = 8192, /* exec_note.h builds within it */
	ROW_MAX = 24576,
	ROW_JSON_MAX = 8 * ROW_MAX, /* with every octet escaped */
};

struct row {
	uint64_t id;
	uint64_t time_us; /* wall clock */
	enum row_kind kind;
	enum status reason; /* ST_OK: allowed */
	uint8_t observed;
	/* Id of the turn's or tunnel's first row, which may be this.  Of what control does for
	 * a caller: drawn by the worker, for the rows of both. */
	uint64_t turn;
	uint64_t generation; /* of the policy that decided */
	struct str sandbox, user, agent, session;
	struct str listener; /* its name: the way in */
	struct str host;     /* destination as host:port */
	struct str address;  /* what was dialled, as address:port */
	struct str country;
	struct str method, path; /* plain HTTP */
	struct str rule;         /* file:line */
	struct str detail;       /* anything else, one sentence */
	struct str connector;    /* that added the credential; else empty */
	/* What was to run, or how it ended: a JSON object.  Over-long, which is its
	 * writer's fault, it becomes {"cut":true}. */
	struct str exec;
	uint32_t http_status;
	uint64_t bytes_up, bytes_down, duration_ms;
	uint32_t secret_version; /* of that credential; 0: none was added */
	uint32_t scrubbed;       /* echoes of it that were replaced */
};

/* Something was refused, so nothing went out. */
bool row_is_refusal(const struct row *r);
bool row_is_start(const struct row *r); /* it lets something out */
const char *row_kind_word(enum row_kind k);
bool row_kind_by_word(struct str word, enum row_kind *ret_k) MUSTCHECK;

/* Serialise; caps the fields.  The same row gives the same bytes, for the chain. */
void row_put(struct buf *b, const struct row *r);
/* Views into bytes.  ST_BAD_MESSAGE when they do not fit. */
enum status row_get(struct str bytes, struct row *ret_r) MUSTCHECK;
/* Tells of an execution request, be it allowed, refused or over. */
bool row_is_exec(const struct row *r);
/* One JSON object on one line, the form of `audit --json` and of exports.  An `exec` that
 * its writer broke is a string in it. */
void row_put_json(struct buf *b, const struct row *r);

struct row_ids { /* the source of ids of one role */
	uint64_t last_ms;
	uint16_t seq;
	uint8_t slot;
};
uint64_t row_next_id(struct row_ids *ids);

#endif
