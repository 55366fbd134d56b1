# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
# Completion of ferryctl, from what the kernel says.
_ferryctl() {
	local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} words=
	local folder=/sys/kernel/mm/migrate_offload
	if ((COMP_CWORD == 1)); then
		words="status check watch metrics engines causes use set move tune apply reset --help --version"
	elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == --output ]]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
	elif [[ $verb == use ]]; then
		words="none cpu mtcopy dcbm $(cat $folder/available 2>/dev/null) --save --json"
	elif [[ $verb == set ]]; then
		compopt -o nospace
		words="reasons= min_bytes= target_us= window_pages= chunk_pages= stripe_bytes= deadline_ms="
		words+=" engine_always= inaccessible_enabled= --save --json"
	elif [[ $verb == check ]]; then
		words="--next-boot --json"
	elif [[ $verb == watch ]]; then
		words="--interval --count --json"
	elif [[ $verb == metrics ]]; then
		words="--output --json"
	elif [[ $verb == move ]]; then
		words="--pid --cgroup --to --from --max-ms --rate --shared --json"
	elif [[ $verb == tune ]]; then
		words="--yes --write --engine --engines-only --folio --bytes --rounds --from --to --target-us --json"
	elif [[ $verb == apply ]]; then
		words="--wait --json"
	elif [[ $verb == reset ]]; then
		words="--save --json"
	else
		words="--json"
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _ferryctl ferryctl
