/* Would a connector work?  Its own process finds out, and says it without the secret. */
#include "conf/policy.h"
#include "proxy/control/control.h"

struct ask_line *
connector_line(const struct control *c, uint32_t index)
{
	size_t n;
	const struct image_connector *k = image_connectors(c->role.image, &n);
	struct str group = image_str(c->role.image, k[index].group);

	for (size_t i = 0; i < CONTROL_SLOTS; i++)
		if (c->is_connector[i] && c->lines[i] != NULL &&
		    str_eq(group, str_from(c->group[i])))
			return c->lines[i];
	return NULL;
}

static void
probe_told(void *ctx, enum status st, struct ask_msg *m)
{
	struct admin_conn *a = ctx;
	struct wire w = wire_from(st == ST_OK ? m->body : STR(""));
	uint16_t told = wire_u16(&w);
	struct str text = wire_str(&w);

	if (st == ST_OK && (wire_end(&w) != ST_OK || told >= ST_COUNT))
		st = ST_BAD_MESSAGE;
	json_t *found =
		st == ST_OK && text.n > 0 ? json_loadb(text.p, text.n, 0, NULL) : NULL;
	if (found == NULL) {
		api_refuse(a, st == ST_OK ? (enum status)told : st, STR(""));
		return;
	}
	(void)json_object_set_new(found, "ok", json_boolean(told == ST_OK));
	(void)json_object_set_new(found, "code",
				  json_string(status_code((enum status)told)));
	(void)json_object_set_new(
		found, "message",
		json_string(status_words((enum status)told)->sentence));
	api_succeed(a, found);
}

void
api_connector_test(struct admin_conn *a)
{
	const struct control *c = a->control;
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str name = api_text(a, "name"), body = STR("");
	uint32_t index = image_connector_by_name(c->role.image, name);
	enum status st = index == CONNECTOR_NONE ? ST_NOT_FOUND : ST_OK;
	struct ask_line *line = st == ST_OK ? connector_line(c, index) : NULL;

	if (st == ST_OK && line == NULL)
		st = ST_NEEDS_CONNECTOR;
	buf_init(&b, 256);
	wire_put_str(&b, name);
	if (st == ST_OK)
		st = buf_finish(&b, &body);
	if (st == ST_OK)
		st = ask_call(line, ASK_PROBE, ASK_LOAD(body, NULL, 0), probe_told, a,
			      NULL);
	if (st == ST_OK)
		a->is_asked = true;
	else
		api_refuse(a, st == ST_AGAIN ? ST_LIMIT_RATE : st, STR(""));
}
