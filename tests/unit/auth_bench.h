#ifndef TESTS_UNIT_AUTH_BENCH_H
#define TESTS_UNIT_AUTH_BENCH_H
/* One request, and the credential that is added to it. */
#include "connectors/auth.h"

#define SECRET "s3cr3t/+ value"

struct request {
	struct arena arena;
	struct head head;
	struct uri uri;
	struct auth_job job;
};

static inline void
request_init(struct request *r, const struct auth_conf *c, const char *target)
{
	struct str rest;

	memset(r, 0, sizeof *r);
	arena_init(&r->arena, 1 << 16);
	head_init(&r->head, &r->arena);
	r->head.method = STR("POST");
	r->head.method_id = METHOD_POST;
	r->head.target = str_from(target);
	rest = r->head.target;
	r->uri.path = str_cut(&rest, '?');
	r->uri.has_query = rest.p != NULL;
	r->uri.query = rest.p != NULL ? rest : STR("");
	assert_int_equal(
		dest_from_authority(STR("api.example.test:443"), 443, &r->uri.dest),
		ST_OK);
	auth_job_init(&r->job, c);
	r->job.head = &r->head;
	r->job.uri = &r->uri;
	r->job.is_tls = true;
	r->job.now_s = 1440938160;
	r->job.parts[AUTH_PART_SECRET] = STR(SECRET);
}

static inline void
request_done(struct request *r)
{
	auth_job_done(&r->job);
	arena_done(&r->arena);
}

static inline void
add(struct request *r, const char *name, const char *value)
{
	assert_int_equal(head_add(&r->head, str_from(name), str_from(value)), ST_OK);
}

static inline enum status
run(struct request *r)
{
	enum status st = auth_refuses(&r->job);

	if (st != ST_OK)
		return st;
	auth_strip(&r->job);
	return auth_write(&r->job);
}

static inline void
is_last(const struct request *r, size_t i, const char *name, const char *value)
{
	assert_true(i < r->job.last_n);
	assert_true(str_eq(r->job.last[i].name, str_from(name)));
	if (!str_eq(r->job.last[i].value, str_from(value)))
		print_error("%.*s\n", STR_ARG(r->job.last[i].value));
	assert_true(str_eq(r->job.last[i].value, str_from(value)));
}

#endif
