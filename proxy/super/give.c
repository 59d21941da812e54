#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/super/super.h"

/* Who talks to whom: asks.def has the sentences. */
static const enum role lines[][2] = {
	{ ROLE_WORKER, ROLE_DIALER },     { ROLE_WORKER, ROLE_CONTROL },
	{ ROLE_WORKER, ROLE_LEDGER },     { ROLE_WORKER, ROLE_KEEPER },
	{ ROLE_WORKER, ROLE_CONNECTOR },  { ROLE_DNS, ROLE_DIALER },
	{ ROLE_CONTROL, ROLE_DIALER },    { ROLE_CONTROL, ROLE_KEEPER },
	{ ROLE_CONTROL, ROLE_CONNECTOR }, { ROLE_CONNECTOR, ROLE_DIALER },
	{ ROLE_CONNECTOR, ROLE_KEEPER },  { ROLE_LEDGER, ROLE_KEEPER },
	{ ROLE_CONTROL, ROLE_LOCATOR },
};

enum status
give(struct slot *slot, enum give kind, uint32_t index, const char *text,
     const int *fds, size_t fds_n)
{
	CLEANUP(buf_done) struct buf b = { 0 };
	struct str body;

	buf_init(&b, 1024);
	give_put(&b, kind, index, str_from(text));
	if (buf_finish(&b, &body) != ST_OK)
		return ST_TOO_BIG;
	return slot->line == NULL ? ST_END
				  : ask_tell(slot->line, ASK_GIVE, body, fds, fds_n);
}

/* Lines. */

static bool
are_linked(enum role a, enum role b)
{
	for (size_t i = 0; i < COUNT_OF(lines); i++) {
		if ((lines[i][0] == a && lines[i][1] == b) ||
		    (lines[i][0] == b && lines[i][1] == a))
			return true;
	}
	return false;
}

static enum status
give_end(struct slot *to, const struct slot *peer, int fd)
{
	/* A connector is leased and dialled what its group may have. */
	bool by_group = peer->role == ROLE_CONNECTOR &&
			(to->role == ROLE_WORKER || to->role == ROLE_KEEPER ||
			 to->role == ROLE_DIALER);
	bool by_both = peer->role == ROLE_CONNECTOR && to->role == ROLE_CONTROL;
	char text[sizeof peer->group + 8];

	/* And knows by its keeper's line whose sources of secrets it reads. */
	bool is_own = to->role == ROLE_CONNECTOR && peer->role == ROLE_KEEPER;
	const char *group = is_own ? to->group : peer->group;

	(void)snprintf(text, sizeof text, "%u%s%s", peer->index, by_both ? ":" : "",
		       by_both ? peer->group : "");
	return give(to, GIVE_LINE, peer->role, by_group || is_own ? group : text, &fd,
		    1);
}

/* The peer may be dying: then its own restart makes the next line. */
static enum status
give_line(struct slot *slot, struct slot *peer)
{
	enum status st;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ST_SYSTEM;
	st = give_end(slot, peer, pair[0]);
	if (st == ST_OK && give_end(peer, slot, pair[1]) != ST_OK)
		log_info(&slot->super->log, "%s: not there for %s", peer->name,
			 slot->name);
	(void)close(pair[0]);
	(void)close(pair[1]);
	return st;
}

void
give_again(struct slot *worker, struct ask_msg *m)
{
	struct super *s = worker->super;
	struct wire w = wire_from(m->body);
	struct slot *peer = slot_of_group(s, wire_str(&w));

	if (wire_end(&w) != ST_OK) {
		log_error(&s->log, "%s: REJOIN: %s", worker->name,
			  status_code(ST_BAD_MESSAGE));
		spawn_kill(worker);
		return;
	}
	if (peer == NULL || peer->line == NULL || peer->state != SLOT_SERVING)
		return;
	log_info(&s->log, "%s: a new line to %s", worker->name, peer->name);
	/* Asked again if it does not come. */
	(void)!give_line(worker, peer);
}

