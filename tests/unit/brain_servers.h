#ifndef TESTS_UNIT_BRAIN_SERVERS_H
#define TESTS_UNIT_BRAIN_SERVERS_H
/*
 * brain_servers: servers that live in the test: they answer as OpenSandbox does, are down, or lie.
 */
#include "proxy/control/brain_json.h"
#include "tests/unit/brain_outside.h"

static inline struct fake_box *
fake_find(struct world *w, const char *server, const char *id, size_t n)
{
	for (size_t i = 0; i < w->boxes_n; i++)
		if (!w->boxes[i].is_gone && strcmp(w->boxes[i].server, server) == 0 &&
		    strlen(w->boxes[i].id) == n && memcmp(w->boxes[i].id, id, n) == 0)
			return &w->boxes[i];
	return NULL;
}

static inline json_t *
fake_json(const struct fake_box *b)
{
	return json_pack("{s:s, s:{s:s}, s:O?, s:s, s:s, s:O?}", "id", b->id, "status",
			 "state", b->state, "metadata",
			 json_object_get(b->request, "metadata"), "createdAt",
			 "2026-01-01T00:00:00Z", "expiresAt", "2099-01-01T00:00:00Z",
			 "entrypoint", json_object_get(b->request, "entrypoint"));
}

static inline uint16_t
fake_create(struct world *w, const struct fake_call *f, json_t **ret)
{
	struct fake_box *b = &w->boxes[w->boxes_n++];

	assert_true(w->boxes_n < BOXES);
	*b = (struct fake_box){ .request = json_loads(f->body, 0, NULL) };
	assert_non_null(b->request);
	(void)snprintf(b->id, sizeof b->id, "0f0e0d0c-0000-4000-8000-%012zu",
		       w->boxes_n);
	(void)snprintf(b->server, sizeof b->server, "%.15s", f->connector);
	(void)snprintf(b->state, sizeof b->state, "Running");
	free(w->last_body);
	w->last_body = strdup(f->body);
	*ret = fake_json(b);
	return 202;
}

static inline uint16_t
fake_list(struct world *w, const struct fake_call *f, json_t **ret)
{
	json_t *items = json_array();

	for (size_t i = 0; i < w->boxes_n; i++)
		if (!w->boxes[i].is_gone &&
		    strcmp(w->boxes[i].server, f->connector) == 0)
			(void)json_array_append_new(items, fake_json(&w->boxes[i]));
	*ret = json_pack("{s:o, s:{s:b}}", "items", items, "pagination", "hasNextPage",
			 0);
	return 200;
}

static inline uint16_t
fake_endpoint(struct world *w, const struct fake_box *b, const char *rest, json_t **ret)
{
	char text[128];

	(void)snprintf(text, sizeof text, "127.0.0.1:4%.4s/proxy/%s", b->id + 32,
		       rest + strlen("/endpoints/"));
	*ret = json_pack("{s:s, s:{s:s, s:s}}", "endpoint",
			 w->endpoint != NULL ? w->endpoint : text, "headers",
			 "X-EXECD-ACCESS-TOKEN", "s3cr3t", "Host", "evil.example.test");
	return 200;
}

static inline uint16_t
fake_move(struct fake_box *b, const char *from, const char *to, json_t **ret)
{
	if (strcmp(b->state, from) != 0) {
		*ret = json_pack("{s:s, s:s}", "code", "DOCKER::X", "message", b->id);
		return 409;
	}
	(void)snprintf(b->state, sizeof b->state, "%s", to);
	return 202;
}

static inline uint16_t
fake_box_do(struct world *w, const struct fake_call *f, struct fake_box *b,
	    const char *rest, json_t **ret)
{
	if (strcmp(rest, "") == 0 && strcmp(f->method, "DELETE") == 0) {
		b->is_gone = true;
		return 204;
	}
	if (strcmp(rest, "/pause") == 0)
		return fake_move(b, "Running", "Paused", ret);
	if (strcmp(rest, "/resume") == 0)
		return fake_move(b, "Paused", "Running", ret);
	if (strncmp(rest, "/endpoints/", 11) == 0)
		return fake_endpoint(w, b, rest, ret);
	if (strcmp(rest, "/renew-expiration") == 0) {
		*ret = json_loads(f->body, 0, NULL);
		return 200;
	}
	if (strcmp(rest, "/snapshots") == 0) {
		(void)snprintf(b->snapshot, sizeof b->snapshot, "snap-%.30s", b->id);
		*ret = json_pack("{s:s, s:s, s:{s:s}}", "id", b->snapshot, "sandboxId",
				 b->id, "status", "state", "Ready");
		return 202;
	}
	*ret = fake_json(b);
	return 200;
}

static inline uint16_t
fake_server(struct world *w, const struct fake_call *f, json_t **ret)
{
	static const char boxes[] = "/v1/sandboxes";
	const char *id = f->target + sizeof boxes, *end;
	struct fake_box *b;

	if (strncmp(f->target, "/v1/snapshots/", 14) == 0) {
		*ret = json_pack("{s:s, s:{s:s}}", "id", f->target + 14, "status",
				 "state", "Ready");
		return strcmp(f->method, "DELETE") == 0 ? 204 : 200;
	}
	if (strncmp(f->target, boxes, sizeof boxes - 1) != 0)
		return 501;
	if (f->target[sizeof boxes - 1] == '\0')
		return fake_create(w, f, ret);
	if (f->target[sizeof boxes - 1] == '?')
		return fake_list(w, f, ret);
	end = strchrnul(id, '/');
	b = fake_find(w, f->connector, id, (size_t)(end - id));
	if (b != NULL)
		return fake_box_do(w, f, b, end, ret);
	*ret = json_pack("{s:s, s:s}", "code", "DOCKER::SANDBOX_NOT_FOUND", "message",
			 id);
	return 404;
}

static inline enum status
fake_down(const struct world *w, const char *server)
{
	static const char *const names[] = { "one", "two", "strong" };

	for (size_t i = 0; i < COUNT_OF(names); i++)
		if (strcmp(names[i], server) == 0)
			return w->down[i];
	return ST_NOT_FOUND;
}

/* Answers one open call; false: there is none. */
static inline bool
world_serve(struct world *w)
{
	for (size_t i = 0; i < CALLS; i++) {
		struct fake_call f = w->calls[i];
		struct call_got got = { .type = STR("application/json") };
		json_t *said = NULL;
		char *text = NULL;

		if (!f.is_open)
			continue;
		w->calls[i] = (struct fake_call){ 0 };
		(void)snprintf(w->last, sizeof w->last, "%s %s %.400s", f.connector,
			       f.method, f.target);
		got.st = fake_down(w, f.connector);
		if (got.st == ST_OK && w->http != 0) {
			got.http = w->http;
			got.body = str_from(w->says);
		} else if (got.st == ST_OK) {
			got.http = fake_server(w, &f, &said);
			text = json_dumps(said, 0);
			got.body = str_from(text);
			if (strstr(f.target, "/diagnostics/inspect") != NULL)
				got.body = STR("State: running\nNetwork:\n"
					       "  sgx: 172.30.0.6\n  sg: 172.30.0.5\n");
		}
		json_decref(said);
		f.fn(f.ctx, &got);
		free(text);
		free(f.body);
		return true;
	}
	return false;
}

#endif
