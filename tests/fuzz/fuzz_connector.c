/*
 * Any connector document beside a policy that lists `c`: refused with a message, or an
 * image that opens, twice the same.  And what it lets pass is what policy_judge() was
 * meant to: never plain, never another host, never past a deny.
 */
#include "tests/fuzz/compile_twice.h"

#include "conf/policy.h"

static const char main_text[] = "policies:\n"
				"  p:\n"
				"    connectors: [c]\n"
				"    allow: [{hosts: [open.test], ports: [8080]}]\n"
				"    deny: [{hosts: [c.test], paths: ['/never/**']}]\n"
				"sandboxes: [{id: s, policy: p}]\n";

static const char *const hosts[] = { "c.test", "a.c.test", "open.test", "c" };
static const char *const methods[] = { "GET", "HEAD", "POST", "ODD" };
static const char *const paths[] = { "/", "/v1/a", "/never/a", "*" };
static const char *const queries[] = { "", "a=1&b", "%61", "&&=" };

static void
check(const struct image *im, const struct policy_question *q)
{
	struct policy_answer a;

	policy_judge(im, q, &a);
	need((a.action == ACTION_DENY) == (a.reason != ST_OK));
	if (a.action != ACTION_CONNECTOR)
		return;
	need(q->way == WAY_HTTP && q->is_tls && a.connector == 0);
	need(!str_eq(dest_name(q->dest), STR("open.test")) || q->dest->port != 8080);
	need(!str_eq(dest_name(q->dest), STR("c.test")) ||
	     !str_starts(q->path, STR("/never/")));
}

static void
ask(const struct image *im, const struct dest *d)
{
	struct policy_question q = { .may.policy = 0, .dest = d };

	for (int way = WAY_ANY; way <= WAY_TCP; way++)
		for (unsigned i = 0; i < 128; i++) {
			q.way = (enum policy_way)way;
			q.is_tls = (i & 64) != 0;
			q.method = str_from(methods[i & 3]);
			q.path = str_from(paths[i >> 2 & 3]);
			q.query = str_from(queries[i >> 4 & 3]);
			check(im, &q);
		}
}

static void
ask_all(const struct image *im)
{
	static const struct addr private = { .family = 4, .b = { 10, 0, 0, 1 } };
	static const uint16_t ports[] = { 443, 8080 };
	const struct policy_place place = { .addr = &private };
	struct dest d;

	for (size_t i = 0; i < COUNT_OF(hosts) * COUNT_OF(ports); i++) {
		need(dest_from_host_single(str_from(hosts[i / 2]), ports[i % 2], &d) ==
		     ST_OK);
		ask(im, &d);
		enum status st = policy_fetch_address(im, 0, mandate_of(0), &d, &place);
		need(st != ST_OK || policy_fetch(im, 0, &d) == ST_OK);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_files files;

	conf_files_init(&files);
	need(conf_files_add(&files, CONF_MAIN, STR("m.yaml"), STR(main_text)) == ST_OK);
	need(conf_files_add(&files, CONF_CONNECTOR, STR("connectors/c.yaml"),
			    str_of(data, size)) == ST_OK);
	struct image *im = compile_twice(&files);
	if (im != NULL)
		ask_all(im);
	image_close(im);
	conf_files_done(&files);
	return 0;
}
