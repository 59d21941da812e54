/* `exec`: what is no single value, and what it has to do with listeners and servers. */
#include "conf/build_exec.h"

#include "conf/auth_text.h"
#include "conf/exec.h"
#include "conf/policy.h"
#include "conf/rule_part.h"
#include "conf/value.h"

enum { EXECD_PORT = 44772, EGRESS_PORT = 18080, LABEL_KEY_MAX = 253, LABEL_MAX = 63 };

/* Parts that others use too. */

void
build_tier(struct build *b, const struct node *n, uint8_t *ret_tier)
{
	uint64_t which;

	if (value_choice(b->report, n, STR("standard|high"), &which))
		*ret_tier = (uint8_t)which;
}

void
build_tier_check(struct build *b, const struct node *n, uint8_t tier)
{
	const struct image_exec_server *s = draft_table(b->draft, IMAGE_EXEC_SERVERS);

	for (uint32_t i = 0; i < draft_count(b->draft, IMAGE_EXEC_SERVERS); i++)
		if (s[i].tier == tier)
			return;
	report_error(b->report, n->at,
		     "none of `servers` is of tier %s: give one `tier: %s`",
		     exec_tier_word((enum exec_tier)tier),
		     exec_tier_word((enum exec_tier)tier));
}

void
build_text(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	(void)ctx;
	if (value_text(b->report, n, &s))
		build_word(b, s);
}

void
build_glob(struct build *b, const struct node *n, void *ctx)
{
	struct str s;

	(void)ctx;
	if (!value_text(b->report, n, &s))
		return;
	if (auth_is_printable(s) && !str_has(s, ' ') && s.n <= EXEC_GLOB_MAX)
		build_word(b, s);
	else
		report_error(b->report, n->at,
			     "`%.*s` is not a glob: printable ASCII without blanks, "
			     "%d bytes at most",
			     STR_ARG(s), EXEC_GLOB_MAX);
}

void
build_pairs(struct build *b, const struct node *map, build_pair_fn fn,
	    uint32_t *ret_first, uint32_t *ret_n)
{
	*ret_first = draft_count(b->draft, IMAGE_WORDS);
	if (!build_is_kind(b, map, NODE_MAP))
		return;
	for (const struct node *n = map->first; n != NULL; n = n->next) {
		struct str value = n->text;
		bool is_empty = n->kind == NODE_SCALAR && n->is_quoted && value.n == 0;
		if ((!is_empty && !value_text(b->report, n, &value)) || !fn(b, n))
			continue;
		build_word(b, n->key);
		build_word(b, value);
	}
	*ret_n = draft_count(b->draft, IMAGE_WORDS) - *ret_first;
}

static bool
is_label_text(struct str s, bool may_have_slash)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool is_plain = ascii_is_alpha(c) || ascii_is_digit(c);
		bool is_inside = i > 0 && i + 1 < s.n;
		if (!is_plain && !(is_inside && str_has(STR("-_."), c)) &&
		    !(is_inside && may_have_slash && c == '/'))
			return false;
	}
	return true;
}

bool
build_label(struct build *b, const struct node *n)
{
	if (n->key.n == 0 || n->key.n > LABEL_KEY_MAX || !is_label_text(n->key, true) ||
	    n->text.n > LABEL_MAX || !is_label_text(n->text, false)) {
		report_error(b->report, n->key_at,
			     "not a label: letters, digits and inside of it `-`, `_` "
			     "and `.`; the value has %d bytes at most",
			     LABEL_MAX);
		return false;
	}
	if (!str_starts(n->key, STR("opensandbox.io/")) &&
	    !str_starts(n->key, STR("sandgate/")))
		return true;
	report_error(b->report, n->key_at,
		     "labels that begin with opensandbox.io/ or sandgate/ are set by "
		     "these themselves");
	return false;
}

/* It must be one place: nobody names a host to it. */
static bool
has_one_host(struct build *b, const struct image_connector *k)
{
	const struct image_pattern *p = draft_table(b->draft, IMAGE_PATTERNS);

	if (k->upstream_host.length > 0)
		return true;
	for (uint32_t i = k->hosts; i < k->hosts + k->hosts_n; i++)
		if (!p[i].is_wild)
			return true;
	return false;
}

