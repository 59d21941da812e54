#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proxy/super/super.h"

/* sd_notify(3): one datagram to $NOTIFY_SOCKET; '@' stands for the abstract namespace.
 */
void
notify(const char *text)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t n = path == NULL ? 0 : strlen(path);
	int fd;

	if (n < 2 || n >= sizeof sa.sun_path || (path[0] != '/' && path[0] != '@'))
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	memcpy(sa.sun_path, path, n);
	if (path[0] == '@')
		sa.sun_path[0] = '\0';
	/* The service manager's time-out notices if this is lost. */
	(void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&sa,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	(void)close(fd);
}

void
notify_reloading(void)
{
	struct timespec now = { 0 };
	char text[64];

	/* In us, as Type=notify-reload wants it. */
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	(void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
		       (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
	notify(text);
}
