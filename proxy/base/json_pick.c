#include "proxy/base/json_pick.h"

#include <string.h>

#include "proxy/base/num.h"

void
json_pick_init(struct json_pick *p, const struct json_want *wants, int count)
{
	need(count <= JSON_PICK_WANTS);
	json_init(&p->json);
	p->wants = wants;
	p->count = count;
	p->outer = p->now = -1;
	p->seen = 0;
	p->is_object = p->is_bad = false;
	p->key_n = 0;
}

static void
add_key(struct json_pick *p, struct str part)
{
	size_t n = num_min(part.n, sizeof p->key - p->key_n);

	memcpy(p->key + p->key_n, part.p, n);
	p->key_n += n;
}

/* Is the name that has just been read wanted here? */
static enum json_picked
take_key(struct json_pick *p, int *ret_want, struct str *ret_text)
{
	struct str key = str_of(p->key, p->key_n);
	bool is_inner = p->json.depth == 2 && p->outer >= 0;

	p->key_n = 0;
	p->now = -1;
	if (p->json.depth != 1 && !is_inner)
		return JSON_PICK_AGAIN;
	for (int i = 0; i < p->count; i++) {
		const struct json_want *w = &p->wants[i];
		if (w->outer != p->outer)
			continue;
		if (w->name == NULL) {
			*ret_want = i;
			*ret_text = key;
			return JSON_PICK_KEY;
		}
		if (!str_ieq(key, str_from(w->name)))
			continue;
		if (!str_eq(key, str_from(w->name)) || (p->seen >> i & 1) != 0)
			return JSON_PICK_BAD;
		p->seen |= 1U << i;
		p->now = i;
	}
	return JSON_PICK_AGAIN;
}

/* An object or an array begins; depth counts it. */
static enum json_picked
enter(struct json_pick *p, bool is_array)
{
	if (p->json.depth == 1)
		p->is_object = !is_array;
	if (p->json.depth == 2)
		p->outer = is_array ? -1 : p->now;
	p->now = -1;
	return JSON_PICK_AGAIN;
}

static enum json_picked
leave(struct json_pick *p)
{
	if (p->json.depth == 1)
		p->outer = -1;
	return JSON_PICK_AGAIN;
}

static enum json_picked
take_part(const struct json_pick *p, enum json_picked kind, int *ret_want)
{
	*ret_want = p->now;
	return p->now >= 0 ? kind : JSON_PICK_AGAIN;
}

static enum json_picked
take(struct json_pick *p, enum json_token t, int *ret_want, struct str *ret_text)
{
	switch (t) {
	case JSON_KEY:
		add_key(p, *ret_text);
		break;
	case JSON_KEY_END:
		return take_key(p, ret_want, ret_text);
	case JSON_STRING:
		return take_part(p, JSON_PICK_STRING, ret_want);
	case JSON_NUMBER:
		return take_part(p, JSON_PICK_NUMBER, ret_want);
	case JSON_TEXT_END:
	case JSON_LITERAL:
		p->now = -1;
		break;
	case JSON_OBJECT:
	case JSON_ARRAY:
		return enter(p, t == JSON_ARRAY);
	case JSON_OBJECT_END:
	case JSON_ARRAY_END:
		return leave(p);
	case JSON_AGAIN:
		break;
	case JSON_OVER:
		return p->is_object ? JSON_PICK_OVER : JSON_PICK_BAD;
	case JSON_BAD:
		return JSON_PICK_BAD;
	}
	return JSON_PICK_AGAIN;
}

enum json_picked
json_pick_next(struct json_pick *p, struct str *in, int *ret_want, struct str *ret_text)
{
	while (!p->is_bad) {
		struct str text = { NULL, 0 };
		int want = -1;
		enum json_token t = json_next(&p->json, in, &text);
		enum json_picked k = take(p, t, &want, &text);
		if (k == JSON_PICK_AGAIN && t != JSON_AGAIN)
			continue;
		*ret_want = want;
		*ret_text = text;
		p->is_bad = k == JSON_PICK_BAD;
		return k;
	}
	return JSON_PICK_BAD;
}
