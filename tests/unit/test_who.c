#include "tests/unit/make_image.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "conf/policy.h"
#include "conf/who.h"

static const char text[] = "sandboxes:\n"
			   "  - {id: b, source: 127.0.0.1, user: u, policy: p}\n"
			   "  - {id: a, source: ['::1', 127.0.0.9], policy: q}\n"
			   "policies: {p: {allow: []}, q: {allow: []}}\n";

struct pair { /* a connection over loopback: the accepted side and its peer */
	int accepted, peer, listening;
};

static struct pair
connect_from(const char *source)
{
	struct pair p;
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t n = sizeof sin;

	p.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	p.peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &sin.sin_addr), 1);
	assert_int_equal(bind(p.listening, (struct sockaddr *)&sin, sizeof sin), 0);
	assert_int_equal(listen(p.listening, 1), 0);
	assert_int_equal(getsockname(p.listening, (struct sockaddr *)&sin, &n), 0);
	struct sockaddr_in from = { .sin_family = AF_INET };
	assert_int_equal(inet_pton(AF_INET, source, &from.sin_addr), 1);
	assert_int_equal(bind(p.peer, (struct sockaddr *)&from, sizeof from), 0);
	assert_int_equal(connect(p.peer, (struct sockaddr *)&sin, sizeof sin), 0);
	p.accepted = accept4(p.listening, NULL, NULL, SOCK_CLOEXEC);
	assert_true(p.accepted >= 0);
	return p;
}

static void
pair_close(struct pair *p)
{
	(void)close(p->accepted);
	(void)close(p->peer);
	(void)close(p->listening);
}

static uint64_t
cookie(int fd, int which)
{
	uint64_t c = 0;
	socklen_t n = sizeof c;

	assert_int_equal(getsockopt(fd, SOL_SOCKET, which, &c, &n), 0);
	return c;
}

struct fixture {
	struct image *im;
	struct who_table *t;
};

static int
set_up(void **state)
{
	static struct fixture f;

	f.im = make_image(text);
	assert_int_equal(who_new(&f.t), ST_OK);
	assert_int_equal(who_set_image(f.t, f.im), ST_OK);
	*state = &f;
	return 0;
}

static int
tear_down(void **state)
{
	struct fixture *f = *state;

	who_free(f->t);
	image_close(f->im);
	return 0;
}

static void
a_connection_is_known_by_its_source(void **state)
{
	struct fixture *f = *state;
	struct pair known = connect_from("127.0.0.9"),
		    unknown = connect_from("127.0.0.8");
	const struct who *w = who_by_socket(f->t, known.accepted);

	assert_non_null(w);
	assert_true(str_eq(w->id, STR("a")));
	assert_int_equal(w->may.policy, image_policy_by_name(f->im, STR("q")));
	assert_int_equal(w->netns_cookie, 0);
	assert_ptr_equal(who_by_handle(f->t, w->handle), w);
	assert_null(who_by_socket(f->t, unknown.accepted));
	pair_close(&known);
	pair_close(&unknown);
}

static void
a_datagram_is_known_by_its_source(void **state)
{
	struct fixture *f = *state;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct addr known = { 4, { 127, 0, 0, 1 } }, unknown = { 4, { 127, 0, 0, 2 } },
		    four = { 4, { 127, 0, 0, 9 } }, six = { 6, { [15] = 1 } };

	assert_true(str_eq(who_by_source(f->t, fd, &known)->id, STR("b")));
	assert_null(who_by_source(f->t, fd, &unknown));
	/* Both families of a dual stack are one. */
	assert_true(str_eq(who_by_source(f->t, fd, &four)->id, STR("a")));
	assert_ptr_equal(who_by_source(f->t, fd, &four), who_by_source(f->t, fd, &six));
	(void)close(fd);
}

static void
a_grant_holds_for_one_socket(void **state)
{
	struct fixture *f = *state;
	struct pair p = connect_from("127.0.0.7"), q = connect_from("127.0.0.7");
	const struct who *b = who_by_id(f->t, STR("b"));

	assert_int_equal(who_grant(f->t, cookie(p.accepted, 57), b->handle), ST_OK);
	assert_ptr_equal(who_by_socket(f->t, p.accepted), b);
	assert_null(who_by_socket(f->t, q.accepted));
	pair_close(&p);
	pair_close(&q);
}

static void
next_policy(struct fixture *f, const char *with)
{
	struct image *old = f->im;

	f->im = make_image(with);
	assert_int_equal(who_set_image(f->t, f->im), ST_OK);
	image_close(old);
}

#define HASH_A "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
#define HASH_B "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a09"

