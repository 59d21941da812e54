/* Groups of connectors, which come and go with the configuration. */
#include "proxy/super/super.h"

/* Its rows are stored, whoever wrote them; the ring waits for the group to come back. */
static void
end_group(struct slot *slot)
{
	slot->is_stopping = true;
	if (slot->again.loop != NULL)
		loop_timer_clear(&slot->again);
	ask_line_free(slot->line); /* a role ends when the line to super does */
	slot->line = NULL;
}

static void
start_group(struct slot *slot)
{
	slot->is_stopping = false;
	/* One that has not quite gone starts again by its death. */
	if (slot->pid != 0)
		return;
	spawn_slot(slot);
	spawn_policy(slot);
}

void
spawn_groups(struct super *s)
{
	size_t had = s->slots_n;
	enum status st = slots_groups(s);

	if (st != ST_OK)
		log_error(&s->log, "a group of connectors has no place: %s",
			  status_code(st));
	for (size_t i = had; i < s->slots_n; i++)
		give_new_slot(s, &s->slots[i]);
	for (size_t i = 1; i < s->slots_n; i++) {
		struct slot *slot = &s->slots[i];
		if (slot->role != ROLE_CONNECTOR)
			continue;
		if (slot->is_idle && slot->line != NULL)
			end_group(slot);
		else if (!slot->is_idle && (slot->is_stopping || i >= had))
			start_group(slot);
	}
}
