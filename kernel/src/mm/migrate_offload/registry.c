// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which migrators there are, which one is active, and with what settings.
 *
 * What the hot path needs is one immutable state, published with SRCU. A new
 * choice or setting builds a new state aside, swaps it in, and waits for the
 * windows that still use the old one: so nothing is ever half applied, and when
 * migrate_offload_unregister() returns no call can reach the migrator.
 */
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/suspend.h>
#include <linux/sysfs.h>

#include "hooks.h"
#include "internal.h"

/* With fewer, deep, the last channels wait for the next chunk */
#define DEEP_CHUNKS		16U
/* A chunk this small is accessible again soon, and shares a TLB flush */
#define DEFAULT_CHUNK_PAGES	128UL
/* Below what Linux's own batches of 512 pages take on CPUs of today */
#define DEFAULT_TARGET_US	500UL
/* Fewer bytes are moved before an engine has been woken */
#define DEFAULT_MIN_BYTES	SZ_256K
/*
 * Many times what the slowest engine of use needs for a chunk, and shorter than
 * what people or the timers of networks notice.
 */
#define DEFAULT_DEADLINE_MS	100UL
/* Memory for all windows of a state */
#define MAX_WINDOW_POOL_BYTES	SZ_16M

DEFINE_STATIC_KEY_FALSE(migrate_offload_key);
DEFINE_SRCU(migrate_offload_srcu);
struct migrate_offload_state __rcu *migrate_offload_state;
/* The machine is about to suspend, or does so */
bool migrate_offload_suspended;

/* Protects all below, and the writing of migrate_offload_state; SRCU to read */
static DEFINE_MUTEX(registry_lock);
static LIST_HEAD(migrators);
static struct migrate_offload_settings settings = {
	.reasons = MIGRATE_OFFLOAD_ALL_REASONS,
};

static struct migrate_offload_state *current_state(void)
{
	return rcu_dereference_protected(migrate_offload_state,
					 lockdep_is_held(&registry_lock));
}

void migrate_window_free(struct migrate_window *window)
{
	kvfree(window->slots);
	kvfree(window);
}

static void state_free(struct migrate_offload_state *state)
{
	struct migrate_window *window, *next;

	list_for_each_entry_safe(window, next, &state->free, node)
		migrate_window_free(window);
	kfree(state);
}

/* Slots know their chunk for ever; it spares the hot path the stores */
static void chunk_init(struct migrate_chunk *chunk, struct migrate_slot *slots,
		       const struct migrate_offload_state *state)
{
	unsigned long i;

	init_completion(&chunk->told);
	init_completion(&chunk->done);
	chunk->slots = slots;
	for (i = 0; i < state->chunk_pages; i++)
		slots[i].copy.chunk = chunk;
}

static int state_add_window(struct migrate_offload_state *state)
{
	struct migrate_window *window;
	unsigned int i;

	window = kvzalloc(struct_size(window, chunks, state->nr_chunks),
			  GFP_KERNEL);
	if (!window)
		return -ENOMEM;
	window->nr_chunks = state->nr_chunks;
	window->slots = kvcalloc(state->nr_chunks * state->chunk_pages,
				 sizeof(*window->slots), GFP_KERNEL);
	if (!window->slots) {
		kvfree(window);
		return -ENOMEM;
	}
	for (i = 0; i < state->nr_chunks; i++)
		chunk_init(&window->chunks[i],
			   &window->slots[i * state->chunk_pages], state);
	list_add(&window->node, &state->free);
	return 0;
}

static int state_add_windows(struct migrate_offload_state *state)
{
	size_t bytes = state->nr_chunks * (sizeof(struct migrate_chunk) +
		       state->chunk_pages * sizeof(struct migrate_slot));
	/* Who sleeps until the engine has copied keeps one; the CPU's next task needs another */
	unsigned long nr = clamp(MAX_WINDOW_POOL_BYTES / bytes, 1UL,
				 2UL * num_online_cpus());

	while (nr--)
		if (state_add_window(state))
			return -ENOMEM;
	return 0;
}

static unsigned long auto_window(const struct migrate_offload_limits *limits,
				 unsigned long chunk_pages)
{
	unsigned long pages = DIV_ROUND_UP(limits->inflight_bytes, PAGE_SIZE);

	return clamp(pages, chunk_pages, MIGRATE_OFFLOAD_MAX_WINDOW);
}

