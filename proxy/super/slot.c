#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/super/super.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

enum { LEDGER_PATIENCE_MS = 1000, PAGE_BYTES = 4096 };

bool
slot_writes_rows(enum role r)
{
	return r == ROLE_SUPER || r == ROLE_WORKER || r == ROLE_DNS ||
	       r == ROLE_CONTROL || r == ROLE_KEEPER || r == ROLE_CONNECTOR;
}

/* All roles that run, in the order in which they start. */
static const enum role order[] = { ROLE_SUPER,  ROLE_KEEPER,  ROLE_LEDGER,
				   ROLE_DIALER, ROLE_CONTROL, ROLE_DNS };

static void
put_name(struct slot *slot, size_t number)
{
	const char *word = role_name(slot->role);
	size_t n = 0;

	while (word[n] != '\0' && n < sizeof slot->name - 4) {
		slot->name[n] = ascii_lower(word[n]);
		n++;
	}
	if (slot->role == ROLE_WORKER || slot->role == ROLE_CONNECTOR)
		(void)snprintf(slot->name + n, sizeof slot->name - n, ".%u",
			       (unsigned)(number % 100));
}

/* memfd_secret(2): in no core, and not for root to read either. */
static enum status
make_page(struct slot *slot)
{
	int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);

	slot->page_is_plain = fd < 0;
	if (fd < 0)
		fd = memfd_create("keeper", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, PAGE_BYTES) < 0)
		return ST_SYSTEM;
	slot->page = fd;
	return ST_OK;
}

static enum status
slot_add(struct super *s, enum role r, size_t number)
{
	struct slot *slot = &s->slots[s->slots_n];

	need(s->slots_n < SUPER_SLOTS);
	*slot = (struct slot){
		.super = s, .role = r, .ring = -1, .bell = -1, .stats = -1, .page = -1
	};
	slot->index = (uint8_t)s->slots_n;
	put_name(slot, number);
	if (stats_create(&slot->stats) != ST_OK)
		return ST_SYSTEM;
	if (slot_writes_rows(r)) {
		if (rowring_create(slot->name, &slot->ring) != ST_OK)
			return ST_SYSTEM;
		slot->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (slot->bell < 0)
			return ST_SYSTEM;
	}
	if (r == ROLE_KEEPER && make_page(slot) != ST_OK)
		return ST_SYSTEM;
	s->slots_n++;
	return ST_OK;
}

static enum status
open_own(struct super *s)
{
	struct slot *own = &s->slots[0];
	enum status st = rowring_open_writer(own->ring, own->bell, &s->ring);

	return st == ST_OK ? stats_open(own->stats, true, &s->stats) : st;
}

static void
desert_rings(struct super *s, bool is_deserted)
{
	s->is_deserted = is_deserted;
	for (size_t i = 0; i < s->slots_n; i++) {
		if (s->slots[i].ring >= 0 &&
		    rowring_desert(s->slots[i].ring, is_deserted) != ST_OK)
			log_error(&s->log,
				  "%s: its ring can't be told about the ledger",
				  s->slots[i].name);
	}
}

static void
ledger_is_gone(void *ctx)
{
	struct super *s = ctx;

	log_error(&s->log, "no ledger: egress stops until it serves again");
	desert_rings(s, true);
}

void
slots_ledger_died(struct super *s)
{
	if (!s->is_deserted && !loop_timer_is_set(&s->ledger_gone))
		loop_timer_set(&s->ledger_gone, LEDGER_PATIENCE_MS);
}

void
slots_ledger_serves(struct super *s)
{
	loop_timer_clear(&s->ledger_gone);
	if (s->is_deserted)
		desert_rings(s, false);
}

struct slot *
slot_of_group(struct super *s, struct str group)
{
	for (size_t i = 1; i < s->slots_n; i++)
		if (s->slots[i].role == ROLE_CONNECTOR &&
		    str_eq(str_from(s->slots[i].group), group))
			return &s->slots[i];
	return NULL;
}

static size_t
connectors_n(const struct super *s)
{
	return s->slots_n - s->first_worker - s->workers_n;
}

static enum status
add_group(struct super *s, struct str group)
{
	struct slot *slot = &s->slots[s->slots_n];
	enum status st;

	if (connectors_n(s) == SUPER_CONNECTORS || group.n >= sizeof slot->group)
		return ST_TOO_BIG;
	st = slot_add(s, ROLE_CONNECTOR, connectors_n(s));
	if (st == ST_OK && group.n > 0)
		memcpy(slot->group, group.p, group.n);
	return st;
}

enum status
slots_groups(struct super *s)
{
	size_t n = 0;
	const struct image_connector *of = image_connectors(s->policy.image, &n);
	enum status st = ST_OK;

	for (size_t i = 1; i < s->slots_n; i++)
		s->slots[i].is_idle = s->slots[i].role == ROLE_CONNECTOR;
	for (size_t i = 0; i < n && st == ST_OK; i++) {
		struct str group = image_str(s->policy.image, of[i].group);
		struct slot *slot = slot_of_group(s, group);
		if (!of[i].is_listed) /* a document that lies there unused */
			continue;
		if (slot != NULL)
			slot->is_idle = false;
		else
			st = add_group(s, group);
	}
	return st;
}

enum status
slots_make(struct super *s)
{
	enum status st = ST_OK;

	loop_timer_init(&s->ledger_gone, s->loop, ledger_is_gone, s);
	sources_watch(s);
	for (size_t i = 0; i < COUNT_OF(order) && st == ST_OK; i++)
		st = slot_add(s, order[i], 0);
	/* Only where there is a docker to ask. */
	if (st == ST_OK && image_text(s->policy.image, OPT_EXEC_DOCKER).n > 0)
		st = slot_add(s, ROLE_LOCATOR, 0);
	s->first_worker = s->slots_n;
	for (size_t i = 0; i < s->workers_n && st == ST_OK; i++)
		st = slot_add(s, ROLE_WORKER, i);
	if (st == ST_OK)
		st = slots_groups(s);
	return st == ST_OK ? open_own(s) : st;
}

struct slot *
slot_by_pid(struct super *s, pid_t pid)
{
	for (size_t i = 1; i < s->slots_n; i++) {
		if (s->slots[i].pid == pid)
			return &s->slots[i];
	}
	return NULL;
}

struct slot *
slot_of(struct super *s, enum role r)
{
	for (size_t i = 1; i < s->slots_n; i++) {
		if (s->slots[i].role == r)
			return &s->slots[i];
	}
	return NULL;
}
