/* What a server is sent, and on which tier a request belongs: from what a caller wants and
 * what the operator says. */
#include <stdio.h>
#include <string.h>

#include "proxy/control/brain.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_label.h"
#include "proxy/control/brain_policy.h"

enum { HOSTS_MAX = 256, ARGV_MAX = 256 };

/* What a sandbox may reach by itself, where its server enforces that.  Where the gateway
 * does (`network`), the server must not be told: it would refuse. */
static json_t *
policy_for(const struct brain *b, struct str server, struct str policy, bool *ret_bad)
{
	const struct image *im = b->control->role.image;
	const struct image_exec_server *s = image_exec_server_by_name(im, server);
	uint32_t index = image_exec(im)->policy;
	json_t *wish = policy.n > 0 ? brain_json_object(policy) : NULL;
	json_t *operators, *both;

	*ret_bad = s == NULL || (policy.n > 0 && wish == NULL);
	if (*ret_bad || s->network.length > 0) {
		json_decref(wish);
		return NULL;
	}
	if (index == POLICY_NONE)
		return wish;
	operators = netpolicy_of_image(im, index);
	both = operators == NULL ? NULL : netpolicy_narrow(operators, wish);
	*ret_bad = both == NULL;
	json_decref(operators);
	json_decref(wish);
	return both;
}

/* In place of the sidecar, which OpenSandbox's own start-up script would wait for: that it
 * is to install an authority, and which. */
static bool
add_ca(const struct image *im, struct str server, json_t *body)
{
	const struct image_exec_server *s = image_exec_server_by_name(im, server);
	struct str path = s == NULL ? STR("") : image_str(im, s->ca_file);
	json_t *env = json_object_get(body, "env");
	json_t *volumes = json_object_get(body, "volumes");

	if (path.n == 0)
		return s != NULL;
	env = json_is_object(env) ? json_copy(env) : json_object();
	volumes = json_is_array(volumes) ? json_copy(volumes) : json_array();
	bool is_done =
		json_object_set_new(env, "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT",
				    json_string("true")) == 0 &&
		json_array_append_new(
			volumes,
			json_pack("{s:s, s:s, s:b, s:{s:o}}", "name", REQUEST_CA_VOLUME,
				  "mountPath", EXEC_CA_INSIDE, "readOnly", 1, "host",
				  "path", json_stringn(path.p, path.n))) == 0 &&
		json_object_set(body, "env", env) == 0 &&
		json_object_set(body, "volumes", volumes) == 0;
	json_decref(env);
	json_decref(volumes);
	return is_done;
}

json_t *
brain_dress(const struct brain *b, const struct brain_sandbox *box)
{
	json_t *request = brain_json_object(box->request);
	json_t *body = json_incref(json_object_get(request, "body"));
	json_t *proxy = json_object_get(request, "proxy");
	bool is_bad = false;
	json_t *policy = policy_for(b, box->server, box->policy, &is_bad);
	json_t *labels = json_object_get(body, "metadata");

	is_bad = is_bad || !json_is_object(labels) ||
		 !add_ca(b->control->role.image, box->server, body) ||
		 !label_set(labels, "sandgate/id", box->id) ||
		 !label_set(labels, "sandgate/gateway", str_from(b->gateway));
	if (policy != NULL) {
		is_bad = is_bad || json_object_set(body, "networkPolicy", policy) != 0;
		if (proxy != NULL)
			is_bad = is_bad ||
				 json_object_set(body, "credentialProxy", proxy) != 0;
	}
	json_decref(policy);
	json_decref(request);
	if (!is_bad)
		return body;
	json_decref(body);
	return NULL;
}

