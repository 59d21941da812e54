#include "connectors/wipe.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"

void
wipe_free(void *p)
{
	if (p != NULL)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

void *
wipe_realloc(void *p, size_t n)
{
	void *more = n > 0 ? malloc(n) : NULL;

	if (more == NULL && n > 0)
		return NULL;
	if (more != NULL && p != NULL)
		memcpy(more, p, num_min(n, malloc_usable_size(p)));
	wipe_free(p);
	return more;
}
