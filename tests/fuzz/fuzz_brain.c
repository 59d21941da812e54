/*
 * What callers and servers say to the brain.  The first octet says which:
 *
 *	r  a create: what is taken holds nothing of ours or of the server's, mounts only what is
 *	   allowed, and read again as it would be sent it is the same kind
 *	p  two policies and a name, with NULs between: narrowed, they allow what both allow
 *	e  a server's endpoint: what is taken is of the form that is dialled
 *	t  a text: renaming an id leaves none behind; times and queries are read or refused
 */
#include <string.h>
#include <unistd.h>

#include "conf/conf.h"
#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_label.h"
#include "proxy/control/brain_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char config[] =
	"policies: {p: {connectors: [], allow: []}}\n"
	"resolver: {servers: [192.0.2.1]}\n"
	"listeners: [{name: e, kind: opensandbox, address: '127.0.0.1:8090'}]\n"
	"servers:\n"
	"  - {name: one, url: 'http://127.0.0.1:8081', key: k/one, tier: standard,"
	" endpoints: [127.0.0.0/8]}\n"
	"exec: {volumes: ['/data/**'], images: ['sg/*'], env_deny: [NO*]}\n";

static struct image *
open_image(void)
{
	CLEANUP(report_done) struct report r = { 0 };
	struct conf_files files;
	struct conf *c = NULL;
	struct image *im = NULL;
	int fd = -1;

	need(report_init(&r) == ST_OK);
	conf_files_init(&files);
	need(conf_files_add(&files, CONF_MAIN, STR("t.yaml"), str_from(config)) ==
	     ST_OK);
	need(conf_compile(&files, &r, &c) == ST_OK);
	need(conf_seal(c, &fd) == ST_OK && image_open(fd, &im) == ST_OK);
	conf_free(c);
	conf_files_done(&files);
	(void)close(fd);
	return im;
}

static const struct image *
the_image(void)
{
	static struct image *im;

	if (im == NULL)
		im = open_image();
	return im;
}

/* Creates. */

static void
need_clean(const struct image *im, const struct request *r)
{
	static const char *const taken[] = { "metadata", "networkPolicy",
					     "network_policy", "credentialProxy",
					     "credential_proxy" };
	json_t *env = json_object_get(r->body, "env"), *v;
	const char *key;
	size_t i;

	for (i = 0; i < COUNT_OF(taken); i++)
		need(json_object_get(r->body, taken[i]) == NULL);
	json_object_foreach(env, key, v) need(!exec_env_denied(im, str_from(key)));
	json_object_foreach(r->metadata, key, v)
		need(!label_is_reserved(str_from(key)));
	json_array_foreach(r->mounts, i, v) need(exec_volume_allowed(
		im, EXEC_VOLUME_HOST,
		str_of(json_string_value(v), json_string_length(v))));
	need(r->source != REQUEST_IMAGE || exec_image_allowed(im, r->name));
	need(r->timeout_s >= 60 &&
	     r->timeout_s <= image_number(im, OPT_EXEC_MAX_TIMEOUT) / 1000);
}

static void
put_shape(struct buf *b, const struct request *r)
{
	const struct request_counts counts = { .policy = false };

	buf_init(b, REQUEST_SHAPE);
	request_put_shape(b, r, &counts);
	need(b->st == ST_OK);
}

static void
try_request(struct str text)
{
	CLEANUP(buf_done) struct buf why = { 0 }, first = { 0 }, second = { 0 };
	const struct image *im = the_image();
	struct request r = { 0 }, again = { 0 };
	char *sent;

	buf_init(&why, 1024);
	enum status st = request_read(im, text, &r, &why);
	need(why.st == ST_OK && (st == ST_OK) == (why.len == 0));
	if (st != ST_OK)
		return;
	need_clean(im, &r);
	put_shape(&first, &r);
	sent = json_dumps(r.body, 0);
	if (sent != NULL) {
		need(request_read(im, str_from(sent), &again, &why) == ST_OK);
		put_shape(&second, &again);
		need(str_eq(str_of(first.p, first.len), str_of(second.p, second.len)));
		need(json_array_size(again.stripped) == 0);
	}
	free(sent);
	request_done(&again);
	request_done(&r);
}

/* Policies. */

static json_t *
read_policy(struct str text)
{
	CLEANUP(buf_done) struct buf why = { 0 };
	json_t *from = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL),
	       *to = NULL;

	buf_init(&why, 1024);
	if (from == NULL || netpolicy_read(from, &to, &why) != ST_OK)
		to = NULL;
	json_decref(from);
	return to;
}

