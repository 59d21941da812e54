#ifndef PROXY_SUPER_SUPER_H
#define PROXY_SUPER_SUPER_H
/*
 * super: the process that starts the others.  It parses nothing but checked images and
 * the messages of its own roles, and holds a duplicate of every socket that sandboxes
 * connect to, of every row ring and of every table of counters, so that a role which
 * dies starts again with exactly what it had.
 *
 *	compile -> image -> slots, listeners -> spawn all -> give
 *	        -> PREPARE -> COMMIT -> START
 *
 * A slot is a place for one process: slot 0 is super itself.  A slot's number is the
 * number of its ring and counters and part of the ids of its rows.
 */
#include <sys/types.h>

#include "conf/who.h"
#include "proxy/base/list.h"
#include "proxy/base/log.h"
#include "proxy/io/role.h"

struct super;

enum {
	SUPER_SLOTS = 136, /* of them at most 64 workers and 64 connectors */
	SUPER_WORKERS = 64,
	SUPER_CONNECTORS = 64,
	SUPER_LISTENERS = 64,
	SUPER_ATTACHED = 4096,
	/* What all of them are, told in one go to a role that starts. */
	SUPER_ATTACHED_BYTES = 16 * 1024 * 1024,
	SUPER_POLICY_FDS = 4, /* image, two databases, roots: conf/compile.h */
	SUPER_MESSAGE_MAX = 32000,
};

enum slot_state {
	SLOT_DOWN,     /* no process; its timer may be set to start one */
	SLOT_STARTING, /* has been given its things, has not answered START */
	SLOT_SERVING,
};

struct slot {
	struct super *super;
	enum role role;
	enum slot_state state;
	uint8_t index;
	char name[16];
	char group[STR_NAME_MAX + 1]; /* of a connector: whom it works for */
	pid_t pid;                    /* 0: none */
	struct ask_line *line;        /* NULL: none */
	int ring, bell, stats;        /* -1: this role has none */
	int page;                     /* of the keeper, GIVE_PAGE; else -1 */
	bool page_is_plain;
	uint64_t generation; /* of the policy it has committed or was started with */
	uint64_t started_ms;
	unsigned restarts, failures; /* in all; in a row */
	bool is_stopping;            /* its death is wanted: no restart */
	bool is_idle; /* a connector whose group no policy names: not started */
	bool is_drained;
	bool is_asked; /* PREPARE of the running reload is open */
	struct loop_timer again;
	struct jail_report jail; /* as it told with START */
};

struct policy { /* one generation */
	uint64_t generation;
	struct image *image;
	int fds[SUPER_POLICY_FDS]; /* -1: none */
};

struct listening { /* one listener of the image */
	struct addr addr;
	uint16_t port;
	uint8_t kind, tproxy;
	uint32_t mark;          /* SO_MARK; 0: none */
	int fds[SUPER_WORKERS]; /* one per worker; dns: udp, tcp */
	size_t fds_n;
	bool is_kept; /* while two generations are compared: also in the other one */
};

struct listeners {
	struct listening of[SUPER_LISTENERS]; /* same index as in the image */
	size_t n;
};

/* A sandbox whose sockets were made inside its own namespace, or one that was enrolled by
 * the addresses that it comes from. */
struct attached {
	struct list link;
	uint32_t handle;
	uint64_t cookie; /* 0: enrolled */
	/* Parts of the ask's body, given to every role as they came: from the cookie to the
	 * sources; what narrows it. */
	struct buf text, narrow;
	struct str id; /* in text */
	int fds[ASK_FDS_MAX];
	char kinds[ASK_FDS_MAX][8];
	size_t fds_n;
	uint8_t worker; /* slot */
};

struct reload;
struct compile;
struct drain;

struct super {
	struct log log;
	struct loop *loop;
	struct loop_io signals;
	const char *config;
	int ready_fd; /* -1: nobody waits */
	int role_dir; /* where the executables of roles are */
	int exes[ROLE_COUNT];
	uid_t uid; /* of roles; our own unless root */
	gid_t gid;
	struct buf state_dir;
	int state_fd, lock_fd;
	struct sip_key shapes; /* what placeholders are drawn from */
	int synth_fds[2];      /* to write, to read */
	int admin_fd;
	bool admin_is_unix;
	struct loop_timer ledger_gone; /* set: its patience with a dead ledger runs */
	struct loop_timer sources;     /* read again: who mounts files changes them */
	bool is_deserted;              /* the rings have been told that nobody reads */
	uint64_t generations;          /* drawn so far */
	uint64_t started_us;
	struct policy policy; /* in force */
	struct listeners listeners;
	struct slot slots[SUPER_SLOTS];
	size_t slots_n, workers_n;
	size_t first_worker; /* slot */
	struct rowring *ring;
	struct row_ids ids;
	struct stats *stats;
	struct list attached;
	size_t attached_n, attached_bytes;
	uint32_t attached_last;
	struct compile *compile; /* NULL: none runs */
	struct reload *reload;   /* NULL: none runs */
	struct drain *drain;     /* NULL: not shutting down */
	bool is_ready;
	int exit_code;
};

/* super.c: what the others share */
void super_row(struct super *s, enum row_kind kind, enum status reason,
	       struct str detail);
/* Before anything serves: say why and end. */
void super_fail(struct super *s, const char *what, enum status st);
void super_begin(struct super *s, struct policy *p); /* the first policy is here */
/* Does this kernel have what the configuration insists on?  why: one line if not. */
enum status super_check_kernel(const struct image *im, struct buf *why) MUSTCHECK;
void super_ready(struct super *s); /* all serve */

