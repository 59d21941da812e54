#ifndef PROXY_CONTROL_BRAIN_JOB_IN_H
#define PROXY_CONTROL_BRAIN_JOB_IN_H
/*
 * brain_job_in: jobs from inside: brain_job.c has their life, brain_act.c what each does.
 */
#include "proxy/control/brain.h"

enum { JOB_ARENA = 4 << 20 };

struct brain_job {
	struct brain *brain;
	char id[BRAIN_ID + 1];
	enum brain_act act;
	bool is_making; /* a turn makes it: no act of ours */
	struct arena arena;
	struct brain_sandbox box;
	struct call *call;
	struct pin *pin; /* a measurement */
	enum status (*measured)(struct brain_job *j);
	struct brain_memory held,
		before; /* when it was last measured, and before that */
	void (*got)(struct brain_job *j, const struct call_got *got);
	struct loop_timer timer;
	unsigned polls;
	struct str snapshot;
	struct list waits;
	uint64_t since_ms;
};

typedef void (*job_got_fn)(struct brain_job *j, const struct call_got *got);

/* All who wait look again; the job is over. */
void job_end(struct brain_job *j, enum status st, const struct call_got *got);

/* Calls the sandbox's server; got comes later, unless it isn't ST_OK. */
enum status job_call(struct brain_job *j, const struct brain_call *w,
		     job_got_fn got) MUSTCHECK;
/* The next call of a job that has begun: it ends if that can't be made. */
void job_next(struct brain_job *j, const struct brain_call *w, job_got_fn got);
/* About the sandbox itself: what follows its name in the path. */
enum status job_ask(struct brain_job *j, const char *method, const char *rest,
		    job_got_fn got) MUSTCHECK;

/* What its container holds comes into j->held, if that can be had, and then the next step:
 * later, or from inside with its status.  Its time counts from there. */
enum status job_measure(struct brain_job *j,
			enum status (*then)(struct brain_job *j)) MUSTCHECK;

/* brain_act.c.  ST_END: nothing is left to do, it is gone. */
enum status act_begin(struct brain_job *j) MUSTCHECK;
/* The store takes what the server has done. */
void act_gone(struct brain_job *j);

#endif
