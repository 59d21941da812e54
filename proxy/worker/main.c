/*
 * sandgate-worker: reads the sandboxes' bytes.  Holds no secret; see worker.h.
 */
#include <stdio.h>

#include "proxy/worker/start.h"

int
main(void)
{
	static struct worker worker;
	struct role_hooks hooks;
	enum status st = jail_early(ROLE_WORKER, 0);

	if (st == ST_OK)
		st = worker_init(&worker, &hooks);
	if (st != ST_OK) {
		(void)fprintf(stderr, "sandgate-worker: %s\n", status_code(st));
		return 1;
	}
	role_start(&worker.role, ROLE_WORKER, &hooks);
	role_enter(&worker.role, NULL);
	worker_serve(&worker);
	worker_done(&worker);
	return 0;
}
