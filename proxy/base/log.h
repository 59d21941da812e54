#ifndef PROXY_BASE_LOG_H
#define PROXY_BASE_LOG_H
/*
 * One line per event on standard error, for operators: time, role, level, text.
 * Only roles and commands log; libraries return a status.  A log value is passed
 * down, there is no global one.  Text from a peer is escaped; a header value or a
 * body is never logged.
 */
#include "proxy/base/str.h"

enum log_level { LOG_ERROR, LOG_INFO, LOG_DEBUG };

struct log {
	const char *role; /* "worker.0"; lives as long as the log */
	enum log_level level;
};

void log_write(const struct log *l, enum log_level level, const char *fmt, ...)
	PRINTF(3, 4);
#define log_error(l, ...) log_write((l), LOG_ERROR, __VA_ARGS__)
#define log_info(l, ...)  log_write((l), LOG_INFO, __VA_ARGS__)
#define log_debug(l, ...) log_write((l), LOG_DEBUG, __VA_ARGS__)

#endif
