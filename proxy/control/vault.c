/* What operators ask of the vault: handed on to the keeper.  A value comes as a
 * descriptor and goes on as one; nothing of it is read here, and nothing ever comes
 * back. */
#include <stdlib.h>
#include <string.h>

#include "proxy/base/num.h"
#include "proxy/control/ca_file.h"
#include "proxy/control/control.h"
#include "proxy/io/vault_op.h"

static const char *const kinds[] = { [VAULT_TEXT] = "text", [VAULT_PEM] = "pem" };
static const char *const keys[] = { [VAULT_KEY_FILE] = "file",
				    [VAULT_KEY_PASSPHRASE] = "passphrase",
				    [VAULT_KEY_GIVEN] = "given" };

/* The request. */

/* "vault/put" and "ca/export" of the API's rows are put and ca_export. */
static enum vault_op
op_of(const char *word)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str s = str_from(word), part;
	enum vault_op op = VAULT_OP_STATUS;

	buf_init(&b, 64);
	part = str_cut(&s, '/');
	if (!str_eq(part, STR("vault"))) {
		buf_put(&b, part);
		buf_putc(&b, '_');
	}
	buf_put(&b, s);
	need(vault_op_by_word(str_of(b.p, b.len), &op));
	return op;
}

static bool
read_choice(const struct admin_conn *a, const char *key, const char *const words[],
	    size_t words_n, uint8_t *kind)
{
	struct str s = api_text(a, key);

	if (s.n == 0)
		return true;
	for (size_t i = 0; i < words_n; i++) {
		if (!str_eq(s, str_from(words[i])))
			continue;
		*kind = (uint8_t)i;
		return true;
	}
	return false;
}

static enum status
read_wish(const struct admin_conn *a, struct vault_ask *ret_ask)
{
	struct vault_ask ask = { .op = op_of(a->word),
				 .name = api_text(a, "name"),
				 .tenant = api_text(a, "tenant"),
				 .connector = api_text(a, "connector"),
				 .user = api_text(a, "user") };
	uint64_t seconds = 0;

	if (!read_choice(a, "kind", kinds, COUNT_OF(kinds), &ask.kind) ||
	    !read_choice(a, "key", keys, COUNT_OF(keys), &ask.kind) ||
	    !api_number(a, "expires", INT64_MAX, &ask.expires) ||
	    !api_number(a, "seconds", UINT32_MAX, &seconds))
		return ST_BAD_REQUEST;
	ask.seconds = (uint32_t)seconds;
	*ret_ask = ask;
	return ST_OK;
}

/* Descriptors don't cross TCP, and a value that stood in the request's text would lie in
 * this process and in what else read that text. */
static enum status
check_value(const struct admin_conn *a, enum vault_op op)
{
	enum vault_value value = vault_op_value(op);
	bool is_key_alone = value == VAULT_MAY &&
			    !str_eq(api_text(a, "key"), STR("passphrase")) &&
			    op != VAULT_OP_UNSEAL;

	if (!a->control->admin_is_unix && value != VAULT_NONE && !is_key_alone)
		return ST_NEEDS_SOCKET;
	if (a->fds_n > (value == VAULT_NONE ? 0u : 1u))
		return ST_BAD_REQUEST;
	return value == VAULT_MUST && a->fds_n == 0 ? ST_BAD_REQUEST : ST_OK;
}

/* The answer. */

static json_t *
answer_json(enum vault_op op, struct str text)
{
	if (op == VAULT_OP_CA_EXPORT || op == VAULT_OP_CA_ROTATE) {
		json_t *j = json_stringn(text.p, text.n);
		return j == NULL ? NULL : json_pack("{s:o}", "pem", j);
	}
	if (text.n == 0)
		return json_pack("{s:b}", "ok", 1);
	return json_loadb(text.p, text.n, 0, NULL);
}

static void
forgotten(void *ctx, enum status st, struct str body)
{
	(void)ctx; /* the operator has had the answer */
	(void)st;
	(void)body;
}