static void
a_grant_follows_its_sandbox_and_ends_with_its_token(void **state)
{
	struct fixture *f = *state;
	struct pair p = connect_from("127.0.0.7");
	const struct who *w;

	next_policy(f, "sandboxes:\n"
		       "  - {id: z, token_sha256: " HASH_B ", policy: p}\n"
		       "  - {id: t, token_sha256: " HASH_A ", policy: p}\n"
		       "policies: {p: {allow: []}}\n");
	w = who_by_id(f->t, STR("t"));
	assert_int_equal(who_grant(f->t, cookie(p.accepted, 57), w->handle), ST_OK);
	/* Another place in the list is another handle. */
	next_policy(f, "sandboxes:\n"
		       "  - {id: t, token_sha256: " HASH_A ", policy: p}\n"
		       "  - {id: z, token_sha256: " HASH_B ", policy: p}\n"
		       "policies: {p: {allow: []}}\n");
	w = who_by_socket(f->t, p.accepted);
	assert_non_null(w);
	assert_true(str_eq(w->id, STR("t")));
	next_policy(f, "sandboxes:\n"
		       "  - {id: t, token_sha256: " HASH_B ", policy: p}\n"
		       "policies: {p: {allow: []}}\n");
	assert_null(who_by_socket(f->t, p.accepted));
	pair_close(&p);
}

static void
the_oldest_grant_goes_first(void **state)
{
	struct fixture *f = *state;
	struct pair p = connect_from("127.0.0.7");
	const struct who *b = who_by_id(f->t, STR("b"));
	uint64_t own = cookie(p.accepted, 57);

	assert_int_equal(who_grant(f->t, own, b->handle), ST_OK);
	for (uint64_t i = 1; i < 65536; i++)
		assert_int_equal(who_grant(f->t, own + (i << 32), b->handle), ST_OK);
	assert_ptr_equal(who_by_socket(f->t, p.accepted), b);
	assert_int_equal(who_grant(f->t, own + (UINT64_C(70000) << 32), b->handle),
			 ST_OK);
	assert_null(who_by_socket(f->t, p.accepted));
	pair_close(&p);
}

static void
one_sandbox_in_a_flood_takes_its_own_grants_away(void **state)
{
	struct fixture *f = *state;
	struct pair p = connect_from("127.0.0.7");
	const struct who *a = who_by_id(f->t, STR("a")), *b = who_by_id(f->t, STR("b"));
	uint64_t own = cookie(p.accepted, 57);

	assert_int_equal(who_grant(f->t, own, b->handle), ST_OK);
	for (uint64_t i = 1; i < 200000; i++)
		assert_int_equal(who_grant(f->t, own + (i << 32), a->handle), ST_OK);
	assert_ptr_equal(who_by_socket(f->t, p.accepted), b);
	pair_close(&p);
}

static void
an_attached_sandbox_keeps_its_names_and_follows_its_policy(void **state)
{
	struct fixture *f = *state;
	char id[] = "attached";
	uint32_t handle = HANDLE_ATTACHED + 5;
	struct who_entry e = { .handle = handle,
			       .netns_cookie = 12345,
			       .id = str_from(id),
			       .user = STR("u"),
			       .policy = STR("p") };

	assert_int_equal(who_attach(f->t, &e), ST_OK);
	id[0] = 'X'; /* copied: the caller's bytes may go */
	const struct who *w = who_by_handle(f->t, handle);
	assert_true(str_eq(w->id, STR("attached")));
	assert_int_equal(w->may.policy, image_policy_by_name(f->im, STR("p")));
	assert_int_equal(w->netns_cookie, 12345);
	assert_ptr_equal(who_by_id(f->t, STR("attached")), w);
	e.handle++;
	assert_int_equal(who_attach(f->t, &e), ST_CONFLICT);
	assert_null(who_by_handle(f->t, handle + 1));

	struct image *other = make_image("policies: {z: {allow: []}}\n");
	assert_int_equal(who_set_image(f->t, other), ST_OK);
	assert_int_equal(who_by_handle(f->t, handle)->may.policy, POLICY_NONE);
	assert_int_equal(who_set_image(f->t, f->im), ST_OK);
	image_close(other);
	who_detach(f->t, handle);
	who_detach(f->t, handle);
	assert_null(who_by_handle(f->t, handle));
	assert_int_equal(who_attach(f->t, &e), ST_OK);
}

static void
the_own_namespace_cannot_be_attached(void **state)
{
	struct fixture *f = *state;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct who_entry e = { .handle = HANDLE_ATTACHED,
			       .netns_cookie = cookie(fd, 71),
			       .id = STR("x") };

	assert_int_equal(who_attach(f->t, &e), ST_BAD_MESSAGE);
	e.netns_cookie = 999;
	e.handle = 3;
	assert_int_equal(who_attach(f->t, &e), ST_BAD_MESSAGE);
	e.handle = HANDLE_ATTACHED;
	e.netns_cookie = 0; /* and known by nothing at all */
	assert_int_equal(who_attach(f->t, &e), ST_BAD_MESSAGE);
	(void)close(fd);
}

static const struct addr here = { .family = 4, .b = { 127, 0, 0, 8 } };

