// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/mm/migrate_offload: see
 * Documentation/ABI/testing/sysfs-kernel-mm-migrate-offload
 */
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/suspend.h>
#include <linux/sysfs.h>

#include "internal.h"

#define SETTING_OFFSET(_name) offsetof(struct migrate_offload_settings, _name)

static struct kobject *root_kobj;
static struct kobject *migrators_kobj;

static ssize_t active_show(struct kobject *kobj, struct kobj_attribute *attr,
			   char *buf)
{
	return migrate_offload_show_active(buf);
}

static ssize_t active_store(struct kobject *kobj, struct kobj_attribute *attr,
			    const char *buf, size_t count)
{
	char name[MIGRATE_OFFLOAD_NAME_MAX + 1]; /* and a newline */
	int error;

	if (strscpy(name, buf, sizeof(name)) < 0)
		return -ENOENT;
	error = migrate_offload_activate(strim(name));
	return error ?: count;
}

static struct kobj_attribute active_attr = __ATTR_RW(active);

static ssize_t in_service_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *buf)
{
	return migrate_offload_show_in_service(buf);
}

static struct kobj_attribute in_service_attr = __ATTR_RO(in_service);

static ssize_t available_show(struct kobject *kobj, struct kobj_attribute *attr,
			      char *buf)
{
	return migrate_offload_show_available(buf);
}

static struct kobj_attribute available_attr = __ATTR_RO(available);

static int parse_reasons(char *list, unsigned long *reasons)
{
	unsigned long mask = 0;
	char *word;
	int i;

	while ((word = strsep(&list, " \t\n"))) {
		if (!*word || !strcmp(word, "none"))
			continue;
		if (!strcmp(word, "all")) {
			mask = MIGRATE_OFFLOAD_ALL_REASONS;
			continue;
		}
		i = match_string(migrate_reason_names, MIGRATE_NR_REASONS,
				 word);
		if (i < 0)
			return -EINVAL;
		mask |= BIT(i);
	}
	*reasons = mask;
	return 0;
}

static ssize_t reasons_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	unsigned long reasons = migrate_offload_get(SETTING_OFFSET(reasons));
	ssize_t len = 0;
	int i;

	if (!reasons)
		return sysfs_emit(buf, "none\n");
	for (i = 0; i < MIGRATE_NR_REASONS; i++)
		if (reasons & BIT(i))
			len += sysfs_emit_at(buf, len, "%s%s", len ? " " : "",
					     migrate_reason_names[i]);
	return len + sysfs_emit_at(buf, len, "\n");
}

static ssize_t reasons_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	unsigned long reasons;
	char *list;
	int error;

	list = kstrndup(buf, count, GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	error = parse_reasons(list, &reasons);
	kfree(list);
	if (!error)
		error = migrate_offload_set(SETTING_OFFSET(reasons), reasons);
	return error ?: count;
}

static struct kobj_attribute reasons_attr = __ATTR_RW(reasons);

/* A setting that is a number; 0 means that the kernel chooses */
struct setting_attribute {
	struct kobj_attribute attr;
	size_t offset;
};

static ssize_t setting_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	struct setting_attribute *a =
		container_of(attr, struct setting_attribute, attr);

	return sysfs_emit(buf, "%lu\n", migrate_offload_get(a->offset));
}

static ssize_t setting_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	struct setting_attribute *a =
		container_of(attr, struct setting_attribute, attr);
	unsigned long value;
	int error;

	error = kstrtoul(buf, 0, &value);
	if (!error)
		error = migrate_offload_set(a->offset, value);
	return error ?: count;
}

#define SETTING_ATTR(_name) __ATTR(_name, 0644, setting_show, setting_store)

static struct setting_attribute min_bytes_attr = {
	SETTING_ATTR(min_bytes), SETTING_OFFSET(min_bytes)
};

static struct setting_attribute target_us_attr = {
	SETTING_ATTR(target_us), SETTING_OFFSET(target_us)
};

