/* Any bytes are refused, or every question stays inside them (the sanitizer watches).
 * A good image is kept and words of it are overwritten, else nothing would ever open.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conf/conf.h"
#include "conf/describe.h"
#include "conf/exec.h"
#include "conf/policy.h"
#include "conf/risk.h"
#include "conf/who.h"

static const char seed[] =
	"listeners: [{name: a, kind: proxy, address: '127.0.0.1:3128'}, "
	"{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"servers: [{name: os, url: 'http://127.0.0.1', key: k, tier: high, "
	"endpoints: [10.0.0.0/8], network: n}]\n"
	"exec: {images: ['sg/*'], volumes: ['/d/**', 'pvc:t*'], labels: {team: x}, "
	"env_deny: [A*], login_ports: [8080], policy: p, approval_webhook: c, "
	"placement: [{tier: high, images: ['s*'], entrypoints: ['a *'], agents: [a], "
	"users: [u], labels: {k: v}, network: ['*.n'], volumes: true, memory_over: 1, "
	"cpu_over: 1, risk: medium}, {tier: high}], warm: [{name: w, tier: high, size: "
	"1, image: i, entrypoint: [t], env: {E: v}, limits: {cpu: 1}}], jwt: [{issuer: "
	"i, audience: a, jwks_connector: c, jwks_path: /k, tenant: t}]}\n"
	"resolver: {servers: [127.0.0.53], hosts: {a.test: 10.0.0.1}}\n"
	"vault: {sources: [{name: bao, url: 'https://bao.test', "
	"auth: {kind: approle, role: r, secret: t}, "
	"secrets: {x: {path: p, field: f}, y: {path: q, field: f}}}]}\n"
	"connectors: [{name: c, hosts: [c.test], auth: {kind: bearer, secret: bao/x}, "
	"headers: {request: {add: {X-A: b}}}, allow: [{methods: [GET], query: [a, "
	"b]}], deny: [{query: [z]}]}]\n"
	"geo: {country_db: /c, asn_db: /a}\n"
	"sandboxes: [{id: s, source: [10.0.0.2, 'fd00::2'], policy: p}]\n"
	"risk: {rules: [{level: high, why: w, command: ['r*', b], args: ['-?']}]}\n"
	"policies:\n"
	"  p:\n"
	"    allow: [{hosts: [a.test, '*.b.example'], ports: [80], methods: [GET], "
	"paths: ['/x/**']},\n"
	"      {hosts: [c.example], countries: [DE], asns: [5], addresses: "
	"[10.0.0.0/8]},\n"
	"      {cidrs: [192.0.2.0/24], ports: [22], protocol: tcp}]\n"
	"    deny: [{ports: [25]}]\n"
	"    connectors: [c]\n";

/* Keys as they are, coded, and as some servers read them. */
static const char *const queries[] = { "a=1&b",   "%61=1;+b=2&&", "a%zz=1",
				       "+z[x]=1", "%5A%00=1",     "c=1" };

static int
make_good(struct buf *b)
{
	struct conf_files files;
	struct report r;
	struct conf *c = NULL;
	char chunk[4096];
	int fd = -1;

	conf_files_init(&files);
	need(report_init(&r) == ST_OK);
	need(conf_files_add(&files, CONF_MAIN, STR("f.yaml"), STR(seed)) == ST_OK);
	need(conf_compile(&files, &r, &c) == ST_OK && conf_seal(c, &fd) == ST_OK);
	need(lseek(fd, 0, SEEK_SET) == 0);
	for (ssize_t n = read(fd, chunk, sizeof chunk); n > 0;
	     n = read(fd, chunk, sizeof chunk))
		buf_put(b, str_of(chunk, (size_t)n));
	conf_free(c);
	report_done(&r);
	conf_files_done(&files);
	return fd;
}

static void
ask_policy(const struct image *im, uint32_t policy, const char *host,
	   enum policy_way way)
{
	struct dest d;
	struct policy_answer a;
	struct addr addr = { 4, { 10, 0, 0, 1 } };
	struct policy_place place = { &addr, "DE", 5 };
	uint32_t rule;

