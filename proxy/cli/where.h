#ifndef PROXY_CLI_WHERE_H
#define PROXY_CLI_WHERE_H
/* where: the files that commands need, found in one way. */
#include "proxy/base/buf.h"

struct image;

/* -c FILE as given; else $XDG_CONFIG_HOME/sandgate/sandgate.yaml (~/.config) where that
 * exists, else /etc/sandgate/sandgate.yaml.  ST_NOT_FOUND: there is none. */
enum status where_config(const char *given, struct buf *b) MUSTCHECK;
/* To standard error: there is none, and where one was looked for. */
void where_say_no_config(void);
/* An executable of ours: beside this one, else in ../libexec/sandgate. */
enum status where_exe(const char *name, struct buf *b) MUSTCHECK;
/* Compile the file and open its image.  Errors go to standard error as lines. */
enum status where_image(const char *config, struct image **ret_im) MUSTCHECK;

#endif
