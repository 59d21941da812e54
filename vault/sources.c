#include "vault/sources.h"

#include <stdlib.h>
#include <string.h>

enum status
sources_init(struct sources *s)
{
	*s = (struct sources){ .now = calloc(SOURCES_MAX, sizeof *s->now),
			       .next = calloc(SOURCES_MAX, sizeof *s->next) };
	if (s->now != NULL && s->next != NULL)
		return ST_OK;
	sources_done(s);
	return ST_NOMEM;
}

static void
clear(struct source *of, size_t *n)
{
	while (*n > 0)
		secret_done(&of[--*n].value);
}

void
sources_done(struct sources *s)
{
	clear(s->now, &s->now_n);
	clear(s->next, &s->next_n);
	free(s->now);
	free(s->next);
	*s = (struct sources){ NULL, NULL, 0, 0 };
}

bool
sources_is_name(struct str secret)
{
	return str_starts(secret, STR("files/")) || str_starts(secret, STR("env/"));
}

static struct source *
find(struct source *of, size_t n, struct str name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(str_from(of[i].name), name))
			return &of[i];
	return NULL;
}

const struct source *
sources_find(const struct sources *s, struct str name)
{
	return find(s->now, s->now_n, name);
}

static enum status
read_value(int fd, struct secret *ret_s)
{
	CLEANUP(secret_done) struct secret s = { 0 };
	enum status st = secret_new(VAULT_VALUE_MAX + 1, &s);

	if (st != ST_OK)
		return st;
	ssize_t n = pread(fd, secret_bytes_mut(&s), s.n, 0);
	if (n < 0)
		return ST_SYSTEM;
	if (n == 0 || n > VAULT_VALUE_MAX)
		return ST_BAD_SECRET;
	secret_cut(&s, (size_t)n);
	if (!value_is_good(&s, VAULT_TEXT) && s.n > 1 &&
	    secret_bytes(&s)[s.n - 1] == '\n') {
		secret_cut(&s, s.n - 1);
		/* Of a key in lines it is a part. */
		if (!value_is_good(&s, VAULT_TEXT))
			s.n++;
	}
	if (!value_is_good(&s, VAULT_TEXT) && !value_is_good(&s, VAULT_PEM))
		return ST_BAD_SECRET;
	*ret_s = s;
	s = (struct secret){ 0 };
	return ST_OK;
}

enum status
sources_add(struct sources *s, struct str name, int fd)
{
	struct source *next = &s->next[s->next_n];

	if (s->next_n == SOURCES_MAX || name.n >= sizeof next->name ||
	    !sources_is_name(name) || !vault_is_name(name))
		return ST_BAD_MESSAGE;
	enum status st = read_value(fd, &next->value);
	if (st != ST_OK)
		return st;
	memcpy(next->name, name.p, name.n);
	next->name[name.n] = '\0';
	const struct source *old = sources_find(s, name);
	next->version = old == NULL                            ? 1
			: secret_eq(&old->value, &next->value) ? old->version
							       : old->version + 1;
	s->next_n++;
	return ST_OK;
}

void
sources_settle(struct sources *s)
{
	struct source *gone = s->now;

	clear(s->now, &s->now_n);
	s->now = s->next;
	s->now_n = s->next_n;
	s->next = gone;
	s->next_n = 0;
}
