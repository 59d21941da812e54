#ifndef CONF_CONF_PRIVATE_H
#define CONF_CONF_PRIVATE_H
/* What the builders hand to a conf. */
#include "conf/conf.h"
#include "conf/draft.h"

struct conf {
	struct arena arena;
	struct draft draft;
	struct conf_test *tests, *tests_last;
};

void conf_add_test(struct conf *c, struct conf_test *t);

#endif
