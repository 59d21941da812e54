/*
 * What docker says: whatever is taken holds only what may go on to the kernel or into the
 * next question, and what is refused leaves the outputs as they were.
 *
 * Input: one octet that says which answer it is, then its JSON.
 */
#include <string.h>

#include "proxy/locator/docker.h"

#define ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void
check_container(struct str json)
{
	struct docker_ids ids = { .container = ID }, was = ids;
	struct place p = { 0 }, nowhere = p;

	if (docker_container(json, STR("box-1"), STR("net"), &ids, &p) != ST_OK) {
		need(memcmp(&ids, &was, sizeof ids) == 0);
		need(memcmp(&p, &nowhere, sizeof p) == 0);
		return;
	}
	need(ids.pid > 1 && strlen(ids.network) == DOCKER_ID);
	need(p.addrs_n >= 1 && p.addrs_n <= PLACE_ADDRS && (p.mac[0] & 1) == 0);
	need(p.addrs_n < 2 || (p.addrs[0].family == 4 && p.addrs[1].family == 6));
}

static void
check_network(struct str json)
{
	char name[PLACE_NAME + 1] = "";

	if (docker_network(json, ID, name) == ST_OK)
		need(docker_is_word(str_from(name)));
	else
		need(name[0] == '\0');
}

static void
check_list(struct str json)
{
	char id[DOCKER_ID + 1] = "";

	if (docker_list(json, id) == ST_OK)
		need(strlen(id) == DOCKER_ID &&
		     strspn(id, "0123456789abcdef") == DOCKER_ID);
	else
		need(id[0] == '\0');
}

static void
check_memory(struct str json)
{
	uint64_t octets = 7;
	enum status st = docker_memory(json, ID, &octets);

	need(st == ST_OK ? octets <= INT64_MAX : octets == 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str json;

	if (size == 0)
		return 0;
	json = str_of(data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		check_list(json);
		break;
	case 1:
		check_container(json);
		break;
	case 2:
		check_network(json);
		break;
	default:
		check_memory(json);
		break;
	}
	return 0;
}