/* Fill in the effective values: the administrator's, else the engine's */
static void state_set_limits(struct migrate_offload_state *state,
			     const struct migrate_offload_settings *s)
{
	struct migrate_offload_limits limits = {};

	state->m->limits(state->m, &limits);
	state->reasons = s->reasons;
	state->min_bytes = s->min_bytes ?:
		max_t(unsigned long, limits.min_bytes, DEFAULT_MIN_BYTES);
	state->target_us = s->target_us ?: DEFAULT_TARGET_US;
	if (s->window_pages)
		state->target_us = 0;
	state->chunk_pages = s->chunk_pages ?: DEFAULT_CHUNK_PAGES;
	if (s->window_pages)
		state->chunk_pages = min(state->chunk_pages, s->window_pages);
	state->window_pages = s->window_pages ?:
		auto_window(&limits, state->chunk_pages);
	state->stripe_bytes = s->stripe_bytes ?:
		max(PAGE_ALIGN(limits.stripe_bytes), PAGE_SIZE);
	state->deadline = msecs_to_jiffies(s->deadline_ms ?: DEFAULT_DEADLINE_MS);
	state->nr_chunks = DIV_ROUND_UP(state->window_pages,
					state->chunk_pages);
	/* A quota is for two, be they smaller */
	if (state->target_us)
		state->nr_chunks = max(state->nr_chunks, 2);
	/* Whoever chooses the window wants to see what the engine makes of it */
	state->may_choose = state->target_us && !s->engine_always &&
			    !state->m->copies_by_cpu;
	/* With the chunks of the default each has room for its part of that */
	state->may_deepen = state->target_us && !s->stripe_bytes &&
			    !s->chunk_pages && !state->m->copies_by_cpu;
	if (state->may_deepen)
		state->nr_chunks = max(state->nr_chunks, DEEP_CHUNKS);
}

static struct migrate_offload_state *
state_create(struct migrator *m, const struct migrate_offload_settings *s)
{
	struct migrate_offload_state *state;

	state = kzalloc(sizeof(*state), GFP_KERNEL);
	if (!state)
		return ERR_PTR(-ENOMEM);
	state->m = m;
	spin_lock_init(&state->lock);
	INIT_LIST_HEAD(&state->free);
	state_set_limits(state, s);
	if (state_add_windows(state)) {
		state_free(state);
		return ERR_PTR(-ENOMEM);
	}
	return state;
}

/* Make @new the state, and see the old one off. @new may be NULL. */
static void state_publish(struct migrate_offload_state *new)
{
	struct migrate_offload_state *old = current_state();

	lockdep_assert_held(&registry_lock);

	rcu_assign_pointer(migrate_offload_state, new);
	if (new && !old)
		static_branch_enable(&migrate_offload_key);
	else if (!new && old)
		static_branch_disable(&migrate_offload_key);
	if (!old)
		return;
	synchronize_srcu(&migrate_offload_srcu);
	state_free(old);
}

static struct migrator *find_migrator(const char *name)
{
	struct migrator *m;

	lockdep_assert_held(&registry_lock);

	list_for_each_entry(m, &migrators, node)
		if (!strcmp(m->name, name))
			return m;
	return NULL;
}

static int migrator_start(struct migrator *m)
{
	int error = 0;

	if (!try_module_get(m->owner))
		return -ENODEV;
	if (m->start)
		error = m->start(m);
	if (error)
		module_put(m->owner);
	return error;
}

/* No call uses it any more */
static void migrator_stop(struct migrator *m)
{
	if (m->stop)
		m->stop(m);
	module_put(m->owner);
}

static int activate(struct migrator *m)
{
	struct migrate_offload_state *state = current_state();
	struct migrator *old = state ? state->m : NULL;
	int error;

	if (m == old)
		return 0;
	if (!m) {
		state_publish(NULL);
	} else {
		error = migrator_start(m);
		if (error)
			return error;
		state = state_create(m, &settings);
		if (IS_ERR(state)) {
			migrator_stop(m);
			return PTR_ERR(state);
		}
		state_publish(state);
	}
	if (old)
		migrator_stop(old);
	return 0;
}

