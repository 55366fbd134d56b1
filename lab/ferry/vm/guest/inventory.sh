#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What there is on a Debian machine, a record each, so that two can be compared: files of the root file
# system, packages, units, modules. Not what programs write where they log and cache.
set -euo pipefail

kept=(-path /var/log -o -path /var/cache -o -path /var/tmp -o -path /tmp -o -path /run -o -path /srv/ferry
	-o -path /root/.cache)

# all: what there is and, after a tab, how it is, which may be nothing.
all() {
	# Contents count where configuration and kernels are; elsewhere size and time do.
	find / -xdev \( "${kept[@]}" \) -prune \
		-o -type f ! -path '/etc/*' ! -path '/boot/*' -printf 'file %p\t%m %U:%G %s %Ts\n' \
		-o -type l -printf 'file %p\t-> %l\n' \
		-o -printf 'file %p\t%y %m %U:%G\n'
	find /etc /boot -type f -exec sha256sum {} + | sed -E 's/^(\S+) +(.*)/content \2\t\1/'
	dpkg-query -W -f 'package ${Package}\t${Version} ${db:Status-Abbrev}\n'
	systemctl list-unit-files --no-legend --no-pager | awk '{ print "unit " $1 "\t" $2 }'
	awk '{ print "module " $1 "\t" }' /proc/modules | sort
}

all | LC_ALL=C sed -e 's/[\\"]/\\&/g; s/\t/", "how": "/; s/[[:cntrl:]]/\\ufffd/g' \
	-e 's/^/{"record": "have", "what": "/; s/$/"}/'
