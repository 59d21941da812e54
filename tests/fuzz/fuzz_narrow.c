/*
 * Any text that narrows, any destination and address.  A plain reading of the text says the
 * same; told again it means the same; and with it a policy allows nothing that it doesn't
 * allow alone, in enforce mode or in observe.
 *
 * Input: a line with a host, a line with an address, the text.
 */
#include "tests/fuzz/compile_twice.h"

#include <string.h>

#include "conf/policy.h"

/* The model: no table, no folding ahead, octet by octet. */

static bool
same_letter(char a, char b)
{
	return ascii_lower(a) == ascii_lower(b);
}

static bool
ends_with(struct str s, struct str tail)
{
	if (s.n < tail.n)
		return false;
	for (size_t i = 1; i <= tail.n; i++)
		if (!same_letter(s.p[s.n - i], tail.p[tail.n - i]))
			return false;
	return true;
}

static bool
model_name_fits(struct str target, struct str name)
{
	if (target.p[0] != '*')
		return target.n == name.n && ends_with(name, target);
	struct str tail = str_skip(target, 1); /* with its dot */
	return name.n > tail.n && ends_with(name, tail);
}

static bool
bits_agree(const struct addr *net, const struct addr *a, unsigned bits)
{
	if (net->family != a->family)
		return false;
	for (unsigned i = 0; i < bits; i++)
		if (((net->b[i / 8] ^ a->b[i / 8]) >> (7 - i % 8)) & 1)
			return false;
	return true;
}

/* False: the target is a name. */
static bool
model_network(struct str target, struct addr *ret_net, unsigned *ret_bits)
{
	struct cidr c;

	if (addr_parse(target, ret_net)) {
		*ret_bits = ret_net->family == 4 ? 32 : 128;
		return true;
	}
	if (!cidr_parse(target, &c))
		return false;
	*ret_net = c.net;
	*ret_bits = c.bits;
	return true;
}

static bool
model_addr_fits(struct str target, bool allows, const struct addr *a)
{
	struct addr net, bare = addr_unwrap(a);
	unsigned bits;

	if (!model_network(target, &net, &bits))
		return false;
	return bits_agree(&net, &bare, bits) || (!allows && bits_agree(&net, a, bits));
}

enum said { SAID_NOTHING, SAID_ALLOW, SAID_DENY };

/* a NULL: by the name. */
static enum said
model(struct str text, struct str name, const struct addr *a)
{
	(void)str_cut(&text, '\n'); /* the default */
	while (text.p != NULL) {
		struct str line = str_cut(&text, '\n');
		struct str target = line;
		if (line.n == 0)
			continue;
		(void)str_cut(&target, ' ');
		bool allows = same_letter(line.p[0], 'a');
		struct addr net;
		unsigned bits;
		bool fits = a != NULL ? model_addr_fits(target, allows, a)
				      : !model_network(target, &net, &bits) &&
						model_name_fits(target, name);
		if (fits)
			return allows ? SAID_ALLOW : SAID_DENY;
	}
	return SAID_NOTHING;
}

static bool
model_allows(struct str text, const struct dest *d)
{
	enum said said = dest_is_name(d) ? model(text, dest_name(d), NULL)
					 : model(text, STR(""), &d->addr);

	if (said == SAID_NOTHING) /* "default allow" or "default deny" */
		return same_letter(text.p[sizeof "default " - 1], 'a');
	return said == SAID_ALLOW;
}

static void
check_model(const struct narrow *n, struct str text, const struct dest *d,
	    const struct addr *a)
{
	bool allows = narrow_judge(n, d) == ST_OK;
	bool allows_addr = narrow_judge_address(n, d, a) == ST_OK;

	need(!allows_addr || allows);
	if (!narrow_is_text(text)) {
		need(!allows && !allows_addr);
		return;
	}
	need(allows == model_allows(text, d));
	bool is_denied = model(text, STR(""), a) == SAID_DENY;
	need(allows_addr == (allows && !is_denied));
	bool is_named = (dest_is_name(d) ? model(text, dest_name(d), NULL)
					 : model(text, STR(""), &d->addr)) == SAID_DENY;
	need((narrow_judge_fetch(n, d, a) == ST_OK) == (!is_named && !is_denied));
}

