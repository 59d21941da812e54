/* What super writes for control: certificates, where the policy says, and nothing else. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/super/super.h"
#include "tests/unit/make_image.h"

#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END   "-----END CERTIFICATE-----\n"
#define LINE  "MIIBtDCCAVugAwIBAgIRAIm3zP0c4wQnS6vPBmEoXn0wCgYIKoZIzj0EAwIwHzEd\n"
#define CERT  BEGIN LINE "MBsGA1UE+/==\n" END
#define KEY   "-----BEGIN PRIVATE KEY-----\n" LINE "-----END PRIVATE KEY-----\n"

struct bench {
	char folder[32], path[48]; /* of the policy's file */
	struct super *super;
	struct slot *control;
	struct ask_end far; /* control's end */
	uint32_t seq;
};

static int
compile_for(const char *path)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(report_done) struct report r = { 0 };
	int fd = -1;

	assert_int_equal(report_init(&r), ST_OK);
	buf_init(&b, 2000);
	buf_putf(
		&b,
		"policies: {p: {allow: [{hosts: ['*.example.test']}]}}\n"
		"resolver: {servers: [192.0.2.1]}\n"
		"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
		"servers: [{name: one, url: 'http://127.0.0.1:8081', key: k/one,\n"
		"  network: sg, endpoints: [127.0.0.0/8], ca_file: %s}]\n"
		"exec: {policy: p}\n",
		path);
	assert_non_null(buf_cstr(&b));
	assert_int_equal(make_memfd(buf_cstr(&b), &r, &fd), ST_OK);
	return fd;
}

static void
lost(void *ctx, struct ask_line *line, enum status why)
{
	(void)ctx, (void)line, (void)why;
	fail_msg("the line was lost");
}

static void
take_image(struct bench *b, int fd)
{
	image_close(b->super->policy.image);
	b->super->policy.image = NULL;
	assert_int_equal(image_open(fd, &b->super->policy.image), ST_OK);
	(void)close(fd);
}

static int
up(void **state)
{
	struct bench *b = calloc(1, sizeof *b);
	int fds[2];

	assert_non_null(b);
	(void)snprintf(b->folder, sizeof b->folder, "/tmp/test_publish.XXXXXX");
	assert_non_null(mkdtemp(b->folder));
	(void)snprintf(b->path, sizeof b->path, "%s/made/ca.pem", b->folder);
	b->super = calloc(1, sizeof *b->super);
	assert_non_null(b->super);
	b->super->log = (struct log){ "test", LOG_ERROR };
	assert_int_equal(loop_new(&b->super->loop), ST_OK);
	take_image(b, compile_for(b->path));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	b->far = (struct ask_end){ fds[0], ROLE_CONTROL, ROLE_SUPER };
	b->control = &b->super->slots[1];
	b->control->super = b->super;
	const struct ask_end near = { fds[1], ROLE_SUPER, ROLE_CONTROL };
	assert_int_equal(
		ask_line_new(b->super->loop, &near, NULL, lost, b, &b->control->line),
		ST_OK);
	*state = b;
	return 0;
}

static int
down(void **state)
{
	struct bench *b = *state;

	(void)unlink(b->path);
	*strrchr(b->path, '/') = '\0';
	(void)rmdir(b->path);
	assert_int_equal(rmdir(b->folder), 0);
	ask_line_free(b->control->line);
	(void)close(b->far.fd);
	image_close(b->super->policy.image);
	loop_free(b->super->loop);
	free(b->super);
	free(b);
	return 0;
}

/* What super answers to these bytes. */
static enum status
told(struct bench *b, struct str body)
{
	char space[ASK_BODY_MAX + 8];
	struct ask_msg m = { .ask = ASK_PUBLISH, .seq = ++b->seq, .body = body };

	publish_heard(b->control, &m);
	assert_int_equal(ask_recv(&b->far, space, &m), ST_OK);
	assert_true(m.is_answer && m.ask == ASK_PUBLISH && m.seq == b->seq);
	struct wire w = wire_from(m.body);
	enum status st = wire_u16(&w);
	assert_int_equal(wire_end(&w), ST_OK);
	return st;
}

static enum status
publish(struct bench *b, const char *path, struct str text)
{
	CLEANUP(buf_done) struct buf body = { 0 };

	buf_init(&body, 65536);
	wire_put_str(&body, str_from(path));
	wire_put_str(&body, text);
	assert_int_equal(body.st, ST_OK);
	return told(b, str_of(body.p, body.len));
}

