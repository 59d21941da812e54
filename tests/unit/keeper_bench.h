#ifndef TESTS_UNIT_KEEPER_BENCH_H
#define TESTS_UNIT_KEEPER_BENCH_H
/* The keeper's real process, in its jail; the test is super, ledger, connector, control
 * and worker to it.  Included behind cmocka.h. */
#include "proxy/io/vault_op.h"
#include "tests/unit/super_bench.h"
#include "vault/mint.h"
#include "vault/page.h"
#include "vault/secret.h"

/* "jira" is delegated; "spare" is listed by no policy; "refresh" may rotate; "other" is
 * of another process. */
static const char policy_text[] =
	"state_dir: /tmp\n"
	"resolver: {servers: [\"127.0.0.1\"]}\n"
	"listeners:\n"
	"  - {name: plain, kind: proxy, address: \"127.0.0.1:1\"}\n"
	"  - {name: secure, kind: proxy, address: \"127.0.0.1:2\",\n"
	"     tls: {names: [gw.test, 10.0.0.1]}}\n"
	"policies:\n"
	"  coding:\n"
	"    allow:\n"
	"      - {hosts: [a.example.test], methods: [GET]}\n"
	"    connectors: [tracker, jira, refresh, other, mounted]\n"
	"connectors:\n"
	"  - {name: tracker, hosts: [tracker.example.test],\n"
	"     auth: {kind: bearer, secret: tracker/token},\n"
	"     allow: [{methods: [GET], paths: [\"/**\"]}]}\n"
	"  - {name: jira, hosts: [jira.example.test],\n"
	"     auth: {kind: bearer, secret: \"users/{user}/jira\"},\n"
	"     allow: [{methods: [GET], paths: [\"/**\"]}]}\n"
	"  - {name: refresh, hosts: [refresh.example.test],\n"
	"     auth: {kind: oauth2_refresh, secret: refresh/token, client_id: me,\n"
	"            token_url: \"https://refresh.example.test/token\"},\n"
	"     allow: [{methods: [GET], paths: [\"/**\"]}]}\n"
	"  - {name: spare, hosts: [spare.example.test],\n"
	"     auth: {kind: bearer, secret: tracker/token},\n"
	"     allow: [{methods: [GET], paths: [\"/**\"]}]}\n"
	"  - {name: other, hosts: [other.example.test], group: other,\n"
	"     auth: {kind: bearer, secret: other/token},\n"
	"     allow: [{methods: [GET], paths: [\"/**\"]}]}\n"
	"  - {name: mounted, hosts: [mounted.example.test],\n"
	"     auth: {kind: bearer, secret: files/token},\n"
	"     allow: [{methods: [GET], paths: [\"/**\"]}]}\n"
	"sandboxes:\n"
	"  - {id: demo, source: 127.0.0.1, user: alice, policy: coding}\n"
	"  - {id: ci, source: 127.0.0.2, user: bob, policy: coding}\n";

struct keeper { /* the real process, in its jail; the test is everybody else */
	struct scene scene;
	struct ask_end ledger, connector, control, worker;
	struct rowring *ring;
	char path[64];
	int state, page, listener;
	uint64_t generation; /* of the policy, where a test takes another */
};

NORETURN static void
exec_keeper(int line)
{
	/* A leak check would read /proc, which the jail forbids. */
	(void)setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
	/* KEEPER: where the build puts it (tests/CMakeLists.txt). */
	if (dup2(line, ROLE_SUPER_FD) == ROLE_SUPER_FD)
		(void)execl(KEEPER, "sandgate-keeper", (char *)NULL);
	_exit(2);
}

static inline struct ask_end
give_line(struct keeper *k, enum role role)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	give(&k->scene, GIVE_LINE, role,
	     role == ROLE_CONNECTOR ? STR("default") : STR("1"), &fds[1], 1);
	(void)close(fds[1]);
	return (struct ask_end){ fds[0], role, ROLE_KEEPER };
}

static inline void
start(struct keeper *k)
{
	struct scene *s = &k->scene;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	s->child = fork();
	assert_true(s->child >= 0);
	if (s->child == 0)
		exec_keeper(fds[1]);
	(void)close(fds[1]);
	s->line = (struct ask_end){ fds[0], ROLE_SUPER, ROLE_KEEPER };
	give(s, GIVE_SLOT, 1, STR("keeper"), NULL, 0);
	give(s, GIVE_RING, 1, STR(""), (const int[]){ s->ring_fd, s->bell }, 2);
	give(s, GIVE_STATE, 0, STR("/"), &k->state, 1);
	give(s, GIVE_PAGE, 0, STR(""), &k->page, 1);
	k->ledger = give_line(k, ROLE_LEDGER);
	k->connector = give_line(k, ROLE_CONNECTOR);
	k->control = give_line(k, ROLE_CONTROL);
	k->worker = give_line(k, ROLE_WORKER);
	take_policy(s, 1);
	tell(s, ASK_START, STR(""), NULL, 0);
	expect(s, ASK_START, ST_OK, 1);
}