static enum status
give_lines(struct slot *slot)
{
	struct super *s = slot->super;
	enum status st = ST_OK;

	for (size_t i = 1; i < s->slots_n && st == ST_OK; i++) {
		struct slot *peer = &s->slots[i];
		if (peer->line != NULL && are_linked(slot->role, peer->role))
			st = give_line(slot, peer);
	}
	return st;
}

/* Memory that outlives the role. */

static enum status
give_memory(struct slot *slot)
{
	struct super *s = slot->super;
	const int ring[] = { slot->ring, slot->bell };
	enum status st =
		give(slot, GIVE_STATS, slot->index, slot->name, &slot->stats, 1);

	if (st == ST_OK && slot_writes_rows(slot->role))
		st = give(slot, GIVE_RING, slot->index, "", ring, 2);
	if (st == ST_OK && (slot->role == ROLE_WORKER || slot->role == ROLE_DNS))
		st = give(slot, GIVE_SYNTH, 0, "",
			  &s->synth_fds[slot->role == ROLE_DNS ? 0 : 1], 1);
	return st;
}

static enum status
give_rings(struct slot *ledger)
{
	struct super *s = ledger->super;
	enum status st = ST_OK;

	for (size_t i = 0; i < s->slots_n && st == ST_OK; i++) {
		const struct slot *w = &s->slots[i];
		const int ring[] = { w->ring, w->bell };
		if (w->ring >= 0)
			st = give(ledger, GIVE_RINGS, w->index, w->name, ring, 2);
	}
	return st;
}

static enum status
give_all_stats(struct slot *control)
{
	struct super *s = control->super;
	enum status st = ST_OK;

	for (size_t i = 0; i < s->slots_n && st == ST_OK; i++) {
		const struct slot *other = &s->slots[i];
		if (other != control)
			st = give(control, GIVE_STATS, other->index, other->name,
				  &other->stats, 1);
	}
	return st;
}

void
give_new_slot(struct super *s, const struct slot *slot)
{
	struct slot *ledger = slot_of(s, ROLE_LEDGER),
		    *control = slot_of(s, ROLE_CONTROL);
	const int ring[] = { slot->ring, slot->bell };

	/* One that is dying is given all of them when it starts again. */
	if (ledger->line != NULL &&
	    give(ledger, GIVE_RINGS, slot->index, slot->name, ring, 2) != ST_OK)
		spawn_kill(ledger);
	if (control->line != NULL && give(control, GIVE_STATS, slot->index, slot->name,
					  &slot->stats, 1) != ST_OK)
		spawn_kill(control);
}

static bool
has_state(enum role r)
{
	return r == ROLE_LEDGER || r == ROLE_KEEPER || r == ROLE_CONTROL;
}

/* The role's own directory below the state directory.  The ledger's is locked while it
 * runs, which may be longer than we do. */
static enum status
give_state(struct slot *slot)
{
	CLEANUP(buf_done) struct buf path = { 0 };
	struct super *s = slot->super;
	enum status st;
	int fd;

	st = state_open_for(s, slot->role, &fd);
	if (st != ST_OK)
		return st;
	if (slot->role == ROLE_LEDGER && flock(fd, LOCK_EX | LOCK_NB) < 0)
		st = ST_CONFLICT;
	buf_init(&path, 4096);
	buf_putf(&path, "%s/%s", buf_cstr(&s->state_dir), slot->name);
	if (st == ST_OK)
		st = buf_cstr(&path) == NULL
			     ? ST_TOO_BIG
			     : give(slot, GIVE_STATE, 0, buf_cstr(&path), &fd, 1);
	(void)close(fd);
	return st;
}

/* Where the vault's master key is; false: not in a file of the operator's.  A credential
 * lies where systemd says (systemd.exec(5)). */
