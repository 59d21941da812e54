#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/io/synth.h"

struct pair { /* the two ends of one table */
	int write_fd, read_fd;
	struct synth *writer, *reader;
};

static int
open_pair(void **state)
{
	static struct pair p;

	if (synth_create(&p.write_fd, &p.read_fd) != ST_OK ||
	    synth_open(p.write_fd, true, &p.writer) != ST_OK ||
	    synth_open(p.read_fd, false, &p.reader) != ST_OK)
		return -1;
	*state = &p;
	return 0;
}

static int
close_pair(void **state)
{
	struct pair *p = *state;

	synth_close(p->writer);
	synth_close(p->reader);
	close(p->write_fd);
	close(p->read_fd);
	return 0;
}

static struct str
find(const struct pair *p, const char *sandbox, struct addr a)
{
	static char space[SYNTH_NAME_MAX];
	struct str name = { 0 };

	if (synth_find(p->reader, str_from(sandbox), &a, space, &name) != ST_OK)
		return (struct str){ 0 };
	return name;
}

static uint16_t
assign(struct pair *p, const char *sandbox, const char *name)
{
	uint16_t slot;

	assert_int_equal(
		synth_assign(p->writer, str_from(sandbox), str_from(name), &slot),
		ST_OK);
	return slot;
}

static void
an_address_leads_back_to_the_name_in_its_sandbox_only(void **state)
{
	struct pair *p = *state;
	uint16_t a = assign(p, "one", "db.example.test");

	assert_int_equal(assign(p, "one", "db.example.test"), a);
	assert_true(
		str_eq(find(p, "one", synth_address(a, 4)), STR("db.example.test")));
	assert_true(
		str_eq(find(p, "one", synth_address(a, 6)), STR("db.example.test")));
	assert_null(find(p, "two", synth_address(a, 4)).p);
	assert_int_equal(assign(p, "two", "db.example.test"), a);
	assert_int_not_equal(assign(p, "two", "git.example.test"), a);
}

static void
the_gateways_own_name_is_known_to_all(void **state)
{
	struct pair *p = *state;

	assert_int_equal(assign(p, "one", SYNTH_PAGES_NAME), 0);
	assert_true(
		str_eq(find(p, "nobody", synth_address(0, 4)), STR(SYNTH_PAGES_NAME)));
	assert_memory_equal(synth_address(0, 4).b, "\xc6\x12\x00\x01", 4);
}

static void
addresses_that_were_never_given_out_are_not_found(void **state)
{
	struct pair *p = *state;
	const struct addr outside[] = {
		{ 4, { 198, 18, 0, 0 } },
		{ 4, { 198, 18, 2, 1 } },
		{ 4, { 198, 19, 255, 255 } },
		{ 4, { 198, 20, 0, 1 } },
		{ 6, { 0xfd, 0x5a, 0x67, 0x61, 0x74, 0x65 } },
		{ 6,
		  { 0xfd, 0x5a, 0x67, 0x61, 0x74, 0x65, 0, 0, 1, 0, 0, 0, 0, 0, 0,
		    1 } },
		{ 0, { 0 } },
	};

	assign(p, "one", "db.example.test");
	for (size_t i = 0; i < COUNT_OF(outside); i++)
		assert_null(find(p, "one", outside[i]).p);
	assert_true(synth_is_address(&outside[2]));
	assert_false(synth_is_address(&outside[3]));
	assert_true(synth_is_address(&outside[5]));
}

static void
a_full_sandbox_gets_no_more_and_keeps_what_it_has(void **state)
{
	struct pair *p = *state;
	uint16_t slot, first = assign(p, "one", "n0.example.test");
	char name[32];

	for (int i = 1; i < SYNTH_SLOTS - 1; i++) {
		assert_true(snprintf(name, sizeof(name), "n%d.example.test", i) > 0);
		assert_true(assign(p, "one", name) > 0);
	}
	assert_int_equal(
		synth_assign(p->writer, STR("one"), STR("more.example.test"), &slot),
		ST_TOO_BIG);
	assert_int_equal(assign(p, "one", "n0.example.test"), first);
	assert_true(assign(p, "two", "more.example.test") > 0);
	assert_true(str_eq(find(p, "one", synth_address(first, 4)),
			   STR("n0.example.test")));
}

static void
a_forgotten_sandbox_leaves_nothing_and_its_place_is_used_again(void **state)
{
	struct pair *p = *state;
	char id[32];

	for (int i = 0; i < 3 * SYNTH_SANDBOXES; i++) {
		uint16_t slot;

		assert_true(snprintf(id, sizeof(id), "box-%d", i) > 0);
		slot = assign(p, id, "db.example.test");
		synth_forget(p->writer, str_from(id));
		assert_null(find(p, id, synth_address(slot, 4)).p);
	}
}

static void
too_many_sandboxes_are_refused(void **state)
{
	struct pair *p = *state;
	struct str id;
	char text[32];
	uint16_t slot;
	size_t at = 0, n = 0;

	for (int i = 0; i < SYNTH_SANDBOXES; i++) {
		assert_true(snprintf(text, sizeof(text), "box-%d", i) > 0);
		assign(p, text, "db.example.test");
	}
	assert_int_equal(synth_assign(p->writer, STR("more"), STR("a.test"), &slot),
			 ST_TOO_BIG);
	while (synth_next(p->writer, &at, &id)) {
		synth_forget(p->writer, id);
		n++;
	}
	assert_int_equal(n, SYNTH_SANDBOXES);
	assert_true(assign(p, "more", "a.test") > 0);
}

static void
names_outlive_their_writer(void **state)
{
	struct pair *p = *state;
	uint16_t slot = assign(p, "one", "db.example.test");

	synth_close(p->writer);
	assert_int_equal(synth_open(p->write_fd, true, &p->writer), ST_OK);
	assert_int_equal(assign(p, "one", "db.example.test"), slot);
}

static void
a_reader_cannot_map_it_for_writing(void **state)
{
	struct pair *p = *state;
	struct synth *s;

	assert_ptr_equal(
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, p->read_fd, 0),
		MAP_FAILED);
	assert_int_equal(synth_open(p->read_fd, true, &s), ST_SYSTEM);
}

static void
ids_and_names_that_are_too_long_are_refused(void **state)
{
	struct pair *p = *state;
	static char text[300];
	uint16_t slot;

	assert_int_equal(synth_assign(p->writer, str_of(text, SYNTH_ID_MAX + 1),
				      STR("a.test"), &slot),
			 ST_TOO_BIG);
	assert_int_equal(synth_assign(p->writer, STR("one"),
				      str_of(text, SYNTH_NAME_MAX + 1), &slot),
			 ST_TOO_BIG);
}

int
main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_pair, close_pair)
	const struct CMUnitTest tests[] = {
		CASE(an_address_leads_back_to_the_name_in_its_sandbox_only),
		CASE(the_gateways_own_name_is_known_to_all),
		CASE(addresses_that_were_never_given_out_are_not_found),
		CASE(a_full_sandbox_gets_no_more_and_keeps_what_it_has),
		CASE(a_forgotten_sandbox_leaves_nothing_and_its_place_is_used_again),
		CASE(too_many_sandboxes_are_refused),
		CASE(names_outlive_their_writer),
		CASE(a_reader_cannot_map_it_for_writing),
		CASE(ids_and_names_that_are_too_long_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
