#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=dash disable=SC1091,SC2034
# /init of the initramfs.
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mkdir -p /sbin /usr/sbin /usr/bin /dev/shm
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm
FERRY_JOB=/ferry/job.sh
. /ferry/run.sh
poweroff -f
