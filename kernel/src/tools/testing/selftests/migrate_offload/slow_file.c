// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../migrate_common/scratch.h"
#include "slow_file.h"

#define PAGES_MAX	(SLOW_READ_MAX / 4096)

static void reply(struct slow_file *f, uint64_t unique, int error,
		  const void *data, size_t size)
{
	struct fuse_out_header out = {
		.len = sizeof(out) + size, .error = error, .unique = unique,
	};
	struct iovec iov[] = {
		{ &out, sizeof(out) }, { (void *)data, size },
	};

	if (writev(f->dev, iov, 2) < 0)
		err(1, "cannot answer FUSE request");
}

static void reply_init(struct slow_file *f, uint64_t unique,
		       const struct fuse_init_in *in)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = in->max_readahead,
		.flags = FUSE_MAX_PAGES,
		.max_write = SLOW_READ_MAX,
		.max_pages = PAGES_MAX,
	};

	if (in->minor < out.minor)
		out.minor = in->minor;
	reply(f, unique, 0, &out, sizeof(out));
}

static void reply_attr(struct slow_file *f, uint64_t unique)
{
	struct fuse_attr_out out = {
		.attr = {
			.ino = FUSE_ROOT_ID, .size = SLOW_READ_MAX,
			.mode = S_IFREG | 0600, .nlink = 1, .blksize = 4096,
		},
	};

	reply(f, unique, 0, &out, sizeof(out));
}

static void serve_request(struct slow_file *f, const struct fuse_in_header *in)
{
	/* At exit there is nobody left to answer a flush */
	struct fuse_open_out open = {
		.open_flags = FOPEN_DIRECT_IO | FOPEN_NOFLUSH,
	};

	switch (in->opcode) {
	case FUSE_INIT:
		reply_init(f, in->unique, (const void *)(in + 1));
		break;
	case FUSE_GETATTR:
		reply_attr(f, in->unique);
		break;
	case FUSE_OPEN:
		reply(f, in->unique, 0, &open, sizeof(open));
		break;
	case FUSE_READ:
		f->unique = in->unique;
		if (write(f->asked[1], "", 1) != 1)
			err(1, "write to pipe");
		break;
	case FUSE_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		reply(f, in->unique, -ENOSYS, NULL, 0);
	}
}

static void *serve(void *arg)
{
	static char buf[2 * SLOW_READ_MAX];
	struct slow_file *f = arg;

	while (read(f->dev, buf, sizeof(buf)) > 0)
		serve_request(f, (void *)buf);
	return NULL;
}

const char *slow_file_open(struct slow_file *f)
{
	const char *why = NULL;
	char options[128];
	int fd;

	if (!scratch_mount("tmpfs", "", &why))
		return why;
	f->dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (f->dev < 0)
		return "no /dev/fuse";
	fd = open("/mnt/slow", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || pipe(f->asked))
		err(1, "cannot make /mnt/slow");
	close(fd);
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=%o,user_id=0,group_id=0", f->dev, S_IFREG);
	if (mount("slow", "/mnt/slow", "fuse", 0, options))
		return "FUSE cannot be mounted";
	if (pthread_create(&f->server, NULL, serve, f))
		errx(1, "pthread_create");
	f->fd = open("/mnt/slow", O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (f->fd < 0)
		err(1, "cannot open the slow file");
	return NULL;
}

static void *read_all(void *arg)
{
	struct slow_file *f = arg;

	f->result = pread(f->fd, f->buf, f->size, 0);
	return NULL;
}

void slow_file_read(struct slow_file *f, char *buf, size_t size)
{
	char byte;

	f->buf = buf;
	f->size = size;
	if (pthread_create(&f->reader, NULL, read_all, f))
		errx(1, "pthread_create");
	if (read(f->asked[0], &byte, 1) != 1)
		err(1, "read from pipe");
}

long slow_file_answer(struct slow_file *f, const void *data)
{
	reply(f, f->unique, 0, data, f->size);
	pthread_join(f->reader, NULL);
	return f->result;
}
