#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What there is on a Debian machine, "KIND NAME ..." a line each, so that two can be compared: files of the
# root file system, packages, units, modules. Not what programs write where they log and cache.
set -euo pipefail

kept=(-path /var/log -o -path /var/cache -o -path /var/tmp -o -path /tmp -o -path /run -o -path /srv/ferry
	-o -path /root/.cache)
# Contents count where configuration and kernels are; elsewhere size and time do.
find / -xdev \( "${kept[@]}" \) -prune \
	-o -type f ! -path '/etc/*' ! -path '/boot/*' -printf 'file %p %m %U:%G %s %Ts\n' \
	-o -type l -printf 'file %p -> %l\n' \
	-o -printf 'file %p %y %m %U:%G\n'
find /etc /boot -type f -exec sha256sum {} + | awk '{ print "content", $2, $1 }'
dpkg-query -W -f 'package ${Package} ${Version} ${db:Status-Abbrev}\n'
systemctl list-unit-files --no-legend --no-pager | awk '{ print "unit", $1, $2 }'
awk '{ print "module", $1 }' /proc/modules | sort
