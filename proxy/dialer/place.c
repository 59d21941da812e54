#include "proxy/dialer/place.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf/exec.h"
#include "conf/policy.h"

static bool
is_unspecified(const struct addr *a)
{
	static const uint8_t zero[16];

	return memcmp(a->b, zero, a->family == 4 ? 4 : 16) == 0;
}

/* The kernel answers from an address of this machine with that very address.  Nothing
 * is sent: connect on a datagram socket only looks up the route. */
static bool
is_local(const struct addr *a)
{
	struct sockaddr_storage to, from;
	socklen_t from_len = sizeof(from);
	struct addr mine;
	uint16_t port;
	socklen_t to_len = addr_to_sockaddr(a, 9, &to);
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd == -1)
		return true; /* not knowing means denying */
	bool has_route = connect(fd, (const struct sockaddr *)&to, to_len) == 0 &&
			 getsockname(fd, (struct sockaddr *)&from, &from_len) == 0;
	(void)close(fd);
	return has_route &&
	       addr_from_sockaddr((const struct sockaddr *)&from, &mine, &port) &&
	       addr_eq(&mine, a);
}

static bool
listens_at(const struct addr *listener, const struct addr *a)
{
	struct addr bare = addr_unwrap(listener);

	/* A wildcard may hold both families: which one is not asked. */
	return is_unspecified(&bare) ? is_local(a) : addr_eq(&bare, a);
}

static bool
is_admin(const struct image *im, const struct addr *a, uint16_t port)
{
	struct dest d;

	return dest_from_authority(image_text(im, OPT_ADMIN_ADDRESS), 0, &d) == ST_OK &&
	       !dest_is_name(&d) && d.port == port && listens_at(&d.addr, a);
}

bool
place_is_self(const struct image *im, const struct addr *a, uint16_t port)
{
	struct addr bare = addr_unwrap(a);
	size_t n = 0;
	const struct image_listener *l = image_listeners(im, &n);

	for (size_t i = 0; i < n; i++)
		if (l[i].port == port && listens_at(&l[i].addr, &bare))
			return true;
	return is_admin(im, &bare, port);
}

/* w NULL: of any sandbox. */
static bool
is_other_sandbox(const struct place *p, const struct who *w, const struct addr *bare)
{
	const struct who *there = who_by_addr(p->who, bare);

	return there != NULL && (w == NULL || !str_eq(there->id, w->id));
}

/* What holds whatever anybody says, and where the address lies. */
static enum status
locate(const struct place *p, const struct dest *d, struct policy_place *place,
       struct place_found *ret_f)
{
	struct addr bare = addr_unwrap(place->addr);

	ret_f->rule = RULE_NONE;
	geo_country(p->countries, &bare, place->country);
	place->asn = geo_asn(p->networks, &bare);
	memcpy(ret_f->country, place->country, sizeof(place->country));
	if (is_unspecified(&bare))
		return ST_ADDRESS_PRIVATE;
	return place_is_self(p->image, place->addr, d->port) ? ST_ADDRESS_SELF : ST_OK;
}

static enum status
find(const struct place *p, const struct who *w, const struct dest *d,
     struct policy_place *place, struct place_found *ret_f)
{
	enum status st = locate(p, d, place, ret_f);
	struct addr bare = addr_unwrap(place->addr);

	if (st == ST_OK && is_other_sandbox(p, w, &bare))
		st = ST_ADDRESS_SELF;
	return st;
}

enum status
place_judge(const struct place *p, const struct who *w, const struct dest *d,
	    const struct addr *a, struct place_found *ret_f)
{
	struct policy_place place = { .addr = a };
	enum status st = find(p, w, d, &place, ret_f);

	if (st != ST_OK)
		return st;
	return policy_address(p->image, w->may, d, &place, &ret_f->rule);
}

enum status
place_fetch(const struct place *p, uint32_t connector, const struct who *w,
	    const struct dest *d, const struct addr *a, struct place_found *ret_f)
{
	struct policy_place place = { .addr = a };
	enum status st = find(p, w, d, &place, ret_f);

	if (st != ST_OK)
		return st;
	return policy_fetch_address(p->image, connector,
				    w == NULL ? mandate_of(POLICY_NONE) : w->may, d,
				    &place);
}

enum status
place_reach(const struct place *p, const struct image_exec_server *s,
	    const struct dest *d, const struct addr *a, struct place_found *ret_f)
{
	struct policy_place place = { .addr = a };
	enum status st = locate(p, d, &place, ret_f);

	if (st != ST_OK)
		return st;
	if (addr_classify(a) == ADDR_METADATA)
		return ST_ADDRESS_METADATA;
	return exec_endpoint_allowed(p->image, s, a) ? ST_OK : ST_ADDRESS_PRIVATE;
}

enum status
place_worse(enum status a, enum status b)
{
	static const enum status order[] = { ST_ADDRESS_METADATA, ST_ADDRESS_SELF,
					     ST_ADDRESS_PRIVATE, ST_DENIED_RULE,
					     ST_DENIED_COUNTRY };

	for (size_t i = 0; i < COUNT_OF(order); i++)
		if (a == order[i] || b == order[i])
			return order[i];
	return a != ST_OK ? a : b;
}
