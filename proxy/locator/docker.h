#ifndef PROXY_LOCATOR_DOCKER_H
#define PROXY_LOCATOR_DOCKER_H
/*
 * docker: what the Docker Engine's answers say, no more of them than is needed.  They hold
 * much that sandboxes chose (labels, environment, names): every value that is used is
 * checked for its kind, length and alphabet, and a key that comes twice refuses the whole.
 *
 * ST_NOT_FOUND: there is no such container, or it doesn't run, or isn't on that network;
 * ST_CONFLICT: several say that they are it; else ST_UPSTREAM_BAD, ST_NOMEM.
 */
#include "proxy/locator/locator.h"

enum {
	DOCKER_ID = 64, /* hex digits of an id */
	DOCKER_BODY_MAX = 1 << 20,
};

/* Of OpenSandbox: on each container that is a sandbox, with the server's id of it. */
#define DOCKER_LABEL "opensandbox.io/id"

struct docker_ids {
	char container[DOCKER_ID + 1];
	char network[DOCKER_ID + 1];
	uint32_t pid; /* of its first process */
};

/* GET /containers/json, filtered by the label: the one container in it. */
enum status docker_list(struct str json, char ret_id[DOCKER_ID + 1]) MUSTCHECK;
/* GET /containers/ID/json: ids->container is which; fills the rest of ids, and the MAC and
 * addresses of place. */
enum status docker_container(struct str json, struct str sandbox, struct str network,
			     struct docker_ids *ret_ids,
			     struct place *ret_place) MUSTCHECK;
/* GET /networks/ID: the interface that is its bridge. */
enum status docker_network(struct str json, const char *network,
			   char ret_bridge[PLACE_NAME + 1]) MUSTCHECK;

/* GET /containers/ID/stats: octets that container holds, without the pages of files that the
 * kernel takes back before it is short of any, as docker's own tool counts. */
enum status docker_memory(struct str json, const char *container,
			  uint64_t *ret_octets) MUSTCHECK;

/* What may stand in a question: a sandbox's id, the name of a network. */
bool docker_is_word(struct str s);

#endif
