#include <stdio.h>

#include "conf/image.h"
#include "proxy/cli/gateway_rules.h"
#include "proxy/cli/where.h"

/* The ports of the first listeners that a redirect can lead to. */
bool
gateway_find_ports(const char *config, struct gateway_rules *g)
{
	size_t n = 0;
	struct image *im;

	if (where_image(config, &im) != ST_OK)
		return false;
	const struct image_listener *l = image_listeners(im, &n);

	for (size_t i = 0; i < n; i++) {
		if (l[i].kind == LISTENER_TRANSPARENT && g->tcp_port == 0 &&
		    (l[i].tproxy != 0) == g->tproxy)
			g->tcp_port = l[i].port;
		if (l[i].kind == LISTENER_DNS && g->dns_port == 0)
			g->dns_port = l[i].port;
	}
	image_close(im);
	if (g->tcp_port == 0)
		(void)fprintf(stderr,
			      "sandgate rules: no listener of kind transparent with "
			      "tproxy: %s\n",
			      g->tproxy ? "true" : "false");
	if (g->dns_port == 0)
		(void)fprintf(stderr, "sandgate rules: no listener of kind dns\n");
	return g->tcp_port != 0 && g->dns_port != 0;
}
