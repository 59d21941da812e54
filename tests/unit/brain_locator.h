#ifndef TESTS_UNIT_BRAIN_LOCATOR_H
#define TESTS_UNIT_BRAIN_LOCATOR_H
/*
 * brain_locator: a world with a locator, whose end of the line is the test's.
 */
#include "proxy/control/pin.h"
#include "tests/unit/brain_world.h"

/* Our end. */
static inline struct ask_line **
locator_end(void)
{
	static struct ask_line *ours;

	return &ours;
}

static inline void
locator_up(struct world *w, ask_heard_fn heard)
{
	pin_forget_all(&w->c);
	w->c.locator =
		world_line(w, ROLE_LOCATOR, heard, world_ours_lost, locator_end());
}

static inline int
locator_down(void **state)
{
	struct world *w = *state;

	brain_close(w->c.brain); /* which may wait for an answer still */
	w->c.brain = NULL;
	ask_line_free(*locator_end());
	ask_line_free(w->c.locator);
	map_done(&w->c.pinned);
	return world_down(state);
}

#endif
