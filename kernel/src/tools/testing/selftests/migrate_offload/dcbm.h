/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dcbm's channels, and the faults of the softdma that they belong to.
 */
#ifndef MIGRATE_OFFLOAD_DCBM_H
#define MIGRATE_OFFLOAD_DCBM_H

/* The sums of all channels of dcbm */
struct channels {
	long submitted;
	long completed;
	long errors;
	long in_flight;
	int live;
	int failed;
	int stuck;
	int gone;
};

struct channels channels(void);

/* How often a fault was injected, and how often it is to be: 0 is never */
long injected(const char *fault);
void inject(const char *fault, unsigned int every);

#endif /* MIGRATE_OFFLOAD_DCBM_H */