struct str
brain_kept_request(struct brain_turn *t, struct str snapshot, enum exec_tier tier)
{
	json_t *body = json_copy(t->request.body);
	json_t *image = json_copy(json_object_get(body, "image"));
	json_t *labels = brain_labels(t, STR(""), tier);
	json_t *request = json_object();
	struct str text = { NULL, 0 };
	bool is_done = labels != NULL && json_object_set(body, "metadata", labels) == 0;

	/* Credentials for a registry are of no use after this, and no business of a file's. */
	if (image != NULL) {
		(void)json_object_del(image, "auth");
		is_done = is_done && json_object_set(body, "image", image) == 0;
	}
	is_done = is_done && json_object_set(request, "body", body) == 0 &&
		  label_set(request, "snapshotId", snapshot);
	if (t->request.proxy != NULL)
		is_done = is_done &&
			  json_object_set(request, "proxy", t->request.proxy) == 0;
	if (is_done)
		text = brain_dump(&t->arena, request);
	json_decref(request);
	json_decref(labels);
	json_decref(image);
	json_decref(body);
	return text;
}

/* Where servers enforce the policy themselves it can't be changed by a claim, so it is a
 * part of what the sandbox is. */
static bool
counts_policy(const struct brain *b, const struct str *servers, size_t n)
{
	const struct image *im = b->control->role.image;

	for (size_t i = 0; i < n; i++) {
		const struct image_exec_server *s =
			image_exec_server_by_name(im, servers[i]);

		if (s == NULL || s->network.length == 0)
			return true;
	}
	return false;
}

/* One that was made before doesn't believe what is intercepted. */
static bool
trusts_ca(const struct brain *b, const struct str *servers, size_t n)
{
	const struct image *im = b->control->role.image;

	for (size_t i = 0; i < n; i++) {
		const struct image_exec_server *s =
			image_exec_server_by_name(im, servers[i]);

		if (s != NULL && s->ca_file.length > 0)
			return true;
	}
	return false;
}

struct str
brain_shape(const struct brain *b, struct arena *a, const struct request *r,
	    const struct str *servers, size_t n)
{
	CLEANUP(buf_done) struct buf shape = { 0 };
	const struct request_counts counts = { .policy = counts_policy(b, servers, n),
					       .ca = trusts_ca(b, servers, n) };

	buf_init(&shape, REQUEST_SHAPE);
	request_put_shape(&shape, r, &counts);
	return shape.st == ST_OK ? arena_copy(a, str_of(shape.p, shape.len))
				 : (struct str){ NULL, 0 };
}

/* How sensitive. */

struct judge {
	const struct image *im;
	struct brain_judged *worst;
};

static void
ask(struct judge *j, const struct risk_question *q)
{
	struct risk_answer a;

	risk_judge(j->im, q, &a);
	if (a.level <= j->worst->answer.level && j->worst->is_set)
		return;
	j->worst->answer = a;
	j->worst->is_set = true;
}

static void
ask_command(struct judge *j, const json_t *words)
{
	struct str argv[ARGV_MAX];
	struct risk_question q = { .kind = RISK_ARGV, .argv = argv };
	const json_t *word;
	size_t i;

	json_array_foreach(words, i, word)
	{
		if (q.argv_n < ARGV_MAX)
			argv[q.argv_n++] = str_of(json_string_value(word),
						  json_string_length(word));
	}
	if (q.argv_n > 0)
		ask(j, &q);
}

/* One variable: that it is there, and what it would do to the next program. */
static void
ask_variable(struct judge *j, struct str name, struct str value)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str argv[] = { STR("env"), STR(""), STR("true") };
	struct risk_question secret = { .kind = RISK_SECRET, .text = name };
	struct risk_question set = { .kind = RISK_ARGV,
				     .argv = argv,
				     .argv_n = COUNT_OF(argv) };

	ask(j, &secret);
	buf_init(&b, name.n + value.n + 1);
	buf_put(&b, name);
	buf_putc(&b, '=');
	buf_put(&b, value);
	if (b.st == ST_OK)
		argv[1] = str_of(b.p, b.len);
	ask(j, &set);
}