static struct setting_attribute window_pages_attr = {
	SETTING_ATTR(window_pages), SETTING_OFFSET(window_pages)
};

static struct setting_attribute chunk_pages_attr = {
	SETTING_ATTR(chunk_pages), SETTING_OFFSET(chunk_pages)
};

static struct setting_attribute stripe_bytes_attr = {
	SETTING_ATTR(stripe_bytes), SETTING_OFFSET(stripe_bytes)
};

static struct setting_attribute deadline_ms_attr = {
	SETTING_ATTR(deadline_ms), SETTING_OFFSET(deadline_ms)
};

static struct setting_attribute engine_always_attr = {
	SETTING_ATTR(engine_always), SETTING_OFFSET(engine_always)
};

static ssize_t inaccessible_enabled_show(struct kobject *kobj,
					 struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n",
			  static_key_enabled(&migrate_offload_time_key));
}

static ssize_t inaccessible_enabled_store(struct kobject *kobj,
					  struct kobj_attribute *attr,
					  const char *buf, size_t count)
{
	bool on;
	int error;

	error = kstrtobool(buf, &on);
	if (error)
		return error;
	if (on)
		static_branch_enable(&migrate_offload_time_key);
	else
		static_branch_disable(&migrate_offload_time_key);
	return count;
}

static struct kobj_attribute inaccessible_enabled_attr =
	__ATTR_RW(inaccessible_enabled);

/* An array of numbers in one line: see Documentation/filesystems/sysfs.rst */
static ssize_t inaccessible_us_show(struct kobject *kobj,
				    struct kobj_attribute *attr, char *buf)
{
	ssize_t len = 0;
	unsigned int i;

	for (i = 0; i < MIGRATE_OFFLOAD_NR_BUCKETS; i++)
		len += sysfs_emit_at(buf, len, "%s%lu", i ? " " : "",
				     migrate_offload_time_bucket(i));
	return len + sysfs_emit_at(buf, len, "\n");
}

static struct kobj_attribute inaccessible_us_attr = __ATTR_RO(inaccessible_us);

static struct attribute *root_attrs[] = {
	&active_attr.attr,
	&in_service_attr.attr,
	&available_attr.attr,
	&reasons_attr.attr,
	&min_bytes_attr.attr.attr,
	&target_us_attr.attr.attr,
	&window_pages_attr.attr.attr,
	&chunk_pages_attr.attr.attr,
	&stripe_bytes_attr.attr.attr,
	&deadline_ms_attr.attr.attr,
	&engine_always_attr.attr.attr,
	&inaccessible_enabled_attr.attr,
	&inaccessible_us_attr.attr,
	NULL
};

static const struct attribute_group root_group = {
	.attrs = root_attrs,
};

#define STAT_ATTR(_name, _stat)						\
static ssize_t _name##_show(struct kobject *kobj,			\
			    struct kobj_attribute *attr, char *buf)	\
{									\
	return sysfs_emit(buf, "%lu\n", migrate_offload_stat(_stat));	\
}									\
									\
static struct kobj_attribute _name##_attr = __ATTR_RO(_name)

STAT_ATTR(calls, STAT_CALLS);
STAT_ATTR(folios, STAT_FOLIOS);
STAT_ATTR(bytes, STAT_BYTES);
STAT_ATTR(fallback_kind, STAT_FALLBACK_KIND);
STAT_ATTR(fallback_refs, STAT_FALLBACK_REFS);
STAT_ATTR(fallback_busy, STAT_FALLBACK_BUSY);
STAT_ATTR(fallback_error, STAT_FALLBACK_ERROR);
STAT_ATTR(left, STAT_LEFT);
STAT_ATTR(quarantined_bytes, STAT_QUARANTINED_BYTES);

static ssize_t window_max_pages_show(struct kobject *kobj,
				     struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", migrate_offload_window_max());
}

