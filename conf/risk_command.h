#ifndef CONF_RISK_COMMAND_H
#define CONF_RISK_COMMAND_H
/* risk_command: one simple command on its way through: its words, then what it runs. */
#include "conf/risk_private.h"

struct command {
	struct risk_run *run;
	struct risk_call *call;
	const struct risk_word *w; /* from the program on */
	size_t n;
	struct str name; /* of the program, without folders */
	struct risk_deed deed;
	bool is_fed; /* its words come from another program: xargs */
};

struct str command_word(const struct command *c, size_t i); /* empty: none there */
bool command_is_option(struct str s);
bool command_has_word(const struct command *c, const char *words); /* "a|b" */
/* Is it NAME=...?  Then NAME is set. */
bool command_add_assignment(struct command *c, struct str s);
/* Paths, hosts, packages, variables and words of all that it is given. */
void command_add_facts(struct command *c);
/* The words from one on are a command. */
void command_judge_from(struct command *c, size_t from);
/* What it runs in its turn: a shell's text, an interpreter's, eval's, find's. */
void command_run(struct command *c);

#endif
