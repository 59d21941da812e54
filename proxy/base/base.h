#ifndef PROXY_BASE_BASE_H
#define PROXY_BASE_BASE_H
/*
 * The few words every file needs: compiler attributes, need(), status codes.
 * Includes nothing of ours, so anything may include it.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUSTCHECK     __attribute__((warn_unused_result))
#define PRINTF(f, a)  __attribute__((format(printf, f, a)))
#define NORETURN      __attribute__((noreturn))
#define CLEANUP(done) __attribute__((cleanup(done)))
#define COUNT_OF(arr) (sizeof(arr) / sizeof(arr)[0])

/* Why an operation stopped; one row each, see status.def. */
#define STATUS(name, code, http, socks, rcode, alert, sentence, hint) ST_##name,
enum status {
#include "proxy/base/status.def"
	ST_COUNT
};
#undef STATUS

/* How one status is told on each way in.  Zero means that the protocol has no word. */
struct status_words {
	const char *code;     /* stable word: ledger, JSON, Proxy-Status, EDE text */
	uint16_t http;        /* HTTP status */
	uint8_t socks;        /* SOCKS5 reply, RFC 1928 section 6 */
	uint8_t dns_rcode;    /* DNS RCODE, RFC 1035 section 4.1.1 */
	uint8_t tls_alert;    /* TLS alert description, RFC 8446 section 6 */
	const char *sentence; /* what happened */
	const char *hint;     /* what to do next; "" when there is nothing to do */
};

const struct status_words *status_words(enum status st);
const char *status_code(enum status st); /* status_words(st)->code */
/* The status with this code; false if there is none (a row of a newer version). */
bool status_by_code(const char *code, size_t n, enum status *ret_st) MUSTCHECK;

/*
 * need() states what the programmer promised.  It stays in release builds
 * and kills only this process.  Bytes from a peer never reach one: they get
 * a status instead.
 */
#define need(cond) ((cond) ? (void)0 : need_failed(#cond, __FILE__, __LINE__))
NORETURN void need_failed(const char *what, const char *file, int line);

#endif
