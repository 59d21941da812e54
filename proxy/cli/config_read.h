#ifndef PROXY_CLI_CONFIG_READ_H
#define PROXY_CLI_CONFIG_READ_H
/* config_read: a configuration file as commands use it: compiled and opened here. */
#include "conf/conf.h"
#include "conf/image.h"

struct config {
	struct conf_files files;
	struct report report;
	struct conf *conf;
	struct image *image; /* NULL if there are errors: see the report */
};

/* Always leaves something that config_done() takes. */
enum status config_read(struct config *c, const char *path) MUSTCHECK;
void config_done(struct config *c);
/* The report on standard error, for people. */
void config_say(struct config *c);

#endif
