#include "proxy/locator/docker.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "proxy/base/enc.h"

bool
docker_is_word(struct str s)
{
	if (s.n == 0 || s.n > LOCATOR_ID_MAX || s.p[0] == '.')
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) &&
		    !str_has(STR("-_."), s.p[i]))
			return false;
	return true;
}

static json_t *
load_as(struct str json, size_t flags)
{
	json_error_t error;

	return json.n > DOCKER_BODY_MAX
		       ? NULL
		       : json_loadb(json.p, json.n, JSON_REJECT_DUPLICATES | flags,
				    &error);
}

static json_t *
load(struct str json)
{
	return load_as(json, 0);
}

/* "" for what isn't a text. */
static struct str
text(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);

	return json_is_string(v) ? str_of(json_string_value(v), json_string_length(v))
				 : STR("");
}

static bool
take_id(struct str s, char ret_id[DOCKER_ID + 1])
{
	if (s.n != DOCKER_ID)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_digit(s.p[i]) && (s.p[i] < 'a' || s.p[i] > 'f'))
			return false;
	memcpy(ret_id, s.p, s.n);
	ret_id[s.n] = '\0';
	return true;
}

enum status
docker_list(struct str json, char ret_id[DOCKER_ID + 1])
{
	json_t *all = load(json);
	enum status st = ST_UPSTREAM_BAD;

	if (json_is_array(all) && json_array_size(all) == 0)
		st = ST_NOT_FOUND;
	else if (json_is_array(all) && json_array_size(all) > 1)
		st = ST_CONFLICT;
	else if (json_is_array(all) &&
		 take_id(text(json_array_get(all, 0), "Id"), ret_id))
		st = ST_OK;
	json_decref(all);
	return st;
}

/* aa:bb:cc:dd:ee:ff; no group's address, and not that of nobody. */
static bool
take_mac(struct str s, uint8_t ret_mac[6])
{
	uint8_t mac[6] = { 0 }, any = 0;

	if (s.n != 17)
		return false;
	for (size_t i = 0; i < 6; i++) {
		int high = enc_hex_digit(s.p[3 * i]),
		    low = enc_hex_digit(s.p[3 * i + 1]);

		if (high < 0 || low < 0 || (i < 5 && s.p[3 * i + 2] != ':'))
			return false;
		mac[i] = (uint8_t)(high << 4 | low);
		any |= mac[i];
	}
	if (any == 0 || (mac[0] & 1) != 0)
		return false;
	memcpy(ret_mac, mac, sizeof mac);
	return true;
}

/* An address of this family that a container can have; "" is none. */
static bool
take_addr(struct str s, uint8_t family, struct place *p)
{
	struct addr a;

	if (s.n == 0)
		return true;
	if (!addr_parse(s, &a) || a.family != family)
		return false;
	enum addr_class c = addr_classify(&a);

	if (c == ADDR_LOOPBACK || c == ADDR_MULTICAST || c == ADDR_LINK_LOCAL ||
	    c == ADDR_METADATA)
		return false;
	p->addrs[p->addrs_n++] = a;
	return true;
}

static enum status
take_end(const json_t *end, struct docker_ids *ids, struct place *p)
{
	if (!json_is_object(end))
		return ST_NOT_FOUND;
	p->addrs_n = 0;
	if (!take_id(text(end, "NetworkID"), ids->network) ||
	    !take_mac(text(end, "MacAddress"), p->mac) ||
	    !take_addr(text(end, "IPAddress"), 4, p) ||
	    !take_addr(text(end, "GlobalIPv6Address"), 6, p) || p->addrs_n == 0)
		return ST_UPSTREAM_BAD;
	return ST_OK;
}

static enum status
take_state(const json_t *state, struct docker_ids *ids)
{
	const json_t *pid = json_object_get(state, "Pid");

	if (!json_is_true(json_object_get(state, "Running")))
		return json_is_object(state) ? ST_NOT_FOUND : ST_UPSTREAM_BAD;
	if (!json_is_integer(pid) || json_integer_value(pid) <= 1 ||
	    json_integer_value(pid) > INT32_MAX)
		return ST_UPSTREAM_BAD;
	ids->pid = (uint32_t)json_integer_value(pid);
	return ST_OK;
}