	need(dest_from_host(str_from(host), 80, &d) == ST_OK);
	struct policy_question q = { .may.policy = policy,
				     .dest = &d,
				     .way = way,
				     .method = STR("GET"),
				     .path = STR("/x/y"),
				     .is_tls = true };
	for (size_t i = 0; i < COUNT_OF(queries); i++) {
		q.query = str_from(queries[i]);
		policy_judge(im, &q, &a);
		need((a.action == ACTION_DENY) <= (a.reason != ST_OK));
	}
	policy_judge_name(im, mandate_of(policy), &d, &a);
	(void)(policy_address(im, mandate_of(policy), &d, &place, &rule) == ST_OK);
	(void)policy_is_by_name(im, policy, str_from(host));
}

static void
ask_stores(const struct image *im, struct buf *b)
{
	size_t n, items_n, connectors_n;
	const struct image_store *s = image_stores(im, &n);
	const struct image_store_item *items = image_store_items(im, &items_n);
	const struct image_connector *c = image_connectors(im, &connectors_n);

	for (size_t i = 0; i < n; i++)
		buf_put(b, image_str(im, s[i].name));
	for (size_t i = 0; i < items_n; i++)
		(void)image_store_item_by_name(im, image_str(im, items[i].name));
	for (uint32_t i = 0; i < connectors_n; i++) {
		(void)image_store_of(im, i);
		for (uint32_t k = 0; k < c[i].request_add_n; k++)
			buf_put(b,
				image_str(im,
					  image_headers(im, c[i].request_add)[k].name));
	}
	(void)image_store_item_by_name(im, STR("bao/zz"));
	(void)image_is_store_name(im, STR("bao/x"));
	(void)image_is_store_name(im, STR("zz"));
	(void)image_connector_by_name(im, STR("c"));
}

static void
ask_placement(const struct image *im, struct buf *b)
{
	const struct exec_pair label = { STR("k"), STR("v") };
	const struct str hosts[] = { STR("a.n"), STR("*.n") };
	struct exec_shape s = { .image = STR("sg/a"),
				.entrypoint = STR("a b"),
				.agent = STR("a"),
				.user = STR("u"),
				.labels = &label,
				.labels_n = 1,
				.hosts = hosts,
				.hosts_n = COUNT_OF(hosts),
				.memory = 2,
				.cpu_milli = 1001,
				.has_volumes = true,
				.risk = RISK_HIGH };
	size_t n;

	struct exec_placing p = exec_place_tier(im, &s);
	(void)image_exec_placements(im, &n);
	need(p.tier < EXEC_TIERS && (p.rule < n || p.rule == EXEC_NO_RULE));
	exec_put_placing(b, im, &p);
	s.labels_n = 0;
	(void)exec_place_tier(im, &s);
	s.hosts_n = 0;
	s.image = STR("x");
	(void)exec_place_tier(im, &s);
}

static void
ask_lists(const struct image *im)
{
	(void)exec_image_allowed(im, STR("sg/a"));
	(void)exec_volume_allowed(im, EXEC_VOLUME_HOST, STR("/d/e"));
	(void)exec_volume_allowed(im, EXEC_VOLUME_CLAIM, STR("t"));
	(void)exec_env_denied(im, STR("ABC"));
	(void)exec_login_goes_on(im, 8080);
	(void)exec_needs_approval(im, RISK_MEDIUM);
	need(!exec_image_allowed(im, STR("a b")) && !exec_image_allowed(im, STR("")));
	need(!exec_volume_allowed(im, EXEC_VOLUME_HOST, STR("/d/../e")));
	need(!exec_volume_allowed(im, EXEC_VOLUME_HOST, STR("/d/\x7f")));
	need(!exec_volume_allowed(im, EXEC_VOLUME_HOST, STR("d")));
	need(exec_env_denied(im, STR("EXECD_ENVS")) && exec_env_denied(im, STR("A=B")));
}

static void
put_words(const struct image *im, struct buf *b, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++)
		buf_put(b, image_word(im, i));
}