static bool
key_path(struct str text, struct buf *path)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");

	if (str_starts(text, STR("file:"))) {
		buf_put(path, str_skip(text, 5));
		return true;
	}
	if (!str_starts(text, STR("credential:")))
		return false;
	buf_putf(path, "%s/", dir == NULL ? "" : dir);
	buf_put(path, str_skip(text, 11));
	return true;
}

/* The vault's unsealed key outlives the keeper here, where nobody can read it. */
static enum status
give_page(struct slot *keeper)
{
	return give(keeper, GIVE_PAGE, keeper->page_is_plain ? 1 : 0, "", &keeper->page,
		    1);
}

/* A file that can't be opened is not given; the keeper then says what it lacks. */
static enum status
give_key(struct slot *keeper)
{
	struct super *s = keeper->super;
	CLEANUP(buf_done) struct buf path = { 0 };
	struct str text = image_text(s->policy.image, OPT_VAULT_MASTER_KEY);

	buf_init(&path, 4096);
	if (!key_path(text, &path))
		return ST_OK;
	int fd = buf_cstr(&path) == NULL
			 ? -1
			 : open(buf_cstr(&path), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0) {
		log_error(&s->log, "vault.master_key %.*s: %s", STR_ARG(text),
			  strerror(errno));
		return ST_OK;
	}
	enum status st = give(keeper, GIVE_KEY, 0, "", &fd, 1);
	(void)close(fd);
	return st;
}

static enum status
give_keeper(struct slot *keeper)
{
	enum status st = give_page(keeper);

	if (st == ST_OK)
		st = give_key(keeper);
	return st == ST_OK ? sources_give(keeper, keeper->super->policy.image) : st;
}

/* Sockets. */

enum status
give_listeners(struct slot *slot, const struct listeners *from)
{
	enum status st = ST_OK;
	size_t worker = slot->index - slot->super->first_worker;

	for (uint32_t i = 0; i < from->n && st == ST_OK; i++) {
		const struct listening *l = &from->of[i];
		if (l->kind == LISTENER_DNS && slot->role == ROLE_DNS) {
			st = give(slot, GIVE_LISTENER, i, "udp", &l->fds[0], 1);
			if (st == ST_OK)
				st = give(slot, GIVE_LISTENER, i, "tcp", &l->fds[1], 1);
		} else if (l->kind != LISTENER_DNS && slot->role == ROLE_WORKER) {
			need(worker < l->fds_n);
			st = give(slot, GIVE_LISTENER, i, "tcp", &l->fds[worker], 1);
		}
	}
	return st;
}

void
give_forget(struct super *s)
{
	for (size_t i = 0; i < s->slots_n; i++) {
		struct slot *slot = &s->slots[i];
		/* One that is starting has none yet; one whose line fails ends. */
		if (slot->role == ROLE_WORKER && slot->state == SLOT_SERVING &&
		    give(slot, GIVE_FORGET, 0, "", NULL, 0) != ST_OK)
			spawn_kill(slot);
	}
}

enum status
give_all(struct slot *slot)
{
	struct super *s = slot->super;
	enum status st = give(slot, GIVE_SLOT, slot->index, slot->name, NULL, 0);

	if (st == ST_OK)
		st = give_memory(slot);
	if (st == ST_OK)
		st = shapes_give(slot);
	if (st == ST_OK && slot->role == ROLE_LEDGER)
		st = give_rings(slot);
	if (st == ST_OK && slot->role == ROLE_CONTROL)
		st = give_all_stats(slot);
	if (st == ST_OK && has_state(slot->role))
		st = give_state(slot);
	if (st == ST_OK && slot->role == ROLE_KEEPER)
		st = give_keeper(slot);
	if (st == ST_OK && slot->role == ROLE_CONTROL)
		st = give(slot, GIVE_ADMIN, 0, s->admin_is_unix ? "unix" : "tcp",
			  &s->admin_fd, 1);
	if (st == ST_OK)
		st = give_listeners(slot, &s->listeners);
	return st == ST_OK ? give_lines(slot) : st;
}