bool
build_own_connector(struct build *b, const struct node *n, uint32_t *ret_index)
{
	struct str name;

	if (!value_name(b->report, n, &name))
		return false;
	struct connector_source *s = map_get(&b->connector_index, name);
	if (s == NULL || s->use != USE_SANDBOXES) {
		report_error(b->report, n->at,
			     "`%.*s` is not one of the `connectors`; add one for the "
			     "system that is to be called",
			     STR_ARG(name));
		return false;
	}
	s->is_listed = true; /* by us */
	if (!has_one_host(b, &s->image) || s->image.auth.is_delegated) {
		report_error(b->report, n->at,
			     "connector `%.*s` %s, and here the gateway calls it for "
			     "itself",
			     STR_ARG(name),
			     s->image.auth.is_delegated ? "needs a user"
							: "has only patterns of hosts");
		return false;
	}
	*ret_index = s->index;
	return true;
}

/* The lists. */

static const char *
path_fault(struct str path)
{
	while (path.p != NULL) {
		struct str part = str_cut(&path, '/');
		if (str_eq(part, STR(".")) || str_eq(part, STR("..")))
			return "`.` and `..` are in no path that is allowed";
		if (part.n == 0 && path.p != NULL)
			return "slashes stand alone";
		for (size_t i = 0; i + 1 < part.n && part.n > 2; i++)
			if (part.p[i] == '*' && part.p[i + 1] == '*')
				return "`**` must be a whole segment";
	}
	return NULL;
}

static void
on_volume(struct build *b, const struct node *n, void *ctx)
{
	struct str s;
	const char *fault = NULL;

	if (!value_text(b->report, n, &s))
		return;
	if (str_starts(s, STR("/")))
		fault = path_fault(str_skip(s, 1));
	else if (!str_starts(s, STR("pvc:")) || s.n == STR("pvc:").n)
		fault = "a path starts with `/`, a claim is pvc:NAME";
	if (fault != NULL)
		report_error(b->report, n->at, "`%.*s`: %s", STR_ARG(s), fault);
	else
		build_glob(b, n, ctx);
}

static void
on_login_port(struct build *b, const struct node *n, void *ctx)
{
	struct image_ports p;

	(void)ctx;
	if (!value_ports(b->report, n, &p.low, &p.high))
		return;
	if ((p.low <= EXECD_PORT && EXECD_PORT <= p.high) ||
	    (p.low <= EGRESS_PORT && EGRESS_PORT <= p.high))
		report_error(b->report, n->at, "%d and %d are no ports of applications",
			     EXECD_PORT, EGRESS_PORT);
	else
		(void)draft_add(b->draft, IMAGE_PORTS, &p);
}

static void
on_images(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec *e = ctx;

	build_list(b, n, NULL, (struct build_part){ IMAGE_WORDS, build_glob },
		   &e->images, &e->images_n);
}

static void
on_volumes(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec *e = ctx;

	build_list(b, n, NULL, (struct build_part){ IMAGE_WORDS, on_volume },
		   &e->volumes, &e->volumes_n);
}

static void
on_env_deny(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec *e = ctx;

	build_list(b, n, NULL, (struct build_part){ IMAGE_WORDS, build_glob },
		   &e->env_deny, &e->env_deny_n);
}

static void
on_login_ports(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec *e = ctx;

	build_list(b, n, NULL, (struct build_part){ IMAGE_PORTS, on_login_port },
		   &e->login_ports, &e->login_ports_n);
}

static void
on_labels(struct build *b, const struct node *n, void *ctx)
{
	struct image_exec *e = ctx;

	build_pairs(b, n, build_label, &e->labels, &e->labels_n);
}

static void
on_webhook(struct build *b, const struct node *n, void *ctx)
{
	(void)build_own_connector(b, n, &((struct image_exec *)ctx)->webhook);
}

static void
on_policy(struct build *b, const struct node *n, void *ctx)
{
	struct str name;

	if (!value_name(b->report, n, &name))
		return;
	uintptr_t index = (uintptr_t)map_get(&b->policy_index, name);
	if (index > 0)
		((struct image_exec *)ctx)->policy = (uint32_t)(index - 1);
	else
		build_no_policy(b, n->at, name);
}

