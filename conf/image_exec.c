/* The readers of what an image says of execution. */
#include "conf/image_format.h"
#include "conf/policy.h"

const struct image_exec *
image_exec(const struct image *im)
{
	static const struct image_exec none = { .webhook = CONNECTOR_NONE,
						.policy = POLICY_NONE };
	size_t n;
	const struct image_exec *e = image_table(im, IMAGE_EXECS, &n);

	return n == 0 ? &none : e;
}

const struct image_exec_server *
image_exec_servers(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_EXEC_SERVERS, ret_n);
}

const struct image_exec_server *
image_exec_server_by_name(const struct image *im, struct str name)
{
	size_t n;
	const struct image_exec_server *of = image_exec_servers(im, &n);

	for (size_t i = 0; i < n; i++)
		if (str_eq(image_str(im, of[i].name), name))
			return &of[i];
	return NULL;
}

const struct image_exec_server *
image_exec_server_of(const struct image *im, uint32_t connector)
{
	size_t n;
	const struct image_exec_server *of = image_exec_servers(im, &n);

	for (size_t i = 0; i < n; i++)
		if (of[i].connector == connector)
			return &of[i];
	return NULL;
}

const struct image_exec_placement *
image_exec_placements(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_EXEC_PLACEMENTS, ret_n);
}

const struct image_exec_warm *
image_exec_warms(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_EXEC_WARMS, ret_n);
}

const struct image_exec_jwt *
image_exec_jwts(const struct image *im, size_t *ret_n)
{
	return image_table(im, IMAGE_EXEC_JWTS, ret_n);
}