static void
check_told_again(const struct narrow *n, const struct dest *d, const struct addr *a)
{
	CLEANUP(buf_done) struct buf one = { 0 }, two = { 0 };

	buf_init(&one, 4 * NARROW_TEXT_MAX);
	buf_init(&two, 4 * NARROW_TEXT_MAX);
	narrow_put(&one, n);
	need(one.st == ST_OK);
	if (one.len > NARROW_TEXT_MAX)
		return;
	need(narrow_is_text(str_of(one.p, one.len)));
	struct narrow *again = narrow_new(str_of(one.p, one.len));
	need(again != NULL);
	narrow_put(&two, again);
	need(str_eq(str_of(one.p, one.len), str_of(two.p, two.len)));
	need(narrow_judge(n, d) == narrow_judge(again, d));
	need(narrow_judge_address(n, d, a) == narrow_judge_address(again, d, a));
	narrow_free(again);
}

/* Narrowed, nothing passes that doesn't pass alone, and what passes is treated the same. */
static void
check_policy(const struct image *im, uint32_t policy, const struct narrow *n,
	     const struct dest *d, const struct addr *a)
{
	const struct policy_place place = { .addr = a };
	const struct mandate both = { policy, n };
	struct policy_answer alone, less;
	uint32_t rule;

	for (int way = WAY_ANY; way <= WAY_TCP; way++) {
		struct policy_question q = { .may = mandate_of(policy),
					     .dest = d,
					     .way = (enum policy_way)way,
					     .method = STR("GET"),
					     .path = STR("/") };
		policy_judge(im, &q, &alone);
		q.may = both;
		policy_judge(im, &q, &less);
		need(less.action == ACTION_DENY || less.action == alone.action);
		need(alone.action != ACTION_DENY || less.reason == alone.reason);
		need(narrow_judge(n, d) == ST_OK || less.action == ACTION_DENY);
	}
	enum status was = policy_address(im, mandate_of(policy), d, &place, &rule);
	enum status is = policy_address(im, both, d, &place, &rule);
	need(is == was || (was == ST_OK && is == ST_NARROWED));
	need(is != ST_OK || narrow_judge_address(n, d, a) == ST_OK);
	policy_judge_name(im, mandate_of(policy), d, &alone);
	policy_judge_name(im, both, d, &less);
	need(less.action == ACTION_DENY || less.action == alone.action);
}

static struct image *
the_image(void)
{
	static const char text[] =
		"policies:\n"
		"  p:\n"
		"    allow:\n"
		"      - {hosts: [a.test, '*.b.test'], ports: [443, 80]}\n"
		"      - {hosts: [t.test], ports: [443], protocol: tcp}\n"
		"      - {cidrs: [10.0.0.0/8, 192.0.2.0/24], protocol: tcp, ports: "
		"[443]}\n"
		"    deny: [{hosts: [no.b.test]}]\n"
		"  o: {mode: observe, allow: []}\n";
	static struct image *im;
	struct conf_files files;

	if (im != NULL)
		return im;
	conf_files_init(&files);
	need(conf_files_add(&files, CONF_MAIN, STR("m.yaml"), STR(text)) == ST_OK);
	im = compile_twice(&files);
	conf_files_done(&files);
	need(im != NULL);
	return im;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = str_of(data, size), host = str_cut(&text, '\n');
	struct str address = str_cut(&text, '\n');
	struct dest d;
	struct addr a;

	if (text.p == NULL || dest_from_host_single(host, 443, &d) != ST_OK ||
	    !addr_parse(address, &a))
		return 0;
	struct narrow *n = narrow_new(text);
	need(n != NULL);
	check_model(n, text, &d, &a);
	check_told_again(n, &d, &a);
	for (uint32_t policy = 0; policy < 2; policy++)
		check_policy(the_image(), policy, n, &d, &a);
	narrow_free(n);
	return 0;
}
