/* The parts of a create request that need a reader of their own. */
#include <string.h>

#include "proxy/base/num.h"
#include "proxy/control/brain_json.h"
#include "proxy/control/brain_request.h"

enum { PATH_MAX_HERE = 1024 };

enum status
request_env(const struct image *im, struct request *r, struct buf *why)
{
	json_t *env = json_object_get(r->body, "env"), *v;
	const char *key;
	void *next;

	r->stripped = json_array();
	if (env == NULL || json_is_null(env))
		return ST_OK;
	if (!json_is_object(env) || json_object_size(env) > REQUEST_LIST_MAX)
		return brain_bad(why, "env is no object of at most 256 texts");
	json_object_foreach_safe(env, next, key, v)
	{
		if (!json_is_string(v) && !json_is_null(v))
			return brain_bad(why, "env: a value is no text");
		if (!exec_env_denied(im, str_from(key)))
			continue;
		if (json_array_append_new(r->stripped, json_string(key)) != 0)
			return ST_NOMEM;
		(void)json_object_del(env, key);
	}
	return ST_OK;
}

/* No part that another reader would resolve to something else: "a//b", "a/../b", "a/./b". */
static bool
is_plain_path(struct str path)
{
	if (path.n == 0 || path.n > PATH_MAX_HERE)
		return false;
	for (struct str rest = path; rest.p != NULL;) {
		struct str part = str_cut(&rest, '/');

		if (part.n == 0 || str_eq(part, STR(".")) || str_eq(part, STR("..")))
			return false;
	}
	return true;
}

static bool
is_absolute(struct str path)
{
	return str_eq(path, STR("/")) ||
	       (str_starts(path, STR("/")) && is_plain_path(str_skip(path, 1)));
}

/* Only these, in this spelling, and of these kinds. */
static bool
holds_only(const json_t *object, const char *texts, const char *flags,
	   const char *others)
{
	json_t *o =
		(json_t *)(uintptr_t)object; /* Jansson's iterator changes nothing */

	for (void *it = json_object_iter(o); it != NULL;
	     it = json_object_iter_next(o, it)) {
		CLEANUP(buf_done) struct buf word = { 0 };
		const json_t *v = json_object_iter_value(it);
		const char *name;

		buf_init(&word, 256);
		buf_putf(&word, " %s ", json_object_iter_key(it));
		name = buf_cstr(&word);
		/* One word: "name mountPath" is none of the list's. */
		if (name == NULL || strlen(name) < 3 ||
		    strchr(json_object_iter_key(it), ' ') != NULL)
			return false;
		bool is_known = (strstr(texts, name) != NULL &&
				 (json_is_string(v) || json_is_null(v))) ||
				(strstr(flags, name) != NULL &&
				 (json_is_boolean(v) || json_is_null(v))) ||
				strstr(others, name) != NULL;
		if (!is_known)
			return false;
	}
	return true;
}

/* A path of the host with its subPath. */
static bool
put_host(struct buf *b, const json_t *host, struct str sub)
{
	struct str path = brain_string(json_object_get(host, "path"));

	buf_put(b, path);
	if (sub.n > 0) {
		buf_put(b, str_ends(path, STR("/")) ? STR("") : STR("/"));
		buf_put(b, sub);
	}
	return holds_only(host, " path ", "", "") && is_absolute(path);
}

static bool
put_claim(struct buf *b, const json_t *pvc)
{
	struct str name = brain_string(json_object_get(pvc, "claimName"));

	buf_put(b, name);
	return name.n > 0 &&
	       holds_only(pvc, " claimName storageClass storage ",
			  " createIfNotExists deleteOnSandboxTermination ",
			  " accessModes ");
}

/* One of host and pvc; what else a server may know as a source isn't let through. */
static bool
put_mount(struct buf *b, const json_t *volume, enum exec_volume *ret_kind)
{
	const json_t *host = json_object_get(volume, "host");
	const json_t *pvc = json_object_get(volume, "pvc");
	struct str sub = brain_string(json_object_get(volume, "subPath"));

	if (!json_is_object(volume) ||
	    !holds_only(volume, " name mountPath subPath ", " readOnly ",
			" host pvc ") ||
	    json_is_object(host) == json_is_object(pvc) ||
	    (sub.n > 0 && !is_plain_path(sub)))
		return false;
	*ret_kind = json_is_object(host) ? EXEC_VOLUME_HOST : EXEC_VOLUME_CLAIM;
	return json_is_object(host) ? put_host(b, host, sub) : put_claim(b, pvc);
}