/**
 * migrate_offload_activate() - choose the migrator
 * @name: of a registered migrator, or "none"
 *
 * The module of the active migrator is pinned. Sleeps until the windows that
 * use the previous one are closed.
 *
 * Return: 0, -ENOENT if there is no such migrator, -ENODEV if it is leaving,
 * -ENOMEM, or what its start() says; on error nothing has changed.
 */
int migrate_offload_activate(const char *name)
{
	struct migrator *m = NULL;
	int error;

	mutex_lock(&registry_lock);
	if (strcmp(name, "none"))
		m = find_migrator(name);
	error = m || !strcmp(name, "none") ? activate(m) : -ENOENT;
	mutex_unlock(&registry_lock);
	return error;
}

/*
 * Does the engine take copies? Not while one of them is overdue, or if it says
 * itself that it cannot.
 */
bool migrate_offload_in_service(const struct migrate_offload_state *state)
{
	struct migrator *m = state->m;

	return !READ_ONCE(migrate_offload_suspended) &&
	       !atomic_long_read(&m->stats->overdue) &&
	       (!m->in_service || m->in_service(m));
}

/*
 * No engine has copies when its device is suspended. That comes after tasks are
 * frozen, which not all are that migrate.
 */
int migrate_offload_pm(struct notifier_block *nb, unsigned long event,
		       void *unused)
{
	bool suspends = event == PM_SUSPEND_PREPARE ||
			event == PM_HIBERNATION_PREPARE ||
			event == PM_RESTORE_PREPARE;

	WRITE_ONCE(migrate_offload_suspended, suspends);
	if (suspends)
		synchronize_srcu(&migrate_offload_srcu);
	return NOTIFY_DONE;
}

/**
 * migrate_offload_replace_windows() - make up for windows that were retired
 *
 * Return: false if they cannot be replaced yet: the engine is out of service,
 * and a new one might be lost as well, or there is no memory.
 */
bool migrate_offload_replace_windows(void)
{
	struct migrate_offload_state *state, *old;
	bool lost;

	mutex_lock(&registry_lock);
	old = current_state();
	lost = old && READ_ONCE(old->lost_window);
	if (lost && !atomic_long_read(&old->m->stats->overdue)) {
		state = state_create(old->m, &settings);
		lost = IS_ERR(state);
		if (!lost) {
			/* Or all calls would be sent to the engine at once */
			memcpy(state->costs, old->costs, sizeof(state->costs));
			memcpy(state->depth, old->depth, sizeof(state->depth));
			state->flush_pages = READ_ONCE(old->flush_pages);
			state_publish(state);
		}
	}
	mutex_unlock(&registry_lock);
	return !lost;
}

/* Whoever looks does not wait for a migration to end, as who writes does */
ssize_t migrate_offload_show_active(char *buf)
{
	struct migrate_offload_state *state;
	ssize_t len;
	int idx;

	idx = srcu_read_lock(&migrate_offload_srcu);
	state = srcu_dereference(migrate_offload_state, &migrate_offload_srcu);
	len = sysfs_emit(buf, "%s\n", state ? state->m->name : "none");
	srcu_read_unlock(&migrate_offload_srcu, idx);
	return len;
}

ssize_t migrate_offload_show_in_service(char *buf)
{
	struct migrate_offload_state *state;
	bool in_service;
	int idx;

	idx = srcu_read_lock(&migrate_offload_srcu);
	state = srcu_dereference(migrate_offload_state, &migrate_offload_srcu);
	in_service = state && migrate_offload_in_service(state);
	srcu_read_unlock(&migrate_offload_srcu, idx);
	return sysfs_emit(buf, "%d\n", in_service);
}

ssize_t migrate_offload_show_available(char *buf)
{
	struct migrator *m;
	ssize_t len = 0;
	int idx;

	idx = srcu_read_lock(&migrate_offload_srcu);
	list_for_each_entry_srcu(m, &migrators, node,
				 srcu_read_lock_held(&migrate_offload_srcu))
		len += sysfs_emit_at(buf, len, "%s%s", len ? " " : "", m->name);
	srcu_read_unlock(&migrate_offload_srcu, idx);
	return len + sysfs_emit_at(buf, len, "\n");
}

/**
 * migrate_offload_get() - read one setting
 * @offset: of the unsigned long in struct migrate_offload_settings
 *
 * Return: its value.
 */