static void
one_that_comes_is_known_by_its_sources_until_it_goes(void **state)
{
	struct fixture *f = *state;
	struct pair p = connect_from("127.0.0.8");
	struct addr sources[] = { here, { .family = 6, .b = { 0xfd, [15] = 1 } } };
	struct who_entry e = { .handle = HANDLE_ATTACHED + 1,
			       .id = STR("made"),
			       .policy = STR("p"),
			       .sources = sources,
			       .sources_n = 2 };

	assert_null(who_by_socket(f->t, p.accepted));
	assert_int_equal(who_attach(f->t, &e), ST_OK);
	const struct who *w = who_by_socket(f->t, p.accepted);
	assert_non_null(w);
	assert_true(str_eq(w->id, STR("made")));
	assert_int_equal(w->sources_n, 2);
	assert_null(w->may.narrow);
	assert_ptr_equal(who_by_addr(f->t, &sources[1]), w);

	/* The same one, with other addresses and less to reach. */
	struct str less = STR("default deny\nallow a.test\n");
	uint32_t revision = w->revision;
	e.sources = &sources[1];
	e.sources_n = 1;
	e.narrow = &less;
	assert_int_equal(who_attach(f->t, &e), ST_OK);
	assert_ptr_equal(who_by_addr(f->t, &sources[1]), w);
	assert_non_null(w->may.narrow);
	assert_int_not_equal(w->revision, revision);
	assert_null(who_by_socket(f->t, p.accepted));

	who_detach(f->t, e.handle);
	assert_null(who_by_addr(f->t, &sources[1]));
	pair_close(&p);
}

static void
an_address_has_one_sandbox_and_the_static_one_wins(void **state)
{
	struct fixture *f = *state;
	struct addr sources[] = { here, { .family = 4, .b = { 127, 0, 0, 9 } } };
	struct who_entry e = { .handle = HANDLE_ATTACHED + 1,
			       .id = STR("made"),
			       .policy = STR("p"),
			       .sources = sources,
			       .sources_n = 2 };

	assert_int_equal(who_attach(f->t, &e), ST_CONFLICT);
	assert_null(who_by_addr(f->t, &here));
	e.sources_n = 1;
	assert_int_equal(who_attach(f->t, &e), ST_OK);
	e.handle++;
	assert_int_equal(who_attach(f->t, &e), ST_CONFLICT);
	assert_int_equal(who_by_addr(f->t, &here)->handle, HANDLE_ATTACHED + 1);

	/* What can't become what it should is known by nothing. */
	e.handle--;
	e.sources = &sources[1];
	assert_int_equal(who_attach(f->t, &e), ST_CONFLICT);
	assert_non_null(who_by_handle(f->t, e.handle));
	assert_null(who_by_addr(f->t, &here));
	e.sources = sources;
	assert_int_equal(who_attach(f->t, &e), ST_OK);

	/* A new configuration has that address: it is no longer the other's. */
	struct image *other =
		make_image("sandboxes: [{id: s, source: 127.0.0.8, policy: p}]\n"
			   "policies: {p: {allow: []}}\n");
	assert_int_equal(who_set_image(f->t, other), ST_OK);
	assert_true(str_eq(who_by_addr(f->t, &here)->id, STR("s")));
	assert_int_equal(who_set_image(f->t, f->im), ST_OK);
	image_close(other);
	assert_true(str_eq(who_by_addr(f->t, &here)->id, STR("made")));
}

static void
all_are_visited_once(void **state)
{
	struct fixture *f = *state;
	struct who_entry e = { .id = STR("x"), .policy = STR("p") };
	size_t at = 0, n = 0;

	for (uint32_t i = 0; i < 20; i++) {
		e.handle = HANDLE_ATTACHED + i;
		e.netns_cookie = 1000000 + i;
		assert_int_equal(who_attach(f->t, &e), ST_OK);
	}
	while (who_next(f->t, &at) != NULL)
		n++;
	assert_int_equal(n, 22);
}

static void
what_is_no_inet_socket_is_nobody(void **state)
{
	struct fixture *f = *state;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	assert_null(who_by_socket(f->t, fds[0]));
	assert_null(who_by_socket(f->t, -1));
	assert_null(who_by_handle(f->t, 0));
	assert_null(who_by_handle(f->t, 3));
	(void)close(fds[0]);
	(void)close(fds[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_connection_is_known_by_its_source),
		TEST(a_datagram_is_known_by_its_source),
		TEST(a_grant_holds_for_one_socket),
		TEST(a_grant_follows_its_sandbox_and_ends_with_its_token),
		TEST(the_oldest_grant_goes_first),
		TEST(one_sandbox_in_a_flood_takes_its_own_grants_away),
		TEST(an_attached_sandbox_keeps_its_names_and_follows_its_policy),
		TEST(the_own_namespace_cannot_be_attached),
		TEST(one_that_comes_is_known_by_its_sources_until_it_goes),
		TEST(an_address_has_one_sandbox_and_the_static_one_wins),
		TEST(all_are_visited_once),
		TEST(what_is_no_inet_socket_is_nobody),
	};

	return cmocka_run_group_tests_name("who", tests, NULL, NULL);
}
