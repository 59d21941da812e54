#ifndef PROXY_BASE_LIST_H
#define PROXY_BASE_LIST_H
/*
 * list: intrusive, doubly linked, circular.  A head and a link are the same struct;
 * an unlinked link points to itself, so list_remove() may be called twice.
 */
#include "proxy/base/base.h"

struct list {
	struct list *next, *prev;
};

#define LIST_OF(link, type, member)                                                    \
	((type *)(void *)((char *)(link)-offsetof(type, member)))
/* A declared name can't stand in parentheses. */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define list_each(it, head)                                                            \
	for (struct list *it = (head)->next; it != (head); it = it->next)
/* The loop body may remove and free `it`. */
#define list_each_safe(it, head)                                                       \
	for (struct list *it = (head)->next, *it##_next = it->next; it != (head);      \
	     it = it##_next, it##_next = it->next)
/* NOLINTEND(bugprone-macro-parentheses) */

static inline void
list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool
list_is_empty(const struct list *l)
{
	return l->next == l;
}

static inline void
list_append(struct list *head, struct list *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

static inline void
list_remove(struct list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	list_init(link);
}

/* Take the first out; NULL when there is none. */
static inline struct list *
list_pop(struct list *head)
{
	struct list *first = head->next;

	if (first == head)
		return NULL;
	head->next = first->next;
	head->next->prev = head;
	list_init(first);
	return first;
}

#endif
