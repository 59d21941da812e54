#ifndef TESTS_UNIT_SUPER_BENCH_H
#define TESTS_UNIT_SUPER_BENCH_H
/* A test that is super: what it says to a role that runs as its child. */
#include <sys/wait.h>
#include <unistd.h>

#include "conf/conf.h"
#include "proxy/io/role.h"

struct scene {
	struct ask_end line;
	pid_t child;
	char space[ASK_BODY_MAX + 8];
	int ring_fd, bell, stats_fd, image_fd;
	uint32_t seq;
};

static const char config[] = "state_dir: /tmp\n"
			     "resolver: {servers: [\"127.0.0.1\"]}\n"
			     "policies:\n"
			     "  coding:\n"
			     "    allow:\n"
			     "      - {hosts: [a.example.test]}\n";

static inline int
compile_text(struct str text)
{
	struct conf_files files;
	struct report report;
	struct conf *conf;
	int fd = -1;

	conf_files_init(&files);
	assert_int_equal(report_init(&report), ST_OK);
	assert_int_equal(conf_files_add(&files, CONF_MAIN, STR("test.yaml"), text),
			 ST_OK);
	assert_int_equal(conf_compile(&files, &report, &conf), ST_OK);
	assert_int_equal(conf_seal(conf, &fd), ST_OK);
	conf_free(conf);
	report_done(&report);
	conf_files_done(&files);
	return fd;
}

static inline int
compile(void)
{
	return compile_text(str_of(config, sizeof config - 1));
}

static inline void
tell(struct scene *s, enum ask a, struct str body, const int *fds, size_t fds_n)
{
	assert_int_equal(
		ask_send(&s->line, a, false, ++s->seq, ASK_LOAD(body, fds, fds_n)),
		ST_OK);
}

static inline void
tell_number(struct scene *s, enum ask a, uint64_t generation, const int *fds,
	    size_t fds_n)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 16);
	buf_put_u64(&b, generation);
	tell(s, a, str_of(b.p, b.len), fds, fds_n);
}

static inline void
give(struct scene *s, enum give kind, uint32_t index, struct str text, const int *fds,
     size_t fds_n)
{
	CLEANUP(buf_done) struct buf b = { 0 };

	buf_init(&b, 100);
	give_put(&b, kind, index, text);
	tell(s, ASK_GIVE, str_of(b.p, b.len), fds, fds_n);
}

static inline void
expect(struct scene *s, enum ask a, enum status st, uint64_t generation)
{
	struct ask_msg m;

	assert_int_equal(ask_recv(&s->line, s->space, &m), ST_OK);
	assert_true(m.is_answer);
	assert_int_equal(m.ask, a);
	assert_int_equal(m.seq, s->seq);
	struct wire w = wire_from(m.body);
	assert_int_equal(wire_u16(&w), st);
	assert_int_equal(wire_u64(&w), generation);
	assert_false(w.is_bad);
}

static inline void
expect_exit(struct scene *s, int code)
{
	int how;

	assert_int_equal(waitpid(s->child, &how, 0), s->child);
	s->child = 0;
	assert_true(WIFEXITED(how));
	assert_int_equal(WEXITSTATUS(how), code);
}

static inline void
take_policy(struct scene *s, uint64_t generation)
{
	tell_number(s, ASK_PREPARE, generation, &s->image_fd, 1);
	expect(s, ASK_PREPARE, ST_OK, generation);
	tell_number(s, ASK_COMMIT, generation, NULL, 0);
	expect(s, ASK_COMMIT, ST_OK, generation);
}

#endif
