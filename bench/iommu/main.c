// SPDX-License-Identifier: GPL-2.0
/*
 * echo "WORKLOAD THREADS PAIRS" >/sys/kernel/debug/iommu_bench/run
 * cat /sys/kernel/debug/iommu_bench/run
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "iommu_bench.h"

static const struct {
	const char *prefix;
	int (*run)(struct bench *bench, const char *name, unsigned int threads,
		   u64 pairs, struct result *result);
} kinds[] = {
	{ "stress", stress_run },
	{ "dma", dma_run },
	{ "api", api_run },
	{ "", workload_run },
};

static struct bench bench;
static struct result last;
static struct dentry *folder;
static DEFINE_MUTEX(one_run);

static int run(const char *name, unsigned int threads, u64 pairs)
{
	unsigned int i = 0;

	if (!threads || threads > MAX_THREADS || !pairs)
		return -EINVAL;
	memset(&last, 0, sizeof(last));
	while (strncmp(kinds[i].prefix, name, strlen(kinds[i].prefix)))
		i++;
	return kinds[i].run(&bench, name, threads, pairs, &last);
}

static ssize_t run_write(struct file *file, const char __user *user, size_t size,
			 loff_t *pos)
{
	char text[64] = "", name[17];
	unsigned int threads;
	u64 pairs;
	int ret;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, user, size))
		return -EFAULT;
	if (sscanf(text, "%16s %u %llu", name, &threads, &pairs) != 3)
		return -EINVAL;
	mutex_lock(&one_run);
	ret = run(name, threads, pairs);
	mutex_unlock(&one_run);
	return ret ?: size;
}

static int run_show(struct seq_file *m, void *unused)
{
	mutex_lock(&one_run);
	seq_printf(m, "pairs=%llu ns=%llu errors=%llu transfers=%llu unmapped=%llu freed=%llu\n",
		   last.pairs, last.ns, last.errors, last.transfers, last.unmapped,
		   last.freed);
	mutex_unlock(&one_run);
	return 0;
}

static int run_open(struct inode *inode, struct file *file)
{
	return single_open(file, run_show, NULL);
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = run_open,
	.read = seq_read,
	.write = run_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init bench_init(void)
{
	int ret = device_open(&bench);

	if (ret)
		return ret;
	folder = debugfs_create_dir("iommu_bench", NULL);
	debugfs_create_file("run", 0600, folder, NULL, &run_fops);
	return 0;
}
module_init(bench_init);

static void __exit bench_exit(void)
{
	debugfs_remove(folder);
	device_close(&bench);
}
module_exit(bench_exit);

MODULE_DESCRIPTION("Benchmark and stress test of iommu_map() and iommu_unmap()");
MODULE_LICENSE("GPL");