static inline void
hang_up(struct keeper *k)
{
	if (k->scene.line.fd >= 0)
		(void)close(k->scene.line.fd);
	(void)close(k->ledger.fd);
	(void)close(k->connector.fd);
	(void)close(k->control.fd);
	(void)close(k->worker.fd);
}

/* As super would after a death. */
static inline void
kill_and_start(struct keeper *k)
{
	int how;

	assert_int_equal(kill(k->scene.child, SIGKILL), 0);
	assert_int_equal(waitpid(k->scene.child, &how, 0), k->scene.child);
	hang_up(k);
	start(k);
}

static inline void
start_again(struct keeper *k)
{
	hang_up(k);
	k->scene.line.fd = -1;
	expect_exit(&k->scene, 0);
	start(k);
}

static inline int
listen_here(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&sin, sizeof sin), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

/* The gateway's end of a connection from 127.0.0.LAST. */
static inline int
connect_from(struct keeper *k, uint8_t last)
{
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(0x7f000000u + last) },
			   to;
	socklen_t n = sizeof to;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(getsockname(k->listener, (struct sockaddr *)&to, &n), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	int accepted = accept4(k->listener, NULL, NULL, SOCK_CLOEXEC);
	(void)close(fd);
	return accepted;
}

static inline int
set_up(void **state)
{
	struct keeper *k = test_calloc(1, sizeof *k);
	struct scene *s = &k->scene;
	bool is_plain;

	*state = k;
	memcpy(k->path, "/tmp/sandgate-keeper-XXXXXX", 28);
	assert_non_null(mkdtemp(k->path));
	k->state = open(k->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	k->page = secret_memfd(PAGE_SIZE, &is_plain);
	k->listener = listen_here();
	assert_int_equal(rowring_create("keeper", &s->ring_fd), ST_OK);
	s->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(rowring_open_reader(s->ring_fd, &k->ring), ST_OK);
	s->image_fd = compile_text(str_of(policy_text, sizeof policy_text - 1));
	start(k);
	return 0;
}

static inline void
remove_dir(struct keeper *k)
{
	DIR *dir = opendir(k->path);
	struct dirent *entry;

	while ((entry = readdir(dir)) != NULL)
		(void)unlinkat(k->state, entry->d_name, 0);
	(void)closedir(dir);
	assert_int_equal(rmdir(k->path), 0);
}

static inline int
tear_down(void **state)
{
	struct keeper *k = *state;

	hang_up(k);
	if (k->scene.child > 0)
		expect_exit(&k->scene, 0);
	(void)close(k->scene.image_fd);
	(void)close(k->scene.ring_fd);
	(void)close(k->scene.bell);
	(void)close(k->page);
	(void)close(k->listener);
	rowring_close(k->ring);
	remove_dir(k);
	(void)close(k->state);
	test_free(k);
	return 0;
}

/* The vault, as an operator and as control see it. */

static inline int
seal_value(struct str value)
{
	int fd = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(write(fd, value.p, value.n), value.n);
	assert_int_equal(
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
	return fd;
}

static inline enum status
ask_vault(struct keeper *k, const struct vault_ask *a, const char *value,
	  struct str *ret_text)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	int fd = value == NULL ? -1 : seal_value(str_from(value));
	struct ask_msg m;

	buf_init(&b, VAULT_ASK_MAX);
	vault_ask_put(&b, a);
	assert_int_equal(ask_send(&k->control, ASK_VAULT, false, 7,
				  ASK_LOAD(str_of(b.p, b.len), &fd, fd >= 0 ? 1 : 0)),
			 ST_OK);
	if (fd >= 0)
		(void)close(fd);
	assert_int_equal(ask_recv(&k->control, k->scene.space, &m), ST_OK);
	assert_int_equal(m.fds_n, 0);
	struct wire w = wire_from(m.body);
	enum status st = (enum status)wire_u16(&w);
	*ret_text = wire_str(&w);
	assert_int_equal(wire_end(&w), ST_OK);
	return st;
}

static inline enum status
vault_op(struct keeper *k, enum vault_op op, const char *name, const char *value)
{
	struct str answer;

	return ask_vault(k, &(struct vault_ask){ .op = op, .name = str_from(name) },
			 value, &answer);
}

static inline void
expect_in(struct str text, const char *part)
{
	if (memmem(text.p, text.n, part, strlen(part)) == NULL)
		fail_msg("%s is not in %.*s", part, STR_ARG(text));
}

static inline void
expect_state(struct keeper *k, const char *part)
{
	struct str answer;

	assert_int_equal(ask_vault(k, &(struct vault_ask){ .op = VAULT_OP_STATUS },
				   NULL, &answer),
			 ST_OK);
	expect_in(answer, part);
}

struct lease {
	enum status st;
	uint32_t version, length;
	uint64_t expires;
	char value[256];
};

static inline struct lease
ask_lease(struct keeper *k, const char *connector, const char *secret, int sock)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	CLEANUP(secret_done) struct secret value = { 0 };
	struct lease l = { .value = "" };
	struct ask_msg m;

	buf_init(&b, 1024);
	wire_put_str(&b, str_from(connector));
	wire_put_str(&b, str_from(secret));
	assert_int_equal(
		ask_send(&k->connector, ASK_LEASE, false, 8,
			 ASK_LOAD(str_of(b.p, b.len), &sock, sock >= 0 ? 1 : 0)),
		ST_OK);
	assert_int_equal(ask_recv(&k->connector, k->scene.space, &m), ST_OK);
	struct wire w = wire_from(m.body);
	l.st = (enum status)wire_u16(&w);
	l.version = wire_u32(&w);
	l.expires = wire_u64(&w);
	l.length = wire_u32(&w);
	assert_int_equal(wire_end(&w), ST_OK);
	assert_int_equal(m.fds_n, l.st == ST_OK ? 1 : 0);
	if (l.st == ST_OK) {
		assert_true(l.length < sizeof l.value);
		assert_int_equal(secret_from_fd(m.fds[0], l.length, &value), ST_OK);
		memcpy(l.value, secret_bytes(&value), l.length);
	}
	ask_msg_done(&m);
	return l;
}