enum status
docker_container(struct str json, struct str sandbox, struct str network,
		 struct docker_ids *ret_ids, struct place *ret_place)
{
	json_t *all = load(json);
	struct docker_ids ids = *ret_ids;
	struct place place = *ret_place;
	const json_t *labels =
		json_object_get(json_object_get(all, "Config"), "Labels");
	const json_t *nets =
		json_object_get(json_object_get(all, "NetworkSettings"), "Networks");
	enum status st = ST_UPSTREAM_BAD;
	char name[LOCATOR_ID_MAX + 1] = "";

	if (docker_is_word(network))
		memcpy(name, network.p, network.n);
	if (name[0] != '\0' && str_eq(text(all, "Id"), str_from(ids.container)) &&
	    str_eq(text(labels, DOCKER_LABEL), sandbox))
		st = take_state(json_object_get(all, "State"), &ids);
	if (st == ST_OK)
		st = take_end(json_object_get(nets, name), &ids, &place);
	json_decref(all);
	if (st != ST_OK)
		return st;
	memcpy(place.container, ids.container, sizeof place.container);
	*ret_ids = ids;
	*ret_place = place;
	return ST_OK;
}

/* A whole number that a double holds exactly. */
static bool
take_octets(const json_t *v, uint64_t *ret_octets)
{
	static const double most = 9007199254740992.0; /* 2^53 */
	double d = json_real_value(v);

	if (!json_is_real(v) || !(d >= 0 && d <= most) || (double)(uint64_t)d < d)
		return false;
	*ret_octets = (uint64_t)d;
	return true;
}

/* total_inactive_file: cgroups of version 1, where what has no total counts none of the groups
 * below.  What doesn't run has no usage.  Numbers are read as reals: what has no limit has
 * 2^64-1 there (pids_stats), which as an integer would refuse all of it. */
enum status
docker_memory(struct str json, const char *container, uint64_t *ret_octets)
{
	json_t *all = load_as(json, JSON_DECODE_INT_AS_REAL);
	const json_t *memory = json_object_get(all, "memory_stats");
	const json_t *stats = json_object_get(memory, "stats");
	const json_t *total = json_object_get(stats, "total_inactive_file");
	const json_t *usage = json_object_get(memory, "usage");
	uint64_t octets = 0, idle = 0;
	enum status st = ST_UPSTREAM_BAD;

	if (total == NULL)
		total = json_object_get(stats, "inactive_file");
	if (!str_eq(text(all, "id"), str_from(container)))
		st = ST_UPSTREAM_BAD;
	else if (usage == NULL)
		st = ST_NOT_FOUND;
	else if (take_octets(usage, &octets) &&
		 (total == NULL || take_octets(total, &idle)))
		st = ST_OK;
	json_decref(all);
	if (st == ST_OK)
		*ret_octets = octets > idle ? octets - idle : octets;
	return st;
}

static bool
is_ifname(struct str s)
{
	return s.n <= PLACE_NAME && docker_is_word(s);
}

/* A bridge that was given no name is "br-" and the first 12 digits of its network's id. */
enum status
docker_network(struct str json, const char *network, char ret_bridge[PLACE_NAME + 1])
{
	json_t *all = load(json);
	struct str name =
		text(json_object_get(all, "Options"), "com.docker.network.bridge.name");
	enum status st = ST_UPSTREAM_BAD;

	if (str_eq(text(all, "Id"), str_from(network)) &&
	    str_eq(text(all, "Driver"), STR("bridge")))
		st = name.n == 0 || is_ifname(name) ? ST_OK : ST_UPSTREAM_BAD;
	if (st == ST_OK && name.n == 0)
		(void)snprintf(ret_bridge, PLACE_NAME + 1, "br-%.12s", network);
	else if (st == ST_OK)
		(void)snprintf(ret_bridge, PLACE_NAME + 1, "%.*s", STR_ARG(name));
	json_decref(all);
	return st;
}
