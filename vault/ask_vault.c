#include "vault/ask_vault_in.h"
#include "vault/permit.h"
#include "vault/value.h"

enum { DETAIL_MAX = 512, GRANTS_MAX = 64 };

/* Grants. */

struct grants {
	struct table_grant of[GRANTS_MAX];
	size_t n;
};

/* Connectors of its tenant that declare the secret in the policy in force. */
static void
find_declared(const struct op *o, struct grants *g)
{
	const struct image *im = o->keeper->role.image;
	size_t n;
	const struct image_connector *c = image_connectors(im, &n);
	struct str secret = STR(""), user = STR("");

	for (size_t i = 0; i < n; i++) {
		if (!str_eq(image_str(im, c[i].tenant), o->ask.tenant))
			continue;
		for (size_t k = 0; permit_declares(im, &c[i], k, &secret); k++) {
			if (secret.n > 0 && g->n < GRANTS_MAX &&
			    permit_covers(secret, o->ask.name, &user))
				g->of[g->n++] =
					(struct table_grant){ image_str(im, c[i].name),
							      user };
		}
	}
}

static void
find_grants(const struct op *o, struct grants *g)
{
	if (o->ask.connector.n == 0) {
		find_declared(o, g);
		return;
	}
	g->of[0] = (struct table_grant){ o->ask.connector, o->ask.user };
	g->n = 1;
}

static enum status
permit_all(struct safe *safe, const struct table_entry *e, const struct grants *g,
	   bool is_taken_back)
{
	enum status st = ST_OK;

	for (size_t i = 0; i < g->n && st == ST_OK; i++)
		st = safe_permit(safe, e, &g->of[i], is_taken_back);
	return st;
}

/* Secrets. */

static void
put_version(struct op *o, uint32_t version)
{
	o->version = version;
	buf_put(&o->text, STR("{\"name\":"));
	buf_put_json(&o->text, o->ask.name);
	buf_putf(&o->text, ",\"version\":%u", version);
}

static enum status
read_value(const struct op *o, uint8_t kind, struct secret *ret_s)
{
	enum status st = value_read(o->value, VAULT_VALUE_MAX, ret_s);

	if (st == ST_OK && !value_is_good(ret_s, (enum vault_kind)kind))
		return ST_BAD_SECRET;
	return st;
}

static enum status
op_put(struct op *o)
{
	CLEANUP(secret_done) struct secret value = { 0 };
	const struct table_entry e = { .tenant = o->ask.tenant,
				       .name = o->ask.name,
				       .kind = o->ask.kind };
	const struct table_version v = { .number = 1,
					 .created = vault_now(),
					 .expires = o->ask.expires };
	struct grants g = { .n = 0 };

	/* Names that mean another's secret would never be looked up here. */
	if (op_find(o) != NULL || sources_is_name(e.name) ||
	    image_is_store_name(o->keeper->role.image, e.name))
		return ST_CONFLICT;
	enum status st = read_value(o, e.kind, &value);
	struct safe *safe = st == ST_OK ? vault_begin(o->keeper->vault, &st) : NULL;
	if (safe == NULL)
		return st;
	find_grants(o, &g);
	st = safe_purge(safe, v.created);
	if (st == ST_OK)
		st = safe_add_secret(safe, &e);
	if (st == ST_OK)
		st = safe_add_version(safe, &e, &v,
				      str_of(secret_bytes(&value), secret_len(&value)));
	if (st == ST_OK)
		st = permit_all(safe, &e, &g, false);
	st = vault_end(o->keeper->vault, st);
	if (st != ST_OK)
		return st;
	put_version(o, 1);
	buf_putc(&o->text, ',');
	op_put_grants(&o->text, g.of, g.n);
	buf_putc(&o->text, '}');
	return ST_OK;
}

static enum status
op_rotate(struct op *o)
{
	CLEANUP(secret_done) struct secret value = { 0 };
	const struct table_entry *e = op_find(o);
	struct table_version v = { .created = vault_now(), .expires = o->ask.expires };

	if (e == NULL)
		return ST_NO_SECRET;
	v.number = table_newest(e)->number + 1;
	enum status st = read_value(o, e->kind, &value);
	struct safe *safe = st == ST_OK ? vault_begin(o->keeper->vault, &st) : NULL;
	if (safe == NULL)
		return st;
	st = safe_purge(safe, v.created);
	if (st == ST_OK)
		st = safe_add_version(safe, e, &v,
				      str_of(secret_bytes(&value), secret_len(&value)));
	if (st == ST_OK)
		st = safe_retire(safe, e, v.number,
				 o->ask.seconds == 0 ? 0 : v.created + o->ask.seconds);
	st = vault_end(o->keeper->vault, st);
	if (st != ST_OK)
		return st;
	put_version(o, v.number);
	buf_putc(&o->text, '}');
	return ST_OK;
}

