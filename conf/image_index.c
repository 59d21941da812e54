/* The host index: see image_format.h.  FNV-1a over the name from right to left. */
#include "conf/image_format.h"

static const uint64_t fnv_prime = 1099511628211u;

uint64_t
image_hash_start(uint32_t policy)
{
	return (14695981039346656037u ^ policy) * fnv_prime;
}

uint64_t
image_hash_feed(uint64_t h, char c)
{
	return (h ^ (uint8_t)c) * fnv_prime;
}

uint64_t
image_hash_end(uint64_t h, uint8_t state)
{
	h = (h ^ state) * fnv_prime;
	/* The low bits choose the slot; FNV's are weak, so fold the high ones in. */
	return h ^ (h >> 29);
}

const struct image_slot *
image_find_slot(const struct image *im, uint64_t hash, uint32_t policy, struct str name,
		uint8_t state)
{
	size_t n;
	const struct image_slot *s = image_table(im, IMAGE_SLOTS, &n);

	for (size_t i = 0; i < n; i++) {
		const struct image_slot *at = &s[(hash + i) & (n - 1)];
		if (at->state == SLOT_EMPTY)
			return NULL;
		if (at->state == state && at->policy == policy &&
		    str_eq(image_str(im, at->name), name))
			return at;
	}
	return NULL;
}
