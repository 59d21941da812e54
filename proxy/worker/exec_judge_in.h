#ifndef PROXY_WORKER_EXEC_JUDGE_IN_H
#define PROXY_WORKER_EXEC_JUDGE_IN_H
/* exec_judge_in: one request on its way through exec_judge*.c. */
#include "proxy/base/jtree.h"
#include "proxy/worker/exec_judge.h"

enum {
	NAMES_MAX = 256, /* of variables, paths and commands that a row may list */
	SPACE_MAX = 64 * 1024,
	JUDGE_ARGV_MAX = 1024,
	JUDGE_TEXTS_MAX = 512, /* each is judged by itself; more are too much to read */
};

struct names {
	struct str all[NAMES_MAX];
	size_t n;
};

struct judge {
	const struct image *im;
	const struct exec_route *route;
	const struct str *kernel;
	struct exec_judged *out;
	struct arena tree; /* what the body says, while it is looked at */
	struct buf text;
	struct names paths, commands;
	size_t looked;
};

/* The worst of all that is asked counts. */
void judge_ask(struct judge *j, const struct risk_question *q);
void judge_unreadable(struct judge *j);
/* For the one who has to allow it: the beginning is enough, the hash is of all. */
void judge_show(struct judge *j, struct str s, char behind);
struct str judge_shown(const struct judge *j, size_t begun);
void judge_add_name(struct names *to, struct str s);
void judge_note_names(struct judge *j, const char *key, const struct names *names);
enum status judge_member(const struct jnode *o, const char *name,
			 const struct jnode **ret_n) MUSTCHECK;

/* exec_judge_run.c: command, argv, code: whatever of them is there is run. */
enum status judge_run(struct judge *j, const struct jnode *root) MUSTCHECK;
/* exec_judge_mcp.c: what an MCP server is started with, or asked for.  Other routes: ST_OK. */
enum status judge_mcp(struct judge *j, const struct jnode *root) MUSTCHECK;
/* A text that something may do with what it likes: rules that fit it count. */
void judge_told(struct judge *j, const struct jnode *n);
/* A command line, or its words; null is none.  False: not all of its parts are strings. */
bool judge_command(struct judge *j, const struct jnode *n, struct risk_question *q);
/* exec_judge_create.c: commands that execd runs before, and besides, what a sandbox is for. */
enum status judge_create(struct judge *j, const struct jnode *root) MUSTCHECK;

/* exec_judge_file.c: which files; root may be NULL. */
enum status judge_paths(struct judge *j, const struct jnode *root) MUSTCHECK;

#endif