unsigned long migrate_offload_get(size_t offset)
{
	return READ_ONCE(*(unsigned long *)((void *)&settings + offset));
}

static bool settings_valid(const struct migrate_offload_settings *s)
{
	if (s->reasons & ~MIGRATE_OFFLOAD_ALL_REASONS)
		return false;
	if (s->window_pages > MIGRATE_OFFLOAD_MAX_WINDOW ||
	    s->chunk_pages > MIGRATE_OFFLOAD_MAX_WINDOW)
		return false;
	if (s->window_pages && s->chunk_pages > s->window_pages)
		return false;
	if (s->target_us > MIGRATE_OFFLOAD_MAX_TARGET_US ||
	    s->deadline_ms > MIGRATE_OFFLOAD_MAX_DEADLINE_MS ||
	    s->engine_always > 1)
		return false;
	return PAGE_ALIGNED(s->stripe_bytes);
}

/**
 * migrate_offload_set() - change one setting
 * @offset: of the unsigned long in struct migrate_offload_settings
 * @value: new value
 *
 * Return: 0, -EINVAL if the settings would contradict each other or are out of
 * range, -ENOMEM; on error nothing has changed.
 */
int migrate_offload_set(size_t offset, unsigned long value)
{
	struct migrate_offload_settings scratch;
	struct migrate_offload_state *state;
	int error;

	mutex_lock(&registry_lock);
	scratch = settings;
	*(unsigned long *)((void *)&scratch + offset) = value;
	error = settings_valid(&scratch) ? 0 : -EINVAL;
	state = current_state();
	if (!error && state) {
		state = state_create(state->m, &scratch);
		if (IS_ERR(state))
			error = PTR_ERR(state);
		else
			state_publish(state);
	}
	if (!error)
		WRITE_ONCE(*(unsigned long *)((void *)&settings + offset), value);
	mutex_unlock(&registry_lock);
	return error;
}

static bool migrator_complete(const struct migrator *m)
{
	return m->name && *m->name && strcmp(m->name, "none") &&
	       strlen(m->name) < MIGRATE_OFFLOAD_NAME_MAX &&
	       !strpbrk(m->name, " /\n") && m->limits && m->submit &&
	       m->flush && !m->begin_call == !m->end_call;
}

/**
 * migrate_offload_register() - offer a copy engine
 * @m: filled in by the driver; must stay until migrate_offload_unregister()
 *
 * It is not used before the administrator chooses it in
 * /sys/kernel/mm/migrate_offload/active. May sleep.
 *
 * Return: 0, -EINVAL if a name or callback is missing, -EBUSY if the name is
 * taken, -ENOMEM.
 */
int migrate_offload_register(struct migrator *m)
{
	int error = 0;

	if (!migrator_complete(m))
		return -EINVAL;

	mutex_lock(&registry_lock);
	if (find_migrator(m->name)) {
		error = -EBUSY;
		goto unlock;
	}
	m->stats = migrator_stats_create(m->name);
	if (IS_ERR(m->stats)) {
		error = PTR_ERR(m->stats);
		goto unlock;
	}
	list_add_tail_rcu(&m->node, &migrators);
unlock:
	mutex_unlock(&registry_lock);
	return error;
}
EXPORT_SYMBOL_GPL(migrate_offload_register);

/**
 * migrate_offload_unregister() - take a copy engine back
 * @m: a registered migrator
 *
 * If it is the active one, none is active afterwards. Sleeps until the windows
 * that use it are closed, which takes a deadline if the engine is stuck: when it
 * returns no callback will be called, and nothing is in flight but copies that are
 * overdue. The core keeps what they use; it is for the migrator not to go before
 * its engine has ended them. The caller must hold no lock that a migrator's
 * start() or stop() takes, such as device_lock().
 */
void migrate_offload_unregister(struct migrator *m)
{
	struct migrate_offload_state *state;

	mutex_lock(&registry_lock);
	state = current_state();
	if (state && state->m == m)
		activate(NULL);
	list_del_rcu(&m->node);
	synchronize_srcu(&migrate_offload_srcu);
	migrator_stats_destroy(m->stats);
	m->stats = NULL;
	mutex_unlock(&registry_lock);
}
EXPORT_SYMBOL_GPL(migrate_offload_unregister);
