#include "proxy/worker/leg.h"

#include <stdlib.h>
#include <unistd.h>

struct leg *
leg_new(struct loop *l, int fd, const struct dest *d)
{
	struct leg *g = calloc(1, sizeof *g);

	if (g == NULL) {
		(void)close(fd);
		return NULL;
	}
	list_init(&g->link);
	loop_io_init(&g->io, l, fd, NULL, NULL);
	out_init(&g->out, fd);
	g->dest = *d;
	g->is_clean = true;
	return g;
}

void
leg_free(struct leg *g, struct loop *l)
{
	if (g == NULL)
		return;
	list_remove(&g->link);
	loop_io_clear(&g->io);
	(void)close(g->io.fd);
	out_done(&g->out);
	h1_read_done(&g->reader);
	h1_body_done(&g->body);
	loop_defer(l, free, g);
}
