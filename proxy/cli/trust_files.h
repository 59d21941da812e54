#ifndef PROXY_CLI_TRUST_FILES_H
#define PROXY_CLI_TRUST_FILES_H
/* trust_files: where systems keep the roots that their programs believe. */
#include "proxy/base/buf.h"

enum { TRUST_FILE_MAX = 4 * 1024 * 1024 };

/* NULL behind the last; PEM, and Java key stores. */
extern const char *const trust_bundles[];
extern const char *const trust_stores[];

/* A regular file with at least one certificate; ST_NOT_FOUND: it is none. */
enum status trust_read(const char *path, struct buf *b) MUSTCHECK;
/* The first of trust_bundles that there is. */
enum status trust_read_system(struct buf *b) MUSTCHECK;
/* A new file that everybody may read. */
enum status trust_write(const char *path, struct str text) MUSTCHECK;

#endif
