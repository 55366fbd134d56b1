/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trace events, in an instance of tracefs of their own.
 */
#ifndef MIGRATE_COMMON_EVENTS_H
#define MIGRATE_COMMON_EVENTS_H

#include <stdbool.h>

/*
 * Record an event, or all of a subsystem, of whoever has it, or of this task alone;
 * false if there is no such thing
 */
bool events_start(const char *which, bool own);
/* The largest value of a field in lines that have all of an event; -1: there is none */
long events_max(const char *event, const char *field);
/* How many lines have this in them */
long events_count(const char *event);
void events_stop(void);

#endif /* MIGRATE_COMMON_EVENTS_H */