static void
ask_exec(const struct image *im, struct buf *b)
{
	const struct addr metadata = { 4, { 169, 254, 169, 254 } };
	const struct addr inside = { 4, { 10, 0, 0, 1 } };
	size_t n, connectors_n;
	const struct image_exec *e = image_exec(im);
	const struct image_exec_server *s = image_exec_servers(im, &n);

	(void)image_connectors(im, &connectors_n);
	need(e->webhook == CONNECTOR_NONE || e->webhook < connectors_n);
	put_words(im, b, e->labels, e->labels_n);
	for (size_t i = 0; i < n; i++) {
		need(s[i].connector < connectors_n && s[i].weight > 0);
		need(image_exec_server_of(im, s[i].connector) != NULL);
		need(!exec_endpoint_allowed(im, &s[i], &metadata));
		(void)exec_endpoint_allowed(im, &s[i], &inside);
		buf_put(b, image_str(im, s[i].network));
	}
	(void)image_exec_server_by_name(im, STR("os"));
	const struct image_exec_warm *w = image_exec_warms(im, &n);
	for (size_t i = 0; i < n; i++) {
		need(w[i].env_n % 2 == 0 && w[i].limits_n % 2 == 0);
		put_words(im, b, w[i].entrypoint, w[i].entrypoint_n);
		put_words(im, b, w[i].env, w[i].env_n);
		put_words(im, b, w[i].limits, w[i].limits_n);
	}
	const struct image_exec_jwt *j = image_exec_jwts(im, &n);
	for (size_t i = 0; i < n; i++)
		buf_put(b, image_str(im, j[i].jwks));
	ask_placement(im, b);
	ask_lists(im);
}

static void
ask_policies(const struct image *im, struct buf *b)
{
	size_t n;

	for (uint32_t p = 0; p < 3; p++) {
		for (int way = WAY_ANY; way <= WAY_TCP; way++) {
			ask_policy(im, p, "x.b.example", (enum policy_way)way);
			ask_policy(im, p, "192.0.2.1", (enum policy_way)way);
			ask_policy(im, p, "c.example", (enum policy_way)way);
			ask_policy(im, p, "c.test", (enum policy_way)way);
		}
		image_put_rule(b, im, p);
		(void)image_policies(im, &n);
		if (p < n)
			describe_policy(b, im, p);
	}
}

static void
ask_risk(struct buf *b, const struct image *im)
{
	struct risk_question q = { .kind = RISK_COMMAND, .text = STR("rm -f x; b -y") };
	struct risk_answer a;

	risk_judge(im, &q, &a);
	need(a.level < RISK_LEVELS);
	risk_put_reason(b, im, &a);
}

static void
ask_all(const struct image *im)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct addr source = { 4, { 10, 0, 0, 2 } };
	struct who_table *t;
	size_t n, at = 0;

	buf_init(&b, 1 << 16);
	for (size_t i = 0; i < OPT_COUNT; i++)
		buf_put(&b, image_text(im, (enum option)i));
	(void)image_host_addrs(im, STR("a.test"), &n);
	(void)image_sandbox_by_source(im, &source);
	const struct image_sandbox *s = image_sandbox_by_id(im, STR("s"));
	const struct addr *sources = s == NULL ? NULL : image_sources(im, s, &n);
	for (size_t i = 0; s != NULL && i < n; i++)
		addr_put(&b, &sources[i]);
	(void)image_limits(im, 77);
	(void)image_listener_by_name(im, STR("zz"));
	const struct image_listener *l = image_listeners(im, &n);
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < l[i].names_n; k++)
			buf_put(&b, image_word(im, l[i].names + k));
	ask_stores(im, &b);
	(void)image_resolvers(im, &n);
	for (size_t i = 0; i < OPT_COUNT; i++)
		need(image_flag(im, (enum option)i) ==
		     (image_number(im, (enum option)i) != 0));
	(void)image_policy_by_name(im, STR("p"));
	(void)image_policy_by_name(im, STR("zz"));
	image_put_rule(&b, im, UINT32_MAX);
	ask_policies(im, &b);
	ask_risk(&b, im);
	ask_exec(im, &b);
	need(who_new(&t) == ST_OK);
	if (who_set_image(t, im) == ST_OK)
		while (who_next(t, &at) != NULL)
			continue;
	who_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct image *im;

	buf_init(&b, 1 << 20);
	(void)close(make_good(&b));
	if (size > 0 && data[0] % 4 == 0) { /* the input alone */
		buf_clear(&b);
		buf_put(&b, str_of(data + 1, size - 1));
	}
	for (size_t i = 1; data[0] % 4 != 0 && i + 6 <= size && size > 0; i += 6) {
		size_t at = (size_t)(data[i] << 8 | data[i + 1]) * 4;
		if (at + 4 <= b.len)
			memcpy(b.p + at, data + i + 2, 4);
	}
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	need(fd >= 0 && write(fd, b.p, b.len) == (ssize_t)b.len);
	need(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0);
	if (image_open(fd, &im) == ST_OK) {
		ask_all(im);
		image_close(im);
	}
	(void)close(fd);
	return 0;
}