/* slot.c: the table of slots, their rings */
/* The ledger has died, or serves again.  Dead for longer than a restart takes, it stops
 * egress: what is in the rings is kept, but nothing new goes out. */
void slots_ledger_died(struct super *s);
void slots_ledger_serves(struct super *s);
enum status slots_make(struct super *s) MUSTCHECK;
/* A connector for each group that the policy in force names: those that are new are made,
 * those that it no longer names are marked. */
enum status slots_groups(struct super *s) MUSTCHECK;
struct slot *slot_by_pid(struct super *s, pid_t pid);
/* The slot with this role and number among its kind; NULL: none. */
struct slot *slot_of(struct super *s, enum role r);
/* The connector that works for it; NULL: none. */
struct slot *slot_of_group(struct super *s, struct str group);
bool slot_writes_rows(enum role r);

/* spawn_process.c: from nothing to a running process */
enum status spawn_open_exes(struct super *s) MUSTCHECK;
/* Run a role's executable with this descriptor as 3.  args: NULL-terminated, after the
 * name. */
enum status spawn_process(struct super *s, enum role r, int line,
			  const char *const *args, pid_t *ret_pid) MUSTCHECK;

/* spawn.c: the process of a slot */
void spawn_kill(struct slot *slot);   /* its death starts it again */
void spawn_reap(struct super *s);     /* SIGCHLD */
void spawn_slot(struct slot *slot);   /* process, line, and everything it is given */
void spawn_policy(struct slot *slot); /* PREPARE, COMMIT, sandboxes, START */
/* After a reload: connectors of new groups start, those of gone ones end. */
void spawn_groups(struct super *s);

/* give.c: what a role is handed */
enum status give(struct slot *slot, enum give kind, uint32_t index, const char *text,
		 const int *fds, size_t fds_n) MUSTCHECK;
enum status give_all(struct slot *slot) MUSTCHECK;
void give_forget(struct super *s); /* to all workers */
/* REJOIN: a worker lost its line to a connector that lives.  One that is starting, or gone,
 * is given its lines by its start. */
void give_again(struct slot *worker, struct ask_msg *m);
/* Ledger and control hear of a slot that was made while they run. */
void give_new_slot(struct super *s, const struct slot *slot);
enum status give_listeners(struct slot *slot, const struct listeners *from) MUSTCHECK;

/* bind.c: sockets that sandboxes connect to */
/* Bind what image wants; what is in old already is shared.  why: one line for the
 * operator when it fails; nothing is left open then. */
enum status bind_listeners(struct super *s, const struct image *im,
			   struct listeners *old, struct buf *why,
			   struct listeners *ret_new) MUSTCHECK;
/* Close those not kept; a NULL-safe end. */
void bind_close(struct listeners *l);
enum status bind_admin(struct super *s, struct buf *why) MUSTCHECK;

/* state.c: the state directory */
enum status state_open(struct super *s, struct buf *why) MUSTCHECK;
/* shapes.c: what placeholders are drawn from; give it to those who use it. */
enum status shapes_open(struct super *s, struct buf *why) MUSTCHECK;
enum status shapes_give(struct slot *slot) MUSTCHECK;
/* After a death of super its ledger goes on until the rings are empty: wait for it. */
enum status state_await_ledger(struct super *s, struct buf *why) MUSTCHECK;
/* A directory below it that only this role's user may enter. */
enum status state_open_for(struct super *s, enum role r, int *ret_fd) MUSTCHECK;

/* compile.c: the child that turns the file into an image */
typedef void (*compile_fn)(struct super *s, enum status st, struct policy *p,
			   struct str text);
/* p is the callee's on ST_OK; text: lines for the operator. */
enum status compile_start(struct super *s, compile_fn fn) MUSTCHECK;
bool compile_reap(struct super *s, pid_t pid); /* true: it was this child */
size_t policy_fds_n(const struct policy *p);
void policy_close(struct policy *p);

/* reload.c */
void reload_start(struct super *s, struct ask_line *asker, uint32_t seq);
void reload_role_gone(struct slot *slot);
void reload_asker_gone(struct super *s, const struct ask_line *line);

/* attach.c */
void attach_heard(struct slot *control, struct ask_msg *m);
void enroll_heard(struct slot *control, struct ask_msg *m);
void narrow_heard(struct slot *control, struct ask_msg *m);
void detach_heard(struct slot *control, struct ask_msg *m);
enum status
attach_tell_all(struct slot *slot) MUSTCHECK; /* SANDBOX, then its sockets */

/* docker.c: DOCKER */
void docker_heard(struct slot *locator, struct ask_msg *m);

/* publish.c: PUBLISH */
void publish_heard(struct slot *control, struct ask_msg *m);

/* health.c */
void health_heard(struct slot *control, struct ask_msg *m);

/* drain.c */
void drain_start(struct super *s);
void drain_check(struct super *s);    /* a role has died or answered */
void drain_serves(struct slot *slot); /* one that died before serves again */

/* sources.c: secrets that are files or variables, for the keeper */
enum status sources_give(struct slot *keeper, const struct image *im) MUSTCHECK;
void sources_watch(struct super *s); /* from now on */

/* notify.c */
void notify(const char *text); /* sd_notify; nothing when nobody listens */
void notify_reloading(void);   /* until the next READY=1 */

#endif