static void
ask_variables(struct judge *j, const json_t *object)
{
	json_t *o =
		(json_t *)(uintptr_t)object; /* Jansson's iterator changes nothing */

	for (void *it = json_object_iter(o); it != NULL;
	     it = json_object_iter_next(o, it))
		ask_variable(j, str_from(json_object_iter_key(it)),
			     str_of(json_string_value(json_object_iter_value(it)),
				    json_string_length(json_object_iter_value(it))));
}

/* The worker has read commands of hooks too, with the text before it; the worse counts. */
static void
set_reason(struct brain_turn *t, struct brain_judged *j)
{
	CLEANUP(buf_done) struct buf why = { 0 };

	if (t->wish.level > (uint8_t)j->answer.level && t->wish.level < RISK_LEVELS) {
		j->answer.level = (enum risk_level)t->wish.level;
		j->why = t->wish.why;
		j->is_set = true;
		return;
	}
	buf_init(&why, 1024);
	if (j->is_set)
		risk_put_reason(&why, t->brain->control->role.image, &j->answer);
	j->why = arena_copy(&t->arena, str_of(why.p, why.len));
}

void
brain_judge(struct brain_turn *t, const json_t *policy, struct brain_judged *ret)
{
	struct judge j = { t->brain->control->role.image, ret };
	struct str hosts[HOSTS_MAX];
	size_t i, n = policy == NULL ? 0 : netpolicy_hosts(policy, hosts, HOSTS_MAX);
	const json_t *one;

	*ret = (struct brain_judged){ .why = STR("") };
	json_array_foreach(t->request.commands, i, one) ask_command(&j, one);
	ask_variables(&j, json_object_get(t->request.body, "env"));
	for (i = 0; i < n; i++) {
		struct risk_question q = { .kind = RISK_NETWORK, .text = hosts[i] };

		if (!str_eq(hosts[i], STR("*")))
			ask(&j, &q);
	}
	set_reason(t, ret);
}

/* Where it belongs. */

static void
put_entrypoint(struct buf *b, const json_t *words)
{
	const json_t *word;
	size_t i;

	json_array_foreach(words, i, word)
	{
		if (i > 0)
			buf_putc(b, ' ');
		buf_put(b, str_of(json_string_value(word), json_string_length(word)));
	}
}

struct exec_placing
brain_placing(const struct brain_turn *t, const json_t *policy, enum risk_level risk)
{
	CLEANUP(buf_done) struct buf line = { 0 };
	const struct request *r = &t->request;
	struct brain_pair pairs[LABELS_MAX];
	struct exec_pair labels[LABELS_MAX];
	struct str hosts[HOSTS_MAX];
	size_t n = brain_pairs(r->metadata, pairs, LABELS_MAX);

	for (size_t i = 0; i < n; i++)
		labels[i] = (struct exec_pair){ pairs[i].key, pairs[i].value };
	buf_init(&line, (size_t)64 * 1024);
	put_entrypoint(&line, json_object_get(r->body, "entrypoint"));
	/* Without a policy it reaches what the operator's lets it. */
	hosts[0] = STR("*");
	struct exec_shape shape = {
		.image = r->source == REQUEST_IMAGE ? r->name : STR(""),
		.entrypoint = str_of(line.p, line.len),
		.agent = str_from(t->who.agent),
		.user = str_from(t->who.user),
		.labels = labels,
		.labels_n = n,
		.hosts = hosts,
		.hosts_n =
			policy == NULL ? 1 : netpolicy_hosts(policy, hosts, HOSTS_MAX),
		.memory = r->memory == 0 ? UINT64_MAX : r->memory,
		.cpu_milli = r->cpu_milli == 0 ? UINT64_MAX : r->cpu_milli,
		.has_volumes = json_array_size(r->mounts) > 0,
		.risk = risk,
	};
	return exec_place_tier(t->brain->control->role.image, &shape);
}