/* As an operator's is: denials first, and nothing else is allowed. */
static json_t *
as_operators(json_t *policy)
{
	json_t *deny = json_array(), *allow = json_array(), *rule;
	size_t i;

	json_array_foreach(json_object_get(policy, "egress"), i, rule)(void)
		json_array_append(
			strcmp(json_string_value(json_object_get(rule, "action")),
			       "deny") == 0
				? deny
				: allow,
			rule);
	(void)json_array_extend(deny, allow);
	json_decref(allow);
	return json_pack("{s:s, s:o}", "defaultAction", "deny", "egress", deny);
}

static bool
is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && s.p[i] != '.')
			return false;
	return s.n > 0;
}

static void
try_policies(struct str text)
{
	json_t *ours = read_policy(str_cut(&text, '\0'));
	json_t *theirs = read_policy(str_cut(&text, '\0'));
	json_t *operators = ours == NULL ? NULL : as_operators(ours), *both;

	if (operators != NULL && theirs != NULL) {
		both = netpolicy_narrow(operators, theirs);
		need(both != NULL);
		if (is_name(text))
			need(netpolicy_allows(both, text) ==
			     (netpolicy_allows(operators, text) &&
			      netpolicy_allows(theirs, text)));
		json_decref(both);
	}
	json_decref(operators);
	json_decref(ours);
	json_decref(theirs);
}

/* Endpoints. */

static void
need_plain(const struct brain_endpoint *e)
{
	struct addr a;

	need(e->host.n > 0 && e->at_port != 0 && e->fields_n <= PLACE_FIELDS);
	need(!addr_parse(e->host, &a) || a.b[0] == 127);
	need(e->prefix.n == 0 || e->prefix.p[0] == '/');
	for (size_t i = 0; i < e->host.n; i++)
		need(e->host.p[i] > ' ' && e->host.p[i] != '/' && e->host.p[i] != '@');
	for (size_t i = 0; i < e->prefix.n; i++)
		need(e->prefix.p[i] > ' ' && strchr("?#\\%", e->prefix.p[i]) == NULL);
	for (size_t i = 0; i < e->fields_n; i++) {
		need(!str_ieq(e->fields[i].name, STR("host")) &&
		     !str_ieq(e->fields[i].name, STR("open-sandbox-api-key")));
		for (size_t k = 0; k < e->fields[i].value.n; k++)
			need(e->fields[i].value.p[k] > ' ');
	}
}

static void
try_endpoint(struct str text)
{
	/* The image is only read. */
	static struct control c;
	struct brain b = { .control = &c };
	const struct brain_sandbox box = { .id = STR("sb-1"), .server = STR("one") };
	json_t *said = brain_json_object(text);

	if (said == NULL)
		return;
	c.role.image = (struct image *)(uintptr_t)the_image();
	map_init(&b.endpoints, 16);
	if (brain_endpoint_take(&b, &box, 44772, said) == ST_OK)
		need_plain(brain_endpoint_find(&b, box.id, 44772));
	brain_endpoints_close(&b);
	json_decref(said);
}

/* Texts. */

static void
try_text(struct str text)
{
	static const struct str from = { "0f0e0d0c-1", 10 };
	CLEANUP(buf_done) struct buf b = { 0 }, key = { 0 }, value = { 0 };
	struct str rest = text;
	bool is_bad = false;
	uint64_t s;

	buf_init(&b, 1 << 20);
	brain_text_rename(&b, text, from, STR("sb"));
	need(b.st != ST_OK || b.len == 0 || memmem(b.p, b.len, from.p, from.n) == NULL);
	if (brain_time_read(text, &s))
		need(s < 300000000000);
	buf_init(&key, 4096);
	buf_init(&value, 4096);
	while (brain_query_next(&rest, &key, &value, &is_bad))
		need(!is_bad &&
		     memchr(key.p == NULL ? "" : key.p, '\0', key.len) == NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str rest = str_of(data + 1, n == 0 ? 0 : n - 1);

	if (n == 0)
		return 0;
	if (data[0] == 'r')
		try_request(rest);
	else if (data[0] == 'p')
		try_policies(rest);
	else if (data[0] == 'e')
		try_endpoint(rest);
	else
		try_text(rest);
	return 0;
}
