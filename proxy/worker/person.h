#ifndef PROXY_WORKER_PERSON_H
#define PROXY_WORKER_PERSON_H
/*
 * person: what a filter's ask_person() does.  Control is asked (ASK) and shown the sandbox's own
 * socket: in whose name it is asked isn't the worker's to say.
 *
 * Owner: the exchange, from the question to its end; x->approval lies here.  When the
 * answer comes before that, the exchange goes on, or, unless it is a yes, is refused.
 */
#include "proxy/worker/conn.h"

enum status person_ask(struct exchange *x, const struct filter_question *q) MUSTCHECK;
/* Nobody waits any more: control hears it. */
void person_forget(struct exchange *x);
/* One is asked and has not answered. */
bool person_is_asked(const struct exchange *x);

#endif
