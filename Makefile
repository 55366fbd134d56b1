# SPDX-License-Identifier: GPL-2.0
# Thin: everything is done by ./ferry, see ./ferry --help.
.PHONY: help demo test lint deb clean

help:
	@./ferry --help
	@echo
	@echo 'make demo    build both kernels, move memory in VMs, end with a table'
	@echo 'make test    run all tests'
	@echo 'make lint    check the style of the code'
	@echo 'make deb     make Debian packages of the tools and of a kernel with Ferry, into out/deb'
	@echo 'make clean   remove all that was made: build/, out/, and the programs in bench/'

demo test lint:
	./ferry $@

deb:
	./ferry tools
	./ferry kernel deb

clean:
	rm -rf build out
	$(MAKE) -s -C bench clean