static struct kobj_attribute window_max_pages_attr =
	__ATTR_RO(window_max_pages);

static struct attribute *stats_attrs[] = {
	&calls_attr.attr,
	&folios_attr.attr,
	&bytes_attr.attr,
	&fallback_kind_attr.attr,
	&fallback_refs_attr.attr,
	&fallback_busy_attr.attr,
	&fallback_error_attr.attr,
	&left_attr.attr,
	&quarantined_bytes_attr.attr,
	&window_max_pages_attr.attr,
	NULL
};

static const struct attribute_group stats_group = {
	.name = "stats",
	.attrs = stats_attrs,
};

static const struct attribute_group *root_groups[] = {
	&root_group,
	&stats_group,
	NULL
};

/* One folder per migrator */
struct migrator_attribute {
	struct attribute attr;
	size_t offset;
};

#define MIGRATOR_ATTR(_name)						\
static struct migrator_attribute migrator_##_name##_attr = {		\
	.attr = { .name = #_name, .mode = 0444 },			\
	.offset = offsetof(struct migrator_stats, _name),		\
}

MIGRATOR_ATTR(folios);
MIGRATOR_ATTR(bytes);
MIGRATOR_ATTR(errors);
MIGRATOR_ATTR(overdue);

static struct attribute *migrator_attrs[] = {
	&migrator_folios_attr.attr,
	&migrator_bytes_attr.attr,
	&migrator_errors_attr.attr,
	&migrator_overdue_attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(migrator);

static ssize_t migrator_attr_show(struct kobject *kobj, struct attribute *attr,
				  char *buf)
{
	struct migrator_attribute *a =
		container_of(attr, struct migrator_attribute, attr);
	void *stats = container_of(kobj, struct migrator_stats, kobj);
	atomic_long_t *counter = stats + a->offset;

	return sysfs_emit(buf, "%ld\n", atomic_long_read(counter));
}

static const struct sysfs_ops migrator_sysfs_ops = {
	.show = migrator_attr_show,
};

static void migrator_stats_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct migrator_stats, kobj));
}

static const struct kobj_type migrator_ktype = {
	.release = migrator_stats_release,
	.sysfs_ops = &migrator_sysfs_ops,
	.default_groups = migrator_groups,
};

/**
 * migrator_stats_create() - make a migrator's counters and its sysfs folder
 * @name: of the migrator
 *
 * Return: the counters, or an ERR_PTR().
 */
struct migrator_stats *migrator_stats_create(const char *name)
{
	struct migrator_stats *stats;
	int error;

	stats = kzalloc(sizeof(*stats), GFP_KERNEL);
	if (!stats)
		return ERR_PTR(-ENOMEM);
	error = kobject_init_and_add(&stats->kobj, &migrator_ktype,
				     migrators_kobj, "%s", name);
	if (error) {
		kobject_put(&stats->kobj);
		return ERR_PTR(error);
	}
	return stats;
}

void migrator_stats_destroy(struct migrator_stats *stats)
{
	kobject_del(&stats->kobj);
	kobject_put(&stats->kobj);
}

static int __init migrate_offload_init(void)
{
	int error = -ENOMEM;

	root_kobj = kobject_create_and_add("migrate_offload", mm_kobj);
	if (!root_kobj)
		return -ENOMEM;
	migrators_kobj = kobject_create_and_add("migrators", root_kobj);
	if (!migrators_kobj)
		goto put_root;
	error = sysfs_create_groups(root_kobj, root_groups);
	if (error)
		goto put_migrators;
	error = migrate_offload_register(&migrator_cpu);
	if (error)
		goto remove_groups;
	pm_notifier(migrate_offload_pm, 0);
	return 0;

remove_groups:
	sysfs_remove_groups(root_kobj, root_groups);
put_migrators:
	kobject_put(migrators_kobj);
put_root:
	kobject_put(root_kobj);
	return error;
}
subsys_initcall(migrate_offload_init);