/* Leaves of the CA before must not outlive it in the workers. */
static enum status
forget_leaves(struct control *c, enum vault_op op)
{
	if (op != VAULT_OP_CA_ROTATE)
		return ST_OK;
	ca_file_begin(c);
	return ask_super(c, ASK_FORGET, ASK_LOAD(STR(""), NULL, 0), forgotten, NULL);
}

/* Those after which a lease may be of something that is no longer so. */
static bool
is_change(enum vault_op op)
{
	return op == VAULT_OP_PUT || op == VAULT_OP_ROTATE || op == VAULT_OP_RM ||
	       op == VAULT_OP_GRANT || op == VAULT_OP_UNGRANT || op == VAULT_OP_SEAL;
}

static void
vault_end(struct admin_conn *a, struct str text)
{
	enum status st = forget_leaves(a->control, op_of(a->word));
	json_t *body = st == ST_OK ? answer_json(op_of(a->word), text) : NULL;

	if (st == ST_OK && body == NULL)
		st = ST_BAD_MESSAGE;
	if (st == ST_OK)
		api_succeed(a, body);
	else
		api_refuse(a, st, text);
}

struct changed { /* what the operator is told when all have forgotten */
	struct admin_conn *conn;
	struct buf text;
};

static void
changed_told(void *ctx)
{
	struct changed *c = ctx;

	vault_end(c->conn, str_of(c->text.p, c->text.len));
	buf_done(&c->text);
	free(c);
}

static void
vault_changed(struct admin_conn *a, struct str text)
{
	struct changed *c = calloc(1, sizeof *c);

	if (c == NULL) {
		api_refuse(a, ST_NOMEM, STR(""));
		return;
	}
	c->conn = a;
	buf_init(&c->text, ask_rule(ASK_VAULT)->size);
	buf_put(&c->text, text);
	enum status st = revoke_begin(a->control, api_text(a, "tenant"),
				      api_text(a, "name"), changed_told, c);
	if (st == ST_OK)
		return;
	log_error(&a->control->role.log, "connectors were not told to forget: %s",
		  status_code(st));
	changed_told(c);
}

static void
vault_told(void *ctx, enum status st, struct ask_msg *m)
{
	struct admin_conn *a = ctx;
	struct wire w = wire_from(st == ST_OK ? m->body : STR(""));
	uint16_t told = wire_u16(&w);
	struct str text = wire_str(&w);

	if (st == ST_OK && (wire_end(&w) != ST_OK || told >= ST_COUNT))
		st = ST_BAD_MESSAGE;
	else if (st == ST_OK) /* what came with it was no sealed memfd */
		st = told == ST_BAD_MESSAGE ? ST_BAD_REQUEST : (enum status)told;
	else
		st = ST_NO_KEEPER;
	if (st != ST_OK)
		api_refuse(a, st, text);
	else if (is_change(op_of(a->word)))
		vault_changed(a, text);
	else
		vault_end(a, text);
}

void
api_vault(struct admin_conn *a)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct vault_ask ask;
	struct str body = STR("");
	enum status st = a->control->keeper == NULL ? ST_NO_KEEPER : read_wish(a, &ask);

	buf_init(&b, VAULT_ASK_MAX);
	if (st == ST_OK)
		st = check_value(a, ask.op);
	if (st == ST_OK) {
		vault_ask_put(&b, &ask);
		st = buf_finish(&b, &body);
	}
	/* The keeper would hang up on what it can't read. */
	if (st == ST_OK && vault_ask_get(body, &ask) != ST_OK)
		st = ST_BAD_REQUEST;
	if (st == ST_OK)
		st = ask_call(a->control->keeper, ASK_VAULT,
			      ASK_LOAD(body, a->fds, a->fds_n), vault_told, a, NULL);
	if (st != ST_OK) {
		api_refuse(a, st == ST_AGAIN ? ST_LIMIT_RATE : st, STR(""));
		return;
	}
	a->is_asked = true;
}
