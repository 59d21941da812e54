#include "proxy/flow/multipart_tap.h"

#include <string.h>

enum part { OTHER, META, CONTENT };
enum want { PATH, OWNER, GROUP, MODE, WANTS };

static const struct jpick_want wants[WANTS] = {
	[PATH] = { -1, "path" },
	[OWNER] = { -1, "owner" },
	[GROUP] = { -1, "group" },
	[MODE] = { -1, "mode" },
};

enum { MODE_MAX = 7777 };

enum status
multipart_tap_init(struct multipart_tap *t, struct str content_type)
{
	memset(t, 0, sizeof *t);
	enum status st = multipart_init(&t->parts, content_type);
	if (st != ST_OK)
		return st;
	arena_init(&t->arena, MULTIPART_TAP_ROOM);
	return tally_init(&t->tally);
}

void
multipart_tap_done(struct multipart_tap *t)
{
	arena_done(&t->arena);
	tally_done(&t->tally);
	t->first = NULL;
}

static struct upload *
append(struct multipart_tap *t)
{
	struct upload *u = arena_alloc(&t->arena, sizeof *u);

	if (u == NULL) {
		t->is_cut = true;
		return NULL;
	}
	if (t->last == NULL)
		t->first = u;
	else
		t->last->next = u;
	t->last = u;
	t->meta_next = t->meta_next == NULL ? u : t->meta_next;
	t->file_next = t->file_next == NULL ? u : t->file_next;
	return u;
}

/* The one whose other half has come, or a new one.  A list that was full stays so:
 * behind a gap nothing would pair. */
static struct upload *
take_next(struct multipart_tap *t, struct upload **next)
{
	if (t->is_cut || (*next == NULL && append(t) == NULL))
		return NULL;
	struct upload *u = *next;
	*next = u->next;
	return u;
}

static bool
keep(struct multipart_tap *t, struct str s, struct str *ret_s)
{
	struct str copy = arena_copy(&t->arena, s);

	if (copy.p == NULL && s.n > 0)
		return false;
	*ret_s = copy;
	return true;
}

static void
begin_part(struct multipart_tap *t)
{
	const struct held *name = &t->parts.name;

	t->part = OTHER;
	if (held_is(name, STR("metadata")))
		t->part = META;
	else if (held_is(name, STR("file")))
		t->part = CONTENT;
	if (t->part == OTHER)
		t->others++;
	/* Without a file name it is a field of a form, and execd looks at files only. */
	else if (!t->parts.has_filename)
		t->is_unreadable = true;
	if (t->part == META) {
		jpick_init(&t->pick, wants, WANTS);
		t->is_pick_over = false;
		t->path_n = 0;
		held_clear(&t->owner);
		held_clear(&t->group);
		held_clear(&t->mode);
	}
}

static void
put_path(struct multipart_tap *t, struct str part)
{
	if (part.n > sizeof t->path - t->path_n) {
		t->is_unreadable = true;
		return;
	}
	memcpy(t->path + t->path_n, part.p, part.n);
	t->path_n += part.n;
}

static void
take_wanted(struct multipart_tap *t, enum jpick_found kind, int want, struct str part)
{
	/* A mode in quotes, or a path without: not what execd takes. */
	if ((kind == JPICK_NUMBER) != (want == MODE))
		t->is_unreadable = true;
	else if (want == PATH)
		put_path(t, part);
	else if (want == OWNER)
		held_put(&t->owner, part);
	else if (want == GROUP)
		held_put(&t->group, part);
	else
		held_put(&t->mode, part);
}

static void
put_meta(struct multipart_tap *t, struct str in)
{
	enum jpick_found k = JPICK_STRING;
	struct str part;
	int want;

	while (!t->is_pick_over && !t->is_unreadable) {
		k = jpick_next(&t->pick, &in, &want, &part);
		if (k == JPICK_AGAIN)
			return;
		if (k == JPICK_OVER)
			t->is_pick_over = true;
		else if (k == JPICK_BAD)
			t->is_unreadable = true;
		else
			take_wanted(t, k, want, part);
	}
	for (size_t i = 0; i < in.n; i++) {
		if (!jscan_is_space(in.p[i]))
			t->is_unreadable = true;
	}
}

static bool
take_mode(struct multipart_tap *t, struct upload *u)
{
	uint64_t mode = 0;

	u->has_mode = t->mode.n > 0;
	if (u->has_mode &&
	    (t->mode.is_cut || !num_parse_strict(held_str(&t->mode), MODE_MAX, &mode)))
		return false;
	u->mode = (uint16_t)mode;
	return true;
}

static void
end_meta(struct multipart_tap *t)
{
	struct upload found = { 0 };

	if (!t->is_pick_over || t->path_n == 0 || t->owner.is_cut || t->group.is_cut ||
	    !take_mode(t, &found)) {
		t->is_unreadable = true;
		return;
	}
	struct upload *u = take_next(t, &t->meta_next);
	if (u == NULL)
		return;
	if (!keep(t, str_of(t->path, t->path_n), &u->path) ||
	    !keep(t, held_str(&t->owner), &u->owner) ||
	    !keep(t, held_str(&t->group), &u->group)) {
		t->is_cut = true;
		return;
	}
	u->has_mode = found.has_mode;
	u->mode = found.mode;
	u->has_meta = true;
}

static void
end_file(struct multipart_tap *t)
{
	struct upload *u = take_next(t, &t->file_next);

	t->files++;
	if (u != NULL && tally_sum(&t->tally, u->hash) == ST_OK) {
		u->octets = t->tally.octets;
		u->has_file = true;
	} else {
		t->is_cut = true;
	}
	tally_restart(&t->tally);
}

static void
put_data(struct multipart_tap *t, struct str data)
{
	if (t->part == META) {
		put_meta(t, data);
	} else if (t->part == CONTENT) {
		tally_put(&t->tally, data);
		t->largest =
			t->tally.octets > t->largest ? t->tally.octets : t->largest;
		t->octets += data.n;
	}
}

static void
end_part(struct multipart_tap *t)
{
	if (t->part == META)
		end_meta(t);
	else if (t->part == CONTENT)
		end_file(t);
}

void
multipart_tap_put(struct multipart_tap *t, struct str in)
{
	struct str data;

	while (!t->is_unreadable) {
		switch (multipart_next(&t->parts, &in, &data)) {
		case MULTIPART_AGAIN:
		case MULTIPART_OVER:
			return;
		case MULTIPART_PART:
			begin_part(t);
			break;
		case MULTIPART_DATA:
			put_data(t, data);
			break;
		case MULTIPART_PART_END:
			end_part(t);
			break;
		case MULTIPART_BAD:
			t->is_unreadable = true;
			break;
		}
	}
}

void
multipart_tap_end(struct multipart_tap *t)
{
	if (!multipart_is_over(&t->parts))
		t->is_unreadable = true;
	for (const struct upload *u = t->first; u != NULL && !t->is_cut; u = u->next) {
		if (!u->has_meta || !u->has_file)
			t->is_unreadable = true;
	}
}
