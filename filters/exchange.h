#ifndef FILTERS_EXCHANGE_H
#define FILTERS_EXCHANGE_H
/*
 * exchange: runs the filters of filters.def over an exchange and latches the worst
 * verdict.
 */
#include "filters/filter.h"

/* A fresh exchange: nothing known, nothing decided. */
void exchange_init(struct exchange *x, const struct filter_host *host, void *core);

/* Run one phase.  NEXT: go on.  HOLD: wait for host->resume, then exchange_resume().
 * DENY, FAIL: x->reason is set; tell the sandbox, then exchange_done(). */
enum verdict exchange_run(struct exchange *x, enum phase phase) MUSTCHECK;
enum verdict exchange_resume(struct exchange *x, enum phase phase) MUSTCHECK;

/* How much of view may pass.  is_response: response body, run backwards. */
enum verdict exchange_body(struct exchange *x, bool is_response, struct str view,
			   bool is_last, size_t *ret_pass) MUSTCHECK;

/* Once per exchange, however it ended; a second call does nothing. */
void exchange_done(struct exchange *x);

/* The union of what the filters need. */
unsigned exchange_needs(void);

#endif
