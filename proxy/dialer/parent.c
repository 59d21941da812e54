#include "proxy/dialer/parent.h"

#include "proxy/base/num.h"

static enum status
parse(struct str text, struct dest *ret_d)
{
	enum status st = dest_from_authority(text, 0, ret_d);
	struct str rest = text;
	struct str host = str_cut(&rest, ':');
	uint64_t port;

	if (st != ST_BAD_HOST)
		return st;
	/* A name of one label, which resolver.hosts may hold. */
	if (!num_parse_strict(rest, UINT16_MAX, &port) || port == 0)
		return ST_BAD_PORT;
	return dest_from_host_single(host, (uint16_t)port, ret_d);
}

enum status
parent_check(const struct image *im)
{
	struct str text = image_text(im, OPT_UPSTREAM_PROXY);
	struct dest d;

	if (text.n == 0)
		return ST_OK;
	return parse(text, &d) == ST_OK ? ST_OK : ST_BAD_CONFIG;
}

static bool
name_is_below(struct str name, struct str suffix) /* suffix begins with a dot */
{
	return name.n > suffix.n && str_ieq(str_skip(name, name.n - suffix.n), suffix);
}

bool
parent_pattern_covers(struct str pattern, const struct dest *d)
{
	struct addr a;
	struct cidr c;

	if (str_eq(pattern, STR("*")))
		return true;
	if (!dest_is_name(d)) {
		struct addr bare = addr_unwrap(&d->addr);
		if (addr_parse(pattern, &a))
			return addr_eq(&a, &bare);
		return cidr_parse(pattern, &c) && cidr_has(&c, &bare);
	}
	if (str_starts(pattern, STR("*.")))
		return name_is_below(dest_name(d), str_skip(pattern, 1));
	if (str_starts(pattern, STR(".")))
		return name_is_below(dest_name(d), pattern);
	return str_ieq(pattern, dest_name(d));
}

/* For the parent that is itself, not us. */
static bool
is_loopback(const struct dest *d)
{
	struct addr bare;

	if (dest_is_name(d))
		return false;
	bare = addr_unwrap(&d->addr);
	return addr_classify(&bare) == ADDR_LOOPBACK;
}

bool
parent_for(const struct image *im, const struct dest *d, struct dest *ret_parent)
{
	struct str rest = image_text(im, OPT_NO_PROXY);

	if (image_text(im, OPT_UPSTREAM_PROXY).n == 0 || is_loopback(d))
		return false;
	while (rest.p != NULL) {
		struct str pattern = str_trim(str_cut(&rest, ','));
		if (pattern.n > 0 && parent_pattern_covers(pattern, d))
			return false;
	}
	return parse(image_text(im, OPT_UPSTREAM_PROXY), ret_parent) == ST_OK;
}