static enum status
op_rm(struct op *o)
{
	const struct table_entry *e = op_find(o);
	enum status st = ST_NO_SECRET;
	struct safe *safe = e == NULL ? NULL : vault_begin(o->keeper->vault, &st);

	return safe == NULL ? st : vault_end(o->keeper->vault, safe_remove(safe, e));
}

static enum status
change_grants(struct op *o, bool is_taken_back)
{
	const struct table_entry *e = op_find(o);
	struct grants g = { .n = 0 };
	enum status st = ST_NO_SECRET;

	find_grants(o, &g);
	if (e != NULL && g.n == 0)
		st = ST_NOT_FOUND; /* no connector declares it */
	struct safe *safe =
		e == NULL || g.n == 0 ? NULL : vault_begin(o->keeper->vault, &st);
	if (safe == NULL)
		return st;
	return vault_end(o->keeper->vault, permit_all(safe, e, &g, is_taken_back));
}

static enum status
op_grant(struct op *o)
{
	return change_grants(o, false);
}

static enum status
op_ungrant(struct op *o)
{
	return change_grants(o, true);
}

/* Keys and the CA. */

static enum status
op_init(struct op *o)
{
	return o->ask.kind < VAULT_KEY_COUNT
		       ? vault_init(o->keeper->vault, (enum vault_key)o->ask.kind,
				    o->value)
		       : ST_BAD_REQUEST;
}

static enum status
op_rekey(struct op *o)
{
	return o->ask.kind < VAULT_KEY_COUNT
		       ? vault_rekey(o->keeper->vault, (enum vault_key)o->ask.kind,
				     o->value)
		       : ST_BAD_REQUEST;
}

static enum status
op_unseal(struct op *o)
{
	return vault_unseal(o->keeper->vault, o->value);
}

static enum status
op_seal(struct op *o)
{
	return vault_seal(o->keeper->vault);
}

static enum status
op_adopt(struct op *o)
{
	return vault_adopt(o->keeper->vault);
}

static enum status
op_ca_export(struct op *o)
{
	return vault_put_cas(o->keeper->vault, &o->text);
}

static enum status
op_ca_rotate(struct op *o)
{
	enum status st = vault_rotate_ca(o->keeper->vault, o->ask.seconds);

	return st == ST_OK ? op_ca_export(o) : st;
}

/* Each of them. */

enum { NEEDS_OPEN = 1, NEEDS_LEDGER = 2, TELLS = 4 };

static const struct {
	enum status (*fn)(struct op *o);
	unsigned flags;
} ops[VAULT_OP_COUNT] = {
	[VAULT_OP_STATUS] = { op_status, 0 },
	[VAULT_OP_INIT] = { op_init, NEEDS_LEDGER | TELLS },
	[VAULT_OP_PUT] = { op_put, NEEDS_OPEN | NEEDS_LEDGER | TELLS },
	[VAULT_OP_ROTATE] = { op_rotate, NEEDS_OPEN | NEEDS_LEDGER | TELLS },
	/* Each time that a sandbox shows its token. */
	[VAULT_OP_DIGEST] = { op_digest, NEEDS_OPEN },
	[VAULT_OP_LIST] = { op_list, NEEDS_OPEN | NEEDS_LEDGER | TELLS },
	[VAULT_OP_SOURCES] = { op_sources, NEEDS_LEDGER | TELLS },
	[VAULT_OP_RM] = { op_rm, NEEDS_OPEN | NEEDS_LEDGER | TELLS },
	[VAULT_OP_GRANT] = { op_grant, NEEDS_OPEN | NEEDS_LEDGER | TELLS },
	[VAULT_OP_UNGRANT] = { op_ungrant, NEEDS_OPEN | NEEDS_LEDGER | TELLS },
	[VAULT_OP_REKEY] = { op_rekey, NEEDS_OPEN | NEEDS_LEDGER | TELLS },
	[VAULT_OP_UNSEAL] = { op_unseal, NEEDS_LEDGER | TELLS },
	[VAULT_OP_SEAL] = { op_seal, TELLS },
	[VAULT_OP_CA_EXPORT] = { op_ca_export, NEEDS_OPEN },
	[VAULT_OP_CA_ROTATE] = { op_ca_rotate, NEEDS_OPEN | NEEDS_LEDGER | TELLS },
	[VAULT_OP_ADOPT] = { op_adopt, NEEDS_LEDGER | TELLS },
};

static enum status
run(struct op *o)
{
	unsigned flags = ops[o->ask.op].flags;

	if ((flags & NEEDS_LEDGER) != 0 && !role_has_ledger(&o->keeper->role))
		return ST_NO_LEDGER;
	enum status st =
		(flags & NEEDS_OPEN) != 0 ? vault_is_open(o->keeper->vault) : ST_OK;
	return st == ST_OK ? ops[o->ask.op].fn(o) : st;
}

