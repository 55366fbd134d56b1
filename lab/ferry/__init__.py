# SPDX-License-Identifier: GPL-2.0
"""Ferry's lab: assemble and build kernels, boot them, measure, report, export.

Each folder knows those before it, and none after it:

kernel    Linux with Ferry: assembled, built, packaged, exported
vm        machines, the emulator, one boot; boots.py runs many, store.py keeps what their guests said
server    the emulated server's parameters: a machine of vm
bench     what each program is asked, as boots, and what its records mean
suites    tests that take long: kselftests, Linux's own tests of mm, torture, a first day
tables    published experiments: which cells each has, and what was posted of them
results   how results are written, shown, drawn, compared, and traced; where they come from
commands  the command line, a module for each command
"""