/* Whether it would lie over OpenSandbox's own parts: theirs, below or above them. */
static bool
covers_parts(struct str where)
{
	struct str parts = STR(EXEC_PARTS);
	struct str shorter = where.n < parts.n ? where : parts;
	struct str longer = where.n < parts.n ? parts : where;

	return str_eq(where, STR("/")) ||
	       (str_starts(longer, shorter) &&
		(longer.n == shorter.n || longer.p[shorter.n] == '/'));
}

static enum status
read_volume(const struct image *im, struct request *r, const json_t *volume,
	    struct buf *why)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	enum exec_volume kind = EXEC_VOLUME_HOST;
	struct str mount, where = brain_string(json_object_get(volume, "mountPath"));

	buf_init(&b, 4096);
	if (!is_absolute(where) || !put_mount(&b, volume, &kind) ||
	    buf_finish(&b, &mount) != ST_OK)
		return brain_bad(why, "a volume is of another form than host or pvc, "
				      "or a path in it isn't plain");
	if (covers_parts(where) || str_eq(brain_string(json_object_get(volume, "name")),
					  STR(REQUEST_CA_VOLUME))) {
		buf_put(why, STR("a volume at " EXEC_PARTS ", below or above it, or "
				 "with the name " REQUEST_CA_VOLUME " isn't allowed"));
		return ST_EXEC_REFUSED;
	}
	if (json_array_append_new(r->mounts, json_stringn(mount.p, mount.n)) != 0)
		return ST_BAD_PARAMETER;
	if (exec_volume_allowed(im, kind, mount))
		return ST_OK;
	buf_putf(why, "the volume %.*s is not allowed here",
		 STR_ARG(str_head(mount, 200)));
	return ST_EXEC_REFUSED;
}

enum status
request_volumes(const struct image *im, struct request *r, struct buf *why)
{
	const json_t *all = json_object_get(r->body, "volumes"), *one;
	size_t i;
	enum status st = ST_OK;

	r->mounts = json_array();
	if (all == NULL || json_is_null(all))
		return ST_OK;
	if (!json_is_array(all) || json_array_size(all) > REQUEST_VOLUMES_MAX)
		return brain_bad(why, "volumes is no list of at most 32 volumes");
	json_array_foreach(all, i, one)
	{
		if (st == ST_OK)
			st = read_volume(im, r, one, why);
	}
	return st;
}

struct unit {
	const char *word;
	uint64_t times, per;
};

static const struct unit *
unit_of(struct str word)
{
	static const struct unit units[] = {
		{ "", 1, 1 },
		{ "m", 1, 1000 },
		{ "b", 1, 1 },
		{ "k", 1000, 1 },
		{ "kb", 1000, 1 },
		{ "mb", 1000000, 1 },
		{ "g", 1000000000, 1 },
		{ "gb", 1000000000, 1 },
		{ "t", 1000000000000, 1 },
		{ "ki", 1ULL << 10, 1 },
		{ "mi", 1ULL << 20, 1 },
		{ "gi", 1ULL << 30, 1 },
		{ "ti", 1ULL << 40, 1 },
		{ "kib", 1ULL << 10, 1 },
		{ "mib", 1ULL << 20, 1 },
		{ "gib", 1ULL << 30, 1 },
		{ "M", 1000000, 1 },
	};

	if (str_eq(word, STR("M")))
		return &units[COUNT_OF(units) - 1];
	for (size_t i = 0; i < COUNT_OF(units) - 1; i++)
		if (str_eq(word, STR("m")) ? i == 1
					   : str_ieq(word, str_from(units[i].word)))
			return &units[i];
	return NULL;
}

/* At most 12 digits before the point and 3 behind it: nothing below overflows. */
bool
request_quantity(struct str text, bool milli, uint64_t *ret_v)
{
	size_t n = 0;
	uint64_t whole = 0, part = 0;

	while (n < text.n && ascii_is_digit(text.p[n]))
		n++;
	if (!num_parse_u64(str_head(text, n), 999999999999, &whole))
		return false;
	whole *= 1000;
	if (n < text.n && text.p[n] == '.') {
		size_t from = ++n;

		for (uint64_t scale = 100; n < text.n && ascii_is_digit(text.p[n]);
		     n++) {
			part += scale * (uint64_t)(text.p[n] - '0');
			scale /= 10;
		}
		if (n == from)
			return false;
	}
	const struct unit *u = unit_of(str_skip(text, n));
	uint64_t v;
	if (u == NULL || __builtin_mul_overflow(whole + part, u->times, &v))
		return false;
	v /= u->per;
	*ret_v = milli ? v : (v + 999) / 1000;
	return true;
}

