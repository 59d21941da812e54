#include "proxy/io/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHANGE = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK };

int
memfd_sealed(const char *name, struct str bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n &&
	    fcntl(fd, F_ADD_SEALS, CHANGE | F_SEAL_SEAL) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

enum status
memfd_map(int fd, size_t n, struct str *ret_view)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & CHANGE) != CHANGE || fstat(fd, &st) != 0 ||
	    st.st_size < 0 || (size_t)st.st_size != n || n == 0)
		return ST_BAD_MESSAGE;
	void *at = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return ST_NOMEM;
	*ret_view = str_of(at, n);
	return ST_OK;
}

void
memfd_unmap(struct str *view)
{
	union {
		const char *from;
		void *to;
	} p = { view->p };

	if (view->n > 0)
		(void)munmap(p.to, view->n);
	*view = STR("");
}