static inline void
expect_lease(struct keeper *k, const char *connector, const char *secret, int sock,
	     const char *value)
{
	struct lease l = ask_lease(k, connector, secret, sock);

	assert_int_equal(l.st, ST_OK);
	assert_string_equal(l.value, value);
}

/* The newest row of this kind that the ring holds; all are taken out. */
static inline enum status
last_row(struct keeper *k, enum row_kind kind, char detail[256])
{
	CLEANUP(buf_done) struct buf b = { 0 };
	enum status reason = ST_COUNT;
	struct row row;

	buf_init(&b, ROW_MAX);
	while (rowring_next(k->ring, &b) == ST_OK) {
		assert_int_equal(row_get(str_of(b.p, b.len), &row), ST_OK);
		if (row.kind != kind)
			continue;
		reason = row.reason;
		assert_true(row.detail.n < 256);
		memcpy(detail, row.detail.p, row.detail.n);
		detail[row.detail.n] = '\0';
	}
	rowring_advance(k->ring);
	return reason;
}

static inline enum status
ask_mint(struct keeper *k, const char *host, uint8_t way, X509 **ret_x)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	EVP_PKEY *key = EVP_EC_gen("P-256");
	unsigned char point[MINT_POINT];
	struct ask_msg m;
	size_t n;

	assert_int_equal(
		EVP_PKEY_get_octet_string_param(key, "pub", point, sizeof point, &n),
		1);
	EVP_PKEY_free(key);
	buf_init(&b, 1024);
	wire_put_str(&b, str_from(host));
	buf_put_u8(&b, way);
	buf_put(&b, str_of(point, sizeof point));
	assert_int_equal(ask_send(&k->worker, ASK_MINT, false, 10,
				  ASK_LOAD(str_of(b.p, b.len), NULL, 0)),
			 ST_OK);
	assert_int_equal(ask_recv(&k->worker, k->scene.space, &m), ST_OK);
	struct wire w = wire_from(m.body);
	enum status st = (enum status)wire_u16(&w);
	assert_int_equal(wire_u8(&w), st == ST_OK ? 1 : 0);
	if (st == ST_OK) {
		struct str der = wire_str(&w);
		const unsigned char *at = (const unsigned char *)der.p;
		*ret_x = d2i_X509(NULL, &at, (long)der.n);
		assert_non_null(*ret_x);
	}
	assert_int_equal(wire_end(&w), ST_OK);
	return st;
}

#endif
