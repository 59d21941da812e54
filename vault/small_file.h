#ifndef VAULT_SMALL_FILE_H
#define VAULT_SMALL_FILE_H
/*
 * small_file: a few bytes in the keeper's directory, readable by its user only, replaced
 * whole: a crash leaves the old ones or the new ones.
 */
#include "proxy/base/str.h"

/* At most room bytes.  ST_NOT_FOUND; ST_CONFLICT: others may read it, it is not ours, or
 * no plain file; ST_TOO_BIG. */
enum status small_file_read(int dir, const char *name, void *bytes, size_t room,
			    size_t *ret_n) MUSTCHECK;
/* The same of a descriptor, which stays the caller's; forbidden: bits of its mode.  Where
 * a service manager lets its user in by a list, the group's bit for reading is set. */
enum { SMALL_FILE_OURS = 077, SMALL_FILE_GIVEN = 037 };
enum status small_file_read_fd(int fd, unsigned forbidden, void *bytes, size_t room,
			       size_t *ret_n) MUSTCHECK;
enum status small_file_write(int dir, const char *name, struct str bytes) MUSTCHECK;
/* In two steps: stands whole as name.new, then has its name. */
enum status small_file_stage(int dir, const char *name, struct str bytes) MUSTCHECK;
enum status small_file_settle(int dir, const char *name) MUSTCHECK;
/* What was staged; as small_file_read(). */
enum status small_file_read_staged(int dir, const char *name, void *bytes, size_t room,
				   size_t *ret_n) MUSTCHECK;
void small_file_remove(int dir, const char *name);

#endif