static void
on_placement(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	build_placements(b, n);
}

static void
on_warm(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	build_warms(b, n);
}

static void
on_jwt(struct build *b, const struct node *n, void *ctx)
{
	(void)ctx;
	build_jwts(b, n);
}

static const struct build_field lists[] = {
	{ "images", on_images },
	{ "volumes", on_volumes },
	{ "labels", on_labels },
	{ "env_deny", on_env_deny },
	{ "login_ports", on_login_ports },
	{ "approval_webhook", on_webhook },
	{ "policy", on_policy },
	{ "placement", on_placement },
	{ "warm", on_warm },
	{ "jwt", on_jwt },
};

static void
read_lists(struct build *b, const struct node *exec)
{
	struct image_exec e = { .webhook = CONNECTOR_NONE, .policy = POLICY_NONE };

	for (size_t i = 0; i < COUNT_OF(lists); i++) {
		const struct node *n = node_get(exec, str_from(lists[i].key));
		if (n != NULL)
			lists[i].fn(b, n, &e);
	}
	(void)draft_add(b->draft, IMAGE_EXECS, &e);
}

/* How it fits together. */

static void
check_servers(struct build *b, const struct node *root)
{
	const struct node *servers = node_get(root, STR("servers"));

	if (b->exec_listener != NULL && (servers == NULL || servers->n == 0))
		report_error(b->report, b->exec_listener->at,
			     "an opensandbox listener needs `servers` that it stands "
			     "for");
	if (b->exec_listener == NULL && servers != NULL && servers->n > 0)
		report_warning(b->report, servers->key_at,
			       "no listener is of kind opensandbox: nobody reaches "
			       "these servers");
}

/* One server with a docker network in front of which the gateway stands. */
static void
check_network(struct build *b, const struct node *network, bool has_policy,
	      bool has_docker)
{
	if (!has_policy)
		report_warning(b->report, network->at,
			       "sandboxes on this network reach nothing: exec.policy "
			       "names no policy");
	if (!has_docker)
		report_warning(b->report, network->at,
			       "nothing is pinned here: without exec.docker a "
			       "sandbox's address is its server's word, and another "
			       "sandbox may send under it");
}

static void
check_networks(struct build *b, const struct node *root)
{
	const struct node *servers = node_get(root, STR("servers"));
	const struct node *docker = b->option_nodes[OPT_EXEC_DOCKER];
	bool has_docker = docker != NULL && docker->text.n > 0;
	bool has_policy = node_get(node_get(root, STR("exec")), STR("policy")) != NULL;

	if (servers == NULL || servers->kind != NODE_LIST)
		return;
	for (const struct node *s = servers->first; s != NULL; s = s->next) {
		const struct node *network = node_get(s, STR("network"));
		if (network != NULL)
			check_network(b, network, has_policy, has_docker);
	}
}

/* Only what was written is doubted: of a short max_timeout the other follows. */
static void
check_times(struct build *b)
{
	const struct node *timeout = b->option_nodes[OPT_EXEC_TIMEOUT];
	const struct node *kill = b->option_nodes[OPT_EXEC_KILL_AFTER];
	uint64_t after = build_number(b, OPT_EXEC_KILL_AFTER);

	if (timeout != NULL &&
	    build_number(b, OPT_EXEC_TIMEOUT) > build_number(b, OPT_EXEC_MAX_TIMEOUT))
		report_error(b->report, timeout->at,
			     "exec.timeout is above exec.max_timeout");
	if (kill != NULL && after > 0 && after < build_number(b, OPT_EXEC_IDLE_AFTER))
		report_error(b->report, kill->at,
			     "exec.kill_after is below exec.idle_after: nothing would "
			     "ever be kept");
}

void
build_exec(struct build *b, const struct node *root)
{
	const struct node *exec = node_get(root, STR("exec"));

	if (exec != NULL && exec->kind == NODE_MAP)
		read_lists(b, exec);
	check_servers(b, root);
	check_networks(b, root);
	check_times(b);
}