/* change: how far the vault has come; a vault that is behind its last row here was put
 * back from a copy (docs/THREATS.md). */
static void
write_row(const struct op *o, enum status reason)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct keeper *k = o->keeper;
	const struct safe_head *head = vault_head(k->vault);
	struct row row = role_row_begin(&k->role, ROW_VAULT, NULL);

	buf_init(&b, DETAIL_MAX);
	buf_put(&b, str_from(vault_op_word(o->ask.op)));
	if (o->ask.name.n > 0)
		buf_putc(&b, ' ');
	buf_put(&b, o->ask.name);
	if (o->ask.tenant.n > 0)
		buf_putf(&b, " of %.*s", STR_ARG(o->ask.tenant));
	if (o->version != 0)
		buf_putf(&b, " version %u", o->version);
	if (o->ask.connector.n > 0)
		buf_putf(&b, " for %.*s", STR_ARG(o->ask.connector));
	if (head != NULL)
		buf_putf(&b, ", change %llu", (unsigned long long)head->change);
	row.reason = reason;
	row.detail = str_of(b.p, b.len);
	enum status st = role_row(&k->role, &row);
	if (st != ST_OK)
		log_error(&k->role.log, "a row of the vault: %s", status_code(st));
}

static enum status
answer(struct op *o, struct keeper_line *line, uint32_t seq, enum status st)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	const struct ask_msg m = { .ask = ASK_VAULT, .seq = seq };
	struct str text = STR("");

	if (st == ST_OK)
		st = buf_finish(&o->text, &text);
	if (ops[o->ask.op].flags & TELLS)
		write_row(o, st);
	if (line == NULL)
		return ST_OK;
	buf_init(&b, TEXT_MAX + 8);
	buf_put_u16(&b, (uint16_t)st);
	wire_put_str(&b, st == ST_OK ? text : STR(""));
	return keeper_answer(line, &m, &b, -1);
}

enum status
keeper_vault(struct keeper *k, struct keeper_line *line, struct ask_msg *m)
{
	struct op o = { .keeper = k, .value = m->fds_n > 0 ? m->fds[0] : -1 };
	enum status st = vault_ask_get(m->body, &o.ask);

	if (st != ST_OK)
		return st;
	enum vault_value value = vault_op_value(o.ask.op);
	if ((value == VAULT_NONE && m->fds_n > 0) ||
	    (value == VAULT_MUST && m->fds_n == 0 && !m->lost_fds))
		return ST_BAD_MESSAGE;
	buf_init(&o.text, TEXT_MAX);
	st = m->lost_fds ? ST_NO_FILES : run(&o);
	if (st == ST_AGAIN) {
		k->waiting = (struct keeper_waiting){ line, m->seq, o.ask.op };
		st = ST_OK;
	} else {
		st = answer(&o, line, m->seq, st);
	}
	buf_done(&o.text);
	return st;
}

void
keeper_vault_finish(struct keeper *k)
{
	struct op o = { .keeper = k, .ask = { .op = k->waiting.op }, .value = -1 };
	struct keeper_line *line = k->waiting.line;
	enum status st = vault_finish(k->vault);

	k->waiting.line = NULL;
	buf_init(&o.text, TEXT_MAX);
	st = answer(&o, line, k->waiting.seq, st);
	if (st != ST_OK)
		log_error(&k->role.log, "an answer to control: %s", status_code(st));
	buf_done(&o.text);
}

/* A connector without its credential would refuse all that it is asked. */
static enum status
check_connector(struct keeper *k, const struct image *im,
		const struct image_connector *c)
{
	const struct table *t = vault_table(k->vault);
	struct str secret = STR(""), name = image_str(im, c->name);
	struct permit p = { .name_n = 0 };

	for (size_t i = 0; permit_declares(im, c, i, &secret); i++) {
		/* Those of users are granted one by one. */
		if (secret.n == 0 || !permit_name(secret, STR(""), &p))
			continue;
		const struct table_entry *e = table_find(t, image_str(im, c->tenant),
							 str_of(p.name, p.name_n));
		if (e == NULL || table_is_granted(e, name, STR("")))
			continue;
		log_error(&k->role.log,
			  "connector %.*s: secret %.*s is not granted to it: sandgate "
			  "vault grant",
			  STR_ARG(name), STR_ARG(secret));
		return ST_SECRET_DENIED;
	}
	return ST_OK;
}

enum status
keeper_check_grants(struct keeper *k, const struct image *im)
{
	size_t n;
	const struct image_connector *c = image_connectors(im, &n);
	enum status st = ST_OK;

	if (k->vault == NULL || vault_is_open(k->vault) != ST_OK)
		return ST_OK;
	for (size_t i = 0; i < n && st == ST_OK; i++)
		st = check_connector(k, im, &c[i]);
	return st;
}
