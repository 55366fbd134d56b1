// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "system.h"

#define IMAGE_BYTES	(320L << 20)	/* sparse; XFS takes no less */

static void mount_private_tmpfs(void)
{
	if (unshare(CLONE_NEWNS))
		err(1, "unshare");
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		err(1, "cannot make / private");
	if (mount("scratch", "/mnt", "tmpfs", 0, "huge=never"))
		err(1, "cannot mount tmpfs on /mnt");
}

static void make_image(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, IMAGE_BYTES))
		err(1, "cannot make %s", path);
	close(fd);
}

const char *scratch_mount(const char *type, const char *options, const char **why)
{
	static char reason[128];

	mount_private_tmpfs();
	if (!strcmp(type, "tmpfs"))
		return "/mnt";

	make_image("/mnt/image");
	*why = reason;
	if (mkdir("/mnt/fs", 0700))
		err(1, "mkdir");
	if (run("mkfs.%s -q %s /mnt/image", type, options)) {
		snprintf(reason, sizeof(reason), "mkfs.%s is not installed", type);
		return NULL;
	}
	/* mount -o loop needs CONFIG_BLK_DEV_WRITE_MOUNTED. It goes when unmounted. */
	if (run("set -e; d=$(losetup -f --show /mnt/image); mount -t %s $d /mnt/fs; losetup -d $d",
		type)) {
		snprintf(reason, sizeof(reason),
			 "%s cannot be mounted from a loop device", type);
		return NULL;
	}
	*why = NULL;
	return "/mnt/fs";
}