static void
assert_says(const struct bench *b, const char *text)
{
	char there[1000];
	int fd = open(b->path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	ssize_t n = read(fd, there, sizeof there);
	(void)close(fd);
	assert_int_equal(n, strlen(text));
	assert_memory_equal(there, text, (size_t)n);
}

static void
certificates_come_to_the_place_of_the_policy(void **state)
{
	struct bench *b = *state;
	struct stat info;

	assert_int_equal(publish(b, b->path, STR(CERT)), ST_OK);
	assert_says(b, CERT);
	assert_int_equal(stat(b->path, &info), 0);
	assert_int_equal(info.st_mode & 07777, 0644);
	assert_int_equal(publish(b, b->path, STR(CERT CERT)), ST_OK);
	assert_says(b, CERT CERT);
}

static void
what_is_no_certificate_is_written_nowhere(void **state)
{
	const struct str refused[] = {
		STR(""),
		STR("\n"),
		STR("what is this\n"),
		STR(KEY),
		STR(CERT KEY),
		STR(KEY CERT),
		STR(BEGIN KEY END),
		STR("-----BEGIN TRUSTED CERTIFICATE-----\n" LINE
		    "-----END TRUSTED CERTIFICATE-----\n"),
		STR("subject=CN = sandgate\n" CERT),
		STR(CERT "\n" CERT),
		STR(CERT "* * * * * root sh\n"),
		STR(BEGIN "Proc-Type: 4,ENCRYPTED\n" LINE END),
		STR(BEGIN LINE "\n" END),
		STR(BEGIN "M" LINE END), /* longer than such a line is */
		STR(BEGIN "MIIB-_\n" END),
		STR(BEGIN "MIIB\0\n" END),
		STR("-----BEGIN CERTIFICATE-----\r\nMIIB\r\n-----END "
		    "CERTIFICATE-----\r\n"),
		STR(BEGIN END),
		STR(CERT BEGIN END),
		STR(BEGIN LINE),
		STR(BEGIN LINE BEGIN LINE END),
		STR(LINE END),
		STR(END BEGIN),
		STR(BEGIN LINE "-----END CERTIFICATE-----"), /* not a whole line */
		STR(" " CERT),
	};
	struct bench *b = *state;

	for (size_t i = 0; i < COUNT_OF(refused); i++)
		assert_int_equal(publish(b, b->path, refused[i]), ST_BAD_PARAMETER);
	assert_int_equal(access(b->path, F_OK), -1);
	assert_int_equal(publish(b, b->path, STR(CERT)), ST_OK);
	for (size_t i = 0; i < COUNT_OF(refused); i++)
		assert_int_equal(publish(b, b->path, refused[i]), ST_BAD_PARAMETER);
	assert_says(b, CERT);
}

static void
more_than_a_file_holds_is_refused(void **state)
{
	CLEANUP(buf_done) struct buf many = { 0 };
	struct bench *b = *state;

	buf_init(&many, 40000);
	while (many.len <= 32768)
		buf_put(&many, STR(CERT));
	assert_int_equal(many.st, ST_OK);
	assert_int_equal(publish(b, b->path, str_of(many.p, many.len)),
			 ST_BAD_PARAMETER);
	assert_int_equal(access(b->path, F_OK), -1);
	many.len -= sizeof CERT - 1;
	assert_int_equal(publish(b, b->path, str_of(many.p, many.len)), ST_OK);
}

static void
no_other_place_is_written_to(void **state)
{
	struct bench *b = *state;
	char other[64];

	(void)snprintf(other, sizeof other, "%s/ca.pem", b->folder);
	assert_int_equal(publish(b, other, STR(CERT)), ST_NOT_FOUND);
	assert_int_equal(access(other, F_OK), -1);
	(void)snprintf(other, sizeof other, "%s/made/../ca.pem", b->folder);
	assert_int_equal(publish(b, other, STR(CERT)), ST_NOT_FOUND);
	assert_int_equal(publish(b, "", STR(CERT)), ST_NOT_FOUND);
	assert_int_equal(publish(b, "/etc/ld.so.preload", STR(CERT)), ST_NOT_FOUND);
}

static void
a_message_that_holds_more_is_refused(void **state)
{
	CLEANUP(buf_done) struct buf body = { 0 };
	struct bench *b = *state;

	buf_init(&body, 1000);
	wire_put_str(&body, str_from(b->path));
	assert_int_equal(told(b, str_of(body.p, body.len)), ST_BAD_PARAMETER);
	wire_put_str(&body, STR(CERT));
	buf_put_u16(&body, 0);
	assert_int_equal(told(b, str_of(body.p, body.len)), ST_BAD_PARAMETER);
	assert_int_equal(access(b->path, F_OK), -1);
}

/* As a compiler that was taken over may make it: a path in no folder. */
static void
a_false_image_does_not_lead_astray(void **state)
{
	struct bench *b = *state;
	int real = compile_for(b->path),
	    false_one = memfd_create("image", MFD_ALLOW_SEALING);
	size_t n = strlen(b->path);
	struct stat info;

	assert_int_equal(fstat(real, &info), 0);
	char *copy = malloc((size_t)info.st_size), flat[64];
	assert_non_null(copy);
	assert_int_equal(pread(real, copy, (size_t)info.st_size, 0), info.st_size);
	char *at = memmem(copy, (size_t)info.st_size, b->path, n);
	assert_non_null(at);
	for (size_t i = 0; i < n; i++)
		at[i] = at[i] == '/' ? '_' : at[i];
	memcpy(flat, at, n);
	flat[n] = '\0';
	assert_int_equal(write(false_one, copy, (size_t)info.st_size), info.st_size);
	assert_int_equal(fcntl(false_one, F_ADD_SEALS, fcntl(real, F_GET_SEALS)), 0);
	take_image(b, false_one);
	assert_int_equal(publish(b, flat, STR(CERT)), ST_NOT_FOUND);
	free(copy);
	(void)close(real);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, up, down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(certificates_come_to_the_place_of_the_policy),
		TEST(what_is_no_certificate_is_written_nowhere),
		TEST(more_than_a_file_holds_is_refused),
		TEST(no_other_place_is_written_to),
		TEST(a_message_that_holds_more_is_refused),
		TEST(a_false_image_does_not_lead_astray),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
