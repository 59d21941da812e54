#include "proxy/dialer/mark.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>

uint64_t
mark_keep(void)
{
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_NET_ADMIN, 0, 0) == 1
		       ? 1ULL << CAP_NET_ADMIN
		       : 0;
}

enum status
mark_set(int fd, uint32_t mark)
{
	if (mark == 0)
		return ST_OK;
	return setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark) == 0 ? ST_OK
									    : ST_SYSTEM;
}
