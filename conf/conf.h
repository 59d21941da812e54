#ifndef CONF_CONF_H
#define CONF_CONF_H
/*
 * conf: configuration files to an image.  Reading and compiling are two steps, so that
 * the compiler can shut itself in before it looks at the text.
 *
 *	conf_files_read()   the main file, connectors/ *.yaml, policies/ *.yaml,
 *				risk/ *.yaml
 *	conf_compile()      all errors in one go, or a draft
 *	conf_seal()         of a draft: the image's memfd, sealed
 */
#include "conf/report.h"

/* CONF_OTHER: what the configuration names, as it is. */
enum conf_kind { CONF_MAIN, CONF_CONNECTOR, CONF_POLICY, CONF_RISK, CONF_OTHER };

struct conf_file {
	enum conf_kind kind;
	struct str name; /* as messages show it */
	struct str stem; /* of policies/NAME.yaml: NAME */
	struct str text;
	struct conf_file *next;
};

struct conf_files {
	struct arena arena;
	struct conf_file *first, *last;
	struct str path; /* of the main file; empty: nothing else is read */
};

void conf_files_init(struct conf_files *f);
void conf_files_done(struct conf_files *f);
/* ST_BAD_CONFIG when something was reported. */
enum status conf_files_read(struct conf_files *f, const char *path,
			    struct report *r) MUSTCHECK;
/* A file from memory; text is copied. */
enum status conf_files_add(struct conf_files *f, enum conf_kind kind, struct str name,
			   struct str text) MUSTCHECK;

/*
 * A file that the configuration names: one that was added with CONF_OTHER and that name,
 * else one from where the main file lies.  The text lives in a.  ST_TOO_BIG: larger than
 * max; other failures: not a readable file.
 */
enum status conf_files_find(const struct conf_files *f, struct arena *a,
			    struct str name, size_t max,
			    struct str *ret_text) MUSTCHECK;

struct conf_test { /* one of `tests:`; empty strings: not given */
	struct place at;
	struct str sandbox, policy, url, method, code;
	bool is_allow;
	struct conf_test *next;
};

struct conf; /* what was compiled */

/* ST_BAD_CONFIG: see the report.  files must outlive the conf. */
enum status conf_compile(const struct conf_files *files, struct report *r,
			 struct conf **ret_c) MUSTCHECK;
void conf_free(struct conf *c);
/* Once. */
enum status conf_seal(struct conf *c, int *ret_memfd) MUSTCHECK;
/* May be a url of a test, and what `explain` is asked: http://, https:// or HOST:PORT.
 * What the data path would refuse is an answer, not a mistake. */
bool conf_is_question(struct str url);
const struct conf_test *conf_tests(const struct conf *c);

/* All of it: path to memfd. */
enum status conf_load(const char *path, struct report *r, int *ret_memfd) MUSTCHECK;

#endif
