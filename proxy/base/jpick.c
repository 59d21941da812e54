#include "proxy/base/jpick.h"

#include <string.h>

#include "proxy/base/num.h"

void
jpick_init(struct jpick *p, const struct jpick_want *wants, int count)
{
	need(count <= JPICK_WANTS);
	jscan_init(&p->scan);
	p->wants = wants;
	p->count = count;
	p->outer = p->now = -1;
	p->seen = 0;
	p->is_object = p->is_bad = false;
	p->key_n = 0;
}

static void
add_key(struct jpick *p, struct str part)
{
	size_t n = num_min(part.n, sizeof p->key - p->key_n);

	memcpy(p->key + p->key_n, part.p, n);
	p->key_n += n;
}

/* Is the name that has just been read wanted here? */
static enum jpick_found
take_key(struct jpick *p, int *ret_want, struct str *ret_text)
{
	struct str key = str_of(p->key, p->key_n);
	bool is_inner = p->scan.depth == 2 && p->outer >= 0;

	p->key_n = 0;
	p->now = -1;
	if (p->scan.depth != 1 && !is_inner)
		return JPICK_AGAIN;
	for (int i = 0; i < p->count; i++) {
		const struct jpick_want *w = &p->wants[i];
		if (w->outer != p->outer)
			continue;
		if (w->name == NULL) {
			*ret_want = i;
			*ret_text = key;
			return JPICK_KEY;
		}
		if (!str_ieq(key, str_from(w->name)))
			continue;
		if (!str_eq(key, str_from(w->name)) || (p->seen >> i & 1) != 0)
			return JPICK_BAD;
		p->seen |= 1U << i;
		p->now = i;
	}
	return JPICK_AGAIN;
}

/* An object or an array begins; depth counts it. */
static enum jpick_found
enter(struct jpick *p, bool is_array)
{
	if (p->scan.depth == 1)
		p->is_object = !is_array;
	if (p->scan.depth == 2)
		p->outer = is_array ? -1 : p->now;
	p->now = -1;
	return JPICK_AGAIN;
}

static enum jpick_found
leave(struct jpick *p)
{
	if (p->scan.depth == 1)
		p->outer = -1;
	return JPICK_AGAIN;
}

static enum jpick_found
take_part(const struct jpick *p, enum jpick_found kind, int *ret_want)
{
	*ret_want = p->now;
	return p->now >= 0 ? kind : JPICK_AGAIN;
}

static enum jpick_found
take(struct jpick *p, enum jscan_token t, int *ret_want, struct str *ret_text)
{
	switch (t) {
	case JSCAN_KEY:
		add_key(p, *ret_text);
		break;
	case JSCAN_KEY_END:
		return take_key(p, ret_want, ret_text);
	case JSCAN_STRING:
		return take_part(p, JPICK_STRING, ret_want);
	case JSCAN_NUMBER:
		return take_part(p, JPICK_NUMBER, ret_want);
	case JSCAN_TEXT_END:
	case JSCAN_LITERAL:
		p->now = -1;
		break;
	case JSCAN_OBJECT:
	case JSCAN_ARRAY:
		return enter(p, t == JSCAN_ARRAY);
	case JSCAN_OBJECT_END:
	case JSCAN_ARRAY_END:
		return leave(p);
	case JSCAN_AGAIN:
		break;
	case JSCAN_OVER:
		return p->is_object ? JPICK_OVER : JPICK_BAD;
	case JSCAN_BAD:
		return JPICK_BAD;
	}
	return JPICK_AGAIN;
}

enum jpick_found
jpick_next(struct jpick *p, struct str *in, int *ret_want, struct str *ret_text)
{
	while (!p->is_bad) {
		struct str text = { NULL, 0 };
		int want = -1;
		enum jscan_token t = jscan_next(&p->scan, in, &text);
		enum jpick_found k = take(p, t, &want, &text);
		if (k == JPICK_AGAIN && t != JSCAN_AGAIN)
			continue;
		*ret_want = want;
		*ret_text = text;
		p->is_bad = k == JPICK_BAD;
		return k;
	}
	return JPICK_BAD;
}