static enum status
check_amounts(const json_t *all, struct buf *why)
{
	json_t *o = (json_t *)(uintptr_t)all; /* Jansson's iterator changes nothing */

	if (all == NULL || json_is_null(all))
		return ST_OK;
	if (!json_is_object(all) || json_object_size(all) > 16)
		return brain_bad(
			why,
			"resourceLimits and resourceRequests are objects of texts");
	for (void *it = json_object_iter(o); it != NULL;
	     it = json_object_iter_next(o, it))
		if (!json_is_string(json_object_iter_value(it)))
			return brain_bad(why, "resourceLimits and resourceRequests are "
					      "objects of texts");
	if (request_has_twin(all, "cpu") || request_has_twin(all, "memory"))
		return brain_bad(why, "write cpu and memory in lower case");
	return ST_OK;
}

enum status
request_limits(struct request *r, struct buf *why)
{
	const json_t *limits = json_object_get(r->body, "resourceLimits");
	const json_t *memory = json_object_get(limits, "memory");
	const json_t *cpu = json_object_get(limits, "cpu");
	enum status st = check_amounts(limits, why);

	if (st == ST_OK)
		st = check_amounts(json_object_get(r->body, "resourceRequests"), why);
	if (st != ST_OK)
		return st;
	if (memory != NULL &&
	    !request_quantity(brain_string(memory), false, &r->memory))
		return brain_bad(why, "resourceLimits.memory is no amount, as 512Mi");
	if (cpu != NULL && !request_quantity(brain_string(cpu), true, &r->cpu_milli))
		return brain_bad(why, "resourceLimits.cpu is no amount, as 500m");
	return ST_OK;
}

/* argv is a list of texts; appended to commands. */
static enum status
add_command(struct request *r, const json_t *argv, struct buf *why)
{
	const json_t *word;
	size_t i;

	if (!json_is_array(argv) || json_array_size(argv) == 0 ||
	    json_array_size(argv) > REQUEST_LIST_MAX)
		return brain_bad(why, "a command is no list of 1 to 256 texts");
	json_array_foreach(argv, i, word)
	{
		if (!json_is_string(word))
			return brain_bad(why, "a command is no list of 1 to 256 texts");
	}
	return json_array_append_new(r->commands, json_deep_copy(argv)) == 0 ? ST_OK
									     : ST_NOMEM;
}

/* What a newer server would do with a member that nobody knows here may be to run it. */
static enum status
check_members(const json_t *object, const char *const *known, struct buf *why)
{
	json_t *o =
		(json_t *)(uintptr_t)object; /* Jansson's iterator changes nothing */

	for (void *it = json_object_iter(o); it != NULL;
	     it = json_object_iter_next(o, it)) {
		const char *key = json_object_iter_key(it);
		size_t i = 0;

		while (known[i] != NULL && strcmp(key, known[i]) != 0)
			i++;
		if (known[i] != NULL)
			continue;
		buf_putf(why,
			 "lifecycle has a member %.64s, which this gateway does "
			 "not know",
			 key);
		return ST_BAD_PARAMETER;
	}
	return ST_OK;
}

static enum status
add_hook(struct request *r, const json_t *hook, struct buf *why)
{
	static const char *const known[] = { "command", "timeoutSeconds", "name",
					     "schedule", NULL };
	enum status st = json_is_object(hook)
				 ? check_members(hook, known, why)
				 : brain_bad(why, "a hook of lifecycle is no object");

	return st == ST_OK ? add_command(r, json_object_get(hook, "command"), why) : st;
}

static enum status
add_hooks(struct request *r, const json_t *lifecycle, struct buf *why)
{
	static const char *const known[] = { "preStart", "periodic", NULL };
	const json_t *start = json_object_get(lifecycle, "preStart");
	const json_t *periodic = json_object_get(lifecycle, "periodic"), *one;
	size_t i;
	enum status st = ST_OK;

	if (!json_is_object(lifecycle))
		return brain_bad(why,
				 "lifecycle is no object with preStart and periodic");
	st = check_members(lifecycle, known, why);
	if (st == ST_OK && start != NULL && !json_is_null(start))
		st = add_hook(r, start, why);
	if (st != ST_OK || periodic == NULL || json_is_null(periodic))
		return st;
	if (!json_is_array(periodic) || json_array_size(periodic) > REQUEST_VOLUMES_MAX)
		return brain_bad(why, "lifecycle.periodic is no list of at most 32");
	json_array_foreach(periodic, i, one)
	{
		if (st == ST_OK)
			st = add_hook(r, one, why);
	}
	return st;
}

enum status
request_commands(struct request *r, struct buf *why)
{
	const json_t *entry = json_object_get(r->body, "entrypoint");
	const json_t *lifecycle = json_object_get(r->body, "lifecycle");
	enum status st = ST_OK;

	r->commands = json_array();
	if (entry != NULL && !json_is_null(entry))
		st = add_command(r, entry, why);
	if (st == ST_OK && lifecycle != NULL && !json_is_null(lifecycle))
		st = add_hooks(r, lifecycle, why);
	return st;
}
