#ifndef PROXY_CONTROL_BRAIN_SCHEMA_H
#define PROXY_CONTROL_BRAIN_SCHEMA_H
/*
 * brain_schema: the tables of exec.db, version 2.  What must never be is forbidden here, not
 * by the code that writes: a row that would give a used sandbox to somebody else can't be
 * written.  Numbers are those of brain_store.h; brain_store.c checks that they are.
 *
 * Texts are BLOBs, as sql_bytes() binds them.  An absent text is x'', an absent time 0.  NULL
 * stands where a constraint is not to hold: no upstream yet, no owner (warm).
 *
 * Version 1 had no snapshot_ms, and as freed what was not measured.  A file of it becomes one of these by brain_upgrade, which gives
 * word for word the same text; a later change is to add its own step.
 *
 * In pieces: C promises no longer strings.
 */
/* clang-format off */
static const char *const brain_schema[] = {
	/* Whose each sandbox of a server is or was.  It remains when sandboxes go on to another
	 * upstream, or are forgotten. */
	"CREATE TABLE owned("
	" server BLOB NOT NULL, upstream BLOB NOT NULL, tenant BLOB NOT NULL,"
	" user BLOB NOT NULL CHECK(length(user) > 0), since_s INTEGER NOT NULL,"
	" PRIMARY KEY(server, upstream), UNIQUE(server, upstream, tenant, user)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX owned_since ON owned(since_s);"
	"CREATE TRIGGER owned_stays BEFORE UPDATE ON owned BEGIN"
	" SELECT RAISE(ABORT, 'who owned a sandbox does not change'); END;",

	"CREATE TABLE sandboxes("
	" n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE CHECK(length(id) = 29),"
	" server BLOB NOT NULL, upstream BLOB CHECK(length(upstream) > 0 AND length(server) > 0),"
	" tenant BLOB, user BLOB CHECK(length(user) > 0),"
	" agent BLOB NOT NULL, session BLOB NOT NULL, task BLOB NOT NULL,"
	" on_behalf_of BLOB NOT NULL,"
	" tier INTEGER NOT NULL CHECK(tier BETWEEN 0 AND 1),"
	" state INTEGER NOT NULL CHECK(state BETWEEN 0 AND 7),"
	" reuse INTEGER NOT NULL CHECK(reuse BETWEEN 0 AND 3),"
	" reuse_key BLOB NOT NULL CHECK((length(reuse_key) > 0) = (reuse > 0)),"
	" shape BLOB NOT NULL CHECK(length(shape) > 0),"
	" created_s INTEGER NOT NULL CHECK(created_s >= 0),"
	" expires_s INTEGER NOT NULL CHECK(expires_s >= 0),"
	" used_s INTEGER NOT NULL CHECK(used_s >= 0),"
	" paused_s INTEGER NOT NULL DEFAULT 0, gone_s INTEGER NOT NULL DEFAULT 0,"
	" snapshot BLOB NOT NULL DEFAULT x'', request BLOB NOT NULL,"
	" metadata BLOB NOT NULL DEFAULT x'', policy BLOB NOT NULL DEFAULT x'',"
	" endpoints BLOB NOT NULL DEFAULT x'',"
	" create_ms INTEGER NOT NULL DEFAULT 0, pause_ms INTEGER NOT NULL DEFAULT 0,"
	" resume_ms INTEGER NOT NULL DEFAULT 0,"
	" snapshot_ms INTEGER NOT NULL DEFAULT 0, freed INTEGER CHECK(freed >= 0),"
	" CHECK((tenant IS NULL) = (user IS NULL)),"
	" CHECK(user IS NOT NULL OR (reuse = 0 AND state NOT IN (1, 3, 4))),"
	" CHECK(upstream IS NOT NULL OR state NOT IN (2, 3)),"
	" CHECK(state <> 4 OR length(snapshot) > 0),"
	" UNIQUE(server, upstream),"
	" FOREIGN KEY(server, upstream, tenant, user)"
	" REFERENCES owned(server, upstream, tenant, user)"
	") STRICT;"
	"CREATE UNIQUE INDEX sandboxes_reused ON"
	" sandboxes(tenant, user, reuse, reuse_key, shape, tier)"
	" WHERE reuse > 0 AND state < 5;"
	"CREATE INDEX sandboxes_warm ON sandboxes(shape, tier, state, n) WHERE user IS NULL;"
	"CREATE INDEX sandboxes_listed ON sandboxes(tenant, user, created_s, n, state)"
	" WHERE user IS NOT NULL AND state < 7;"
	"CREATE INDEX sandboxes_expiring ON sandboxes(expires_s)"
	" WHERE expires_s > 0 AND state < 5;"
	"CREATE INDEX sandboxes_idle ON sandboxes(state, used_s)"
	" WHERE user IS NOT NULL AND state < 5;"
	"CREATE INDEX sandboxes_walked ON sandboxes(id) WHERE state < 7;"
	"CREATE INDEX sandboxes_gone ON sandboxes(gone_s) WHERE state = 7;"
	"CREATE TRIGGER sandboxes_keep BEFORE UPDATE OF n, id, tenant, user ON sandboxes"
	" WHEN NEW.n <> OLD.n OR NEW.id <> OLD.id OR (OLD.user IS NOT NULL AND"
	" (NEW.user IS NOT OLD.user OR NEW.tenant IS NOT OLD.tenant)) BEGIN"
	" SELECT RAISE(ABORT, 'a sandbox keeps its owner'); END;"
	"CREATE TRIGGER sandboxes_ended BEFORE UPDATE OF state ON sandboxes"
	" WHEN OLD.state = 7 AND NEW.state <> 7 BEGIN"
	" SELECT RAISE(ABORT, 'a sandbox that is gone stays so'); END;"
	"CREATE TRIGGER sandboxes_forgotten BEFORE DELETE ON sandboxes"
	" WHEN OLD.state <> 7 BEGIN"
	" SELECT RAISE(ABORT, 'a sandbox that is not gone is not forgotten'); END;"
	/* Two, since one for both is not of SQL's. */
	"CREATE TRIGGER sandboxes_unused_new BEFORE INSERT ON sandboxes"
	" WHEN NEW.user IS NULL AND EXISTS(SELECT 1 FROM owned"
	" WHERE server = NEW.server AND upstream = NEW.upstream) BEGIN"
	" SELECT RAISE(ABORT, 'a used sandbox is never warm'); END;"
	"CREATE TRIGGER sandboxes_unused BEFORE UPDATE OF server, upstream, user ON sandboxes"
	" WHEN NEW.user IS NULL AND EXISTS(SELECT 1 FROM owned"
	" WHERE server = NEW.server AND upstream = NEW.upstream) BEGIN"
	" SELECT RAISE(ABORT, 'a used sandbox is never warm'); END;",

	"CREATE TABLE labels("
	" sandbox INTEGER NOT NULL REFERENCES sandboxes(n) ON DELETE CASCADE,"
	" key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY(sandbox, key)"
	") STRICT, WITHOUT ROWID;",

	"CREATE TABLE idempotency("
	" tenant BLOB NOT NULL, user BLOB NOT NULL CHECK(length(user) > 0),"
	" key BLOB NOT NULL CHECK(length(key) > 0),"
	" hash BLOB NOT NULL CHECK(length(hash) = 32), sandbox BLOB NOT NULL,"
	" expires_s INTEGER NOT NULL, PRIMARY KEY(tenant, user, key)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX idempotency_expires ON idempotency(expires_s);",

	"CREATE TABLE snapshots("
	" n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE CHECK(length(id) = 29),"
	" server BLOB NOT NULL CHECK(length(server) > 0),"
	" upstream BLOB NOT NULL CHECK(length(upstream) > 0),"
	" sandbox BLOB NOT NULL, name BLOB NOT NULL,"
	" tenant BLOB NOT NULL, user BLOB NOT NULL CHECK(length(user) > 0),"
	" tier INTEGER NOT NULL CHECK(tier BETWEEN 0 AND 1), shape BLOB NOT NULL,"
	" info BLOB NOT NULL, created_s INTEGER NOT NULL CHECK(created_s >= 0),"
	" UNIQUE(server, upstream)"
	") STRICT;"
	"CREATE INDEX snapshots_listed ON snapshots(tenant, user, created_s, n);"
	"CREATE TRIGGER snapshots_keep BEFORE UPDATE OF id, server, upstream, tenant, user"
	" ON snapshots BEGIN SELECT RAISE(ABORT, 'a snapshot keeps its owner'); END;",

	"CREATE TABLE settings(name BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)"
	" STRICT, WITHOUT ROWID;",

	/* Of callers: keys.c.  hash: SHA-256 of the key. */
	"CREATE TABLE keys("
	" n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE CHECK(length(id) > 0),"
	" hash BLOB NOT NULL UNIQUE CHECK(length(hash) = 32),"
	" tenant BLOB NOT NULL, user BLOB NOT NULL CHECK(length(user) > 0),"
	" agent BLOB NOT NULL, scopes INTEGER NOT NULL CHECK(scopes >= 0),"
	" may_delegate INTEGER NOT NULL CHECK(may_delegate IN (0, 1)),"
	" created_s INTEGER NOT NULL, expires_s INTEGER NOT NULL DEFAULT 0,"
	" revoked_s INTEGER NOT NULL DEFAULT 0, last_used_s INTEGER NOT NULL DEFAULT 0,"
	" label BLOB NOT NULL DEFAULT x''"
	") STRICT;"
	"CREATE TRIGGER keys_stay_revoked BEFORE UPDATE OF revoked_s, hash, tenant, user, agent,"
	" scopes, may_delegate ON keys WHEN OLD.revoked_s <> 0 OR NEW.hash <> OLD.hash"
	" OR NEW.tenant <> OLD.tenant OR NEW.user <> OLD.user BEGIN"
	" SELECT RAISE(ABORT, 'a key stays as it was given out'); END;",

	/* What a person was asked: approvals.c.  state: pending, allowed, denied, expired,
	 * cancelled.  scope: once, session, always. */
	"CREATE TABLE approvals("
	" id INTEGER PRIMARY KEY, tenant BLOB NOT NULL,"
	" user BLOB NOT NULL CHECK(length(user) > 0), agent BLOB NOT NULL,"
	" on_behalf_of BLOB NOT NULL, session BLOB NOT NULL, sandbox BLOB NOT NULL,"
	" what BLOB NOT NULL, why BLOB NOT NULL, text BLOB NOT NULL,"
	" level INTEGER NOT NULL CHECK(level BETWEEN 0 AND 2),"
	" hash BLOB NOT NULL CHECK(length(hash) = 32),"
	" state INTEGER NOT NULL DEFAULT 0 CHECK(state BETWEEN 0 AND 4),"
	" scope INTEGER NOT NULL DEFAULT 0 CHECK(scope BETWEEN 0 AND 2),"
	" decided_by BLOB NOT NULL DEFAULT x'', note BLOB NOT NULL DEFAULT x'',"
	" asked_s INTEGER NOT NULL, deadline_s INTEGER NOT NULL,"
	" ended_s INTEGER NOT NULL DEFAULT 0,"
	" CHECK(state <> 1 OR (length(decided_by) > 0 AND decided_by <> user"
	" AND decided_by <> on_behalf_of))"
	") STRICT;"
	"CREATE INDEX approvals_pending ON approvals(tenant, id) WHERE state = 0;"
	"CREATE TRIGGER approvals_end_once BEFORE UPDATE OF state ON approvals"
	" WHEN OLD.state <> 0 BEGIN"
	" SELECT RAISE(ABORT, 'what is decided stays so'); END;",

	/* What passes unasked from then on.  session: x'' unless scope is session. */
	"CREATE TABLE approval_grants("
	" id INTEGER PRIMARY KEY, approval INTEGER NOT NULL, tenant BLOB NOT NULL,"
	" user BLOB NOT NULL CHECK(length(user) > 0), on_behalf_of BLOB NOT NULL,"
	" scope INTEGER NOT NULL CHECK(scope BETWEEN 1 AND 2),"
	" session BLOB NOT NULL CHECK((length(session) > 0) = (scope = 1)),"
	" what BLOB NOT NULL, hash BLOB NOT NULL CHECK(length(hash) = 32),"
	" text BLOB NOT NULL, granted_by BLOB NOT NULL CHECK(granted_by <> user"
	" AND granted_by <> on_behalf_of),"
	" created_s INTEGER NOT NULL, expires_s INTEGER NOT NULL DEFAULT 0,"
	" revoked_s INTEGER NOT NULL DEFAULT 0"
	") STRICT;"
	"CREATE INDEX approval_grants_for ON approval_grants(tenant, user, hash)"
	" WHERE revoked_s = 0;",

	"PRAGMA application_id=1396786277;"
	"PRAGMA user_version=2;",
};

static const char brain_upgrade[] =
	"ALTER TABLE sandboxes DROP COLUMN freed;"
	"ALTER TABLE sandboxes ADD COLUMN snapshot_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN freed INTEGER CHECK(freed >= 0);"
	"PRAGMA user_version=2;";
/* clang-format on */

#endif
