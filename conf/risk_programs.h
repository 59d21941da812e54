#ifndef CONF_RISK_PROGRAMS_H
#define CONF_RISK_PROGRAMS_H
/* risk_programs: what is known of programs by their name, as tables. */
#include "conf/risk_private.h"

struct risk_wrap { /* runs the command that follows: sudo, env, timeout, ... */
	const char *name;
	const char *with_value; /* its short options that take a value */
	unsigned operands;      /* of its own, before the command */
};

enum risk_order {
	ORDER_NONE,  /* each of its words is touched alike */
	ORDER_LAST,  /* the last is written, others read: cp */
	ORDER_MOVES, /* and the others are gone: mv */
	ORDER_OF     /* of= is written: dd */
};

struct risk_program { /* what it does with the paths that it is given */
	const char *name;
	enum risk_touch touch;
	enum risk_order order;
};

struct risk_language {
	const char *name, *language;
	const char *letters; /* of its short options: what follows is code */
	const char *words;   /* of its long ones, separated by '|' */
};

/* NULL: not one of those. */
const struct risk_wrap *risk_wrap_of(struct str name);
/* Does the next word belong to this option of a wrapper? */
bool risk_wrap_has_value(const struct risk_wrap *w, struct str option);
const struct risk_program *risk_program_of(struct str name);
const struct risk_language *risk_language_of(struct str name);
bool risk_is_among(struct str name, const char *words); /* "a|b|c" */
bool risk_is_network(struct str name);                  /* takes hosts as words */
/* The verbs that install, "install|add"; NULL: no manager of packages. */
const char *risk_manager_verbs(struct str name);
struct str risk_base(struct str path);         /* behind the last slash */
struct str risk_without_version(struct str s); /* python3.11: python */

#endif
