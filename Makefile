# leafd: build and test. `make help` shows the lines that begin with two #; what is rarer is done by
# scripts, and most of it has a target, too.
#
## make                    build leafd and leafctl into build/release
## make run [NODES=3]      a cluster of 1, 3 or 5 nodes (DATA=, SETTINGS="a=b c=d")
## make debug NODE=1       one of them under gdb
## make watch T=segment    build and run a unit test at each save
## make test               all of these but bench, fuzz: 12 minutes (STAGES=unit)
## make check              layers, shape, style, format, hardening: a minute
## make unit               unit tests (unit-asan, unit-tsan: with sanitizers)
## make corpus             what the fuzzers know and ever found, once more
## make sim [SEEDS=2000]   simulated clusters (SEED=n: one, its story; STORE=lmdb)
## make cluster            tests of real processes, by pytest
## make fuzz [SECONDS=60]  any bytes to parsers and decoders, each fuzzer (JOBS=2)
## make bench [CASE=ids]   leafd and other servers, or BASE=path/to/another/leafd
## make compile_commands.json  how each file is compiled, for clangd
## make format             let clang-format lay out all C files
## make install            programs, libleafd, units, pages (prefix=, DESTDIR= ...)
## make uninstall          remove them; settings that were changed stay
## make clean              remove what was built
## Rarer; most of their commands are targets, too (make chaos):
## scripts/test-more -h    chaos, the model, clients, the page, containers, a night
## scripts/package -h      tarball, Debian package, container image
## scripts/generate -h     manual pages, the table of settings
## scripts/mutants -h      faults planted by chance (sim-mutants: by hand)
## scripts/test-flaky -h   tests that are decided by chance
#
# Objects go to $(BUILD)/$(FLAVOUR); FLAVOUR is release, asan (ASan and UBSan), tsan, or fuzz (by
# `make fuzz`, with clang).

ifeq ($(origin CC),default)
CC      := gcc
endif
# A compiler cache, where there is one; CCACHE= does without.
CCACHE  ?= $(shell command -v ccache)
FLAVOUR ?= release
BUILD   ?= build
OUT     := $(BUILD)/$(FLAVOUR)
MACHINE := $(shell $(CC) -dumpmachine)
CPUS    := $(shell nproc)

WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wimplicit-fallthrough -Wformat=2 -Wvla -Werror
# Calls through pointers land on functions alone, where the processor has that.
CONTROL_FLOW := $(if $(filter x86_64%,$(MACHINE)),-fcf-protection=full)\
                $(if $(filter aarch64%,$(MACHINE)),-mbranch-protection=standard)
# For a debugger in what is shipped, for stacks in what only tests run.
DEBUG       := $(if $(filter release,$(FLAVOUR)),-g,-g1)
FORTIFY     := $(if $(filter release,$(FLAVOUR)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
OPT_release := -O2 -fstack-clash-protection $(CONTROL_FLOW)
# Tests may stop threads between two steps (src/base/hot.h) where it costs nobody anything. -Og
# compiles in two thirds of the time of -O1, and what it makes is as quick with sanitizers.
OPT_asan    := -DLEAFD_YIELD -Og -fsanitize=address,undefined -fno-sanitize-recover=all \
               -fno-omit-frame-pointer
OPT_tsan    := -DLEAFD_YIELD -Og -fsanitize=thread -fno-omit-frame-pointer
OPT_fuzz    := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
               -fno-omit-frame-pointer
VERSION := $(shell cat VERSION)
# A tarball of `make dist` has no history, but a file that names the commit. The history of some
# other tree, which this one lies in, is not asked.
COMMIT  := $(shell cat COMMIT 2>/dev/null || { [ -e .git ] && git rev-parse --short=12 HEAD; } \
             2>/dev/null)
# The flags of whoever builds, and dpkg's, come after ours; but FORTIFY is never less than ours.
OUR_CPPFLAGS := -D_GNU_SOURCE -iquote . -DLEAFD_VERSION='"$(VERSION)"' $(CPPFLAGS)
OUR_CFLAGS   := -std=gnu11 -ffile-prefix-map=$(CURDIR)=. $(DEBUG) $(WARN) \
                $(OPT_$(FLAVOUR)) -fstack-protector-strong -fPIE -MMD -MP -pthread $(CFLAGS) \
                $(FORTIFY)
OUR_LDFLAGS  := -fPIE -pie -pthread -Wl,-z,relro,-z,now,-z,noexecstack \
                $(filter -fsanitize%,$(OPT_$(FLAVOUR))) $(LDFLAGS)

# The libraries of each layer, and the layers of leafd: one links those after it. leafctl is a
# program of its own, which takes of leafd what makes a token, and reads an address or a backup.
LAYERS       := node http service raft storage loop id state base
LIBS_base    := -lisal -lxxhash -lssl -lcrypto -lglib-2.0 -lm
LIBS_storage := -llmdb
LIBS_raft    := -l:libraft.a -lssl -lcrypto
LIBS_http    := -ljansson -lcrypto
LIBS_loop    := -luv
LIBS_node    := -lseccomp
LIBS_ctl     := -lcurl -ljansson
CTL_SEES     := ctl http id state base
home = $(firstword $(wildcard src/$(1) $(1) cluster-tests/$(1)))
lib = $(OUT)/lib$(1).a
# What is built of some files of a layer: a path without .c for each; and what a layer is made of.
FOLDERS := src raft storage http cluster-tests/history cluster-tests/memory_model \
           cluster-tests/sim
FILES := $(sort $(shell find $(FOLDERS) -name '*.c' 2>/dev/null))
of     = $(patsubst %.c,$(OUT)/%,$(filter $(call home,$(1))/%,$(2)))
only   = $(foreach file,$(2),$(if $(findstring $(1),$(file)),$(file)))
APART_FILES := $(call only,/tests/,$(FILES)) $(call only,/fuzz/,$(FILES)) \
               $(filter cluster-tests/sim/% %/main.c,$(FILES))
objs   = $(addsuffix .o,$(call of,$(1),$(filter-out $(APART_FILES),$(FILES))))
libs   = $(foreach layer,$(1),$(call lib,$(layer)))
links  = $(foreach layer,$(1),$(LIBS_$(layer)))

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: anew
anew:
# V=1 shows the commands instead of what they make.
SAY = $(if $(V),,@echo "  $(1) $@";)
define COMPILE
@mkdir -p $(@D)
$(call SAY,CC)$(CCACHE) $(CC) $(OUR_CPPFLAGS) $(OUR_CFLAGS) -c -o $@ $<
endef
define ARCHIVE
@mkdir -p $(@D) && rm -f $@
$(call SAY,AR)ar qcs $@ $^
endef
# With $(WITH) after the objects and archives.
define LINK
@mkdir -p $(@D)
$(call SAY,LINK)$(CC) $(OUR_LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(WITH)
endef
# A file that says what something was made with, so that it is made anew when that changes.
define NOTE
@mkdir -p $(@D)
@echo "$(1)" | cmp -s - $@ || echo "$(1)" >$@
endef

$(OUT)/%.o: %.c
	$(COMPILE)
$(OUT)/src/base/zone.o $(OUT)/storage/lmdb/store.o: \
	OUR_CPPFLAGS += $(shell pkg-config --cflags glib-2.0)
# One object knows the commit; the others come from a compiler cache although there is a new one.
$(OUT)/src/base/commit.o: OUR_CPPFLAGS += -DLEAFD_COMMIT='"$(COMMIT)"'
$(OUT)/src/base/commit.o: $(OUT)/commit
$(OUT)/commit: anew
	$(call NOTE,$(COMMIT))
# Files that are put into an object as they are: the page at `/`, and what says the routes.
$(OUT)/http/api/api.o: http/api/openapi.json \
                       $(wildcard http/page/*.html http/page/*.css http/page/*.js)
$(foreach layer,$(LAYERS) ctl history memory_model,\
	$(eval $(call lib,$(layer)): $(call objs,$(layer)); $$(ARCHIVE)))

# The consensus library must be exactly the one that leafd was written for.
.PHONY: raft-version
raft-version:
	@scripts/check-raft-version
$(OUT)/leafd $(OUT)/sim $(call objs,raft): | raft-version

.PHONY: all help next-level
PROGRAMS := $(OUT)/leafd $(OUT)/leafctl $(OUT)/check-history
all: $(PROGRAMS)
$(OUT)/leafd: WITH := $(call links,$(LAYERS))
$(OUT)/leafd: $(OUT)/src/node/main.o $(call libs,$(LAYERS))
	$(LINK)
$(OUT)/leafctl: WITH := $(call links,$(CTL_SEES))
$(OUT)/leafctl: $(OUT)/src/ctl/main.o $(call libs,$(CTL_SEES))
	$(LINK)
# Was a run of clients right? See docs/testing.md.
$(OUT)/check-history: WITH := $(LIBS_base)
$(OUT)/check-history: $(OUT)/cluster-tests/history/main.o $(call libs,history base)
	$(LINK)
# For the tests of upgrades alone: a leafd that speaks a level more, which does nothing, and one
# that speaks the first alone. It is no setting, so that nobody can choose it by mistake. And a
# state that differs.
next-level: $(OUT)/leafd-next-level $(OUT)/leafd-first-level $(OUT)/plant-row
$(OUT)/src/state/codec/level-next.o: OUR_CPPFLAGS += -DLEVEL_MAX='(LEVEL_NEWEST + 1)'
$(OUT)/src/state/codec/level-first.o: OUR_CPPFLAGS += -DLEVEL_MAX=LEVEL_FIRST
$(OUT)/src/state/codec/level-next.o $(OUT)/src/state/codec/level-first.o: src/state/codec/level.c
	$(COMPILE)
$(OUT)/leafd-next-level $(OUT)/leafd-first-level $(OUT)/plant-row: WITH := $(call links,$(LAYERS))
$(OUT)/leafd-%-level: $(OUT)/src/node/main.o $(OUT)/src/state/codec/level-%.o \
                      $(call libs,$(LAYERS))
	$(LINK)
$(OUT)/plant-row: $(OUT)/cluster-tests/tools/plant_row.o $(call libs,$(LAYERS))
	$(LINK)

# How tests, the simulation, fuzzers and the tools of benchmarks are built. An image has none.
-include scripts/tests.mk

# What is built before something is run.
BUILD_FIRST = +@$(MAKE) --no-print-directory -j$(CPUS)
fuzz:
	$(BUILD_FIRST) CC=clang FLAVOUR=fuzz fuzz-run
bench:
	@scripts/setup bench
	$(BUILD_FIRST) all bench-tools
	@exec setpriv --pdeathsig TERM scripts/bench/bench --build "$(BUILD)" \
		--binary "$(OUT)/leafd" $(if $(BASE),--base "$(BASE)") \
		$(if $(ROUNDS),--rounds "$(ROUNDS)") $(if $(SECONDS),--seconds "$(SECONDS)") \
		$(if $(PRIORITY),--priority) $(CASE)

.PHONY: run bench fuzz
run:
	@scripts/setup run
	$(BUILD_FIRST) all
	@exec setpriv --pdeathsig TERM scripts/run-cluster --nodes "$(or $(NODES),3)" \
		--data "$(or $(DATA),data)" --binary "$(OUT)/leafd" --resp-port 6381 $(SETTINGS:%=--setting "%")

# The stages of the tests are run by scripts/test-all, which sums them up in its last line.
TEST_ALL = scripts/test-all --build "$(BUILD)" --cc "$(CC)"
STAGES  ?= check build unit-asan corpus unit-tsan sim cluster quiet
.PHONY: test check unit unit-asan unit-tsan corpus sim cluster
test:
	@scripts/setup test
	@$(TEST_ALL) $(STAGES)
check unit unit-asan unit-tsan corpus cluster:
	@$(TEST_ALL) $@ $(if $(filter cluster,$@),quiet)
sim: $(OUT)/sim
	$(OUT)/sim $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),2000) --jobs $(CPUS)) \
		$(if $(STORE),--store $(STORE))

# Parts of check, and what looks at all C files.
.PHONY: check-hardening shape warnings format tidy
check-hardening: $(PROGRAMS)
	@CC="$(CC)" scripts/check-hardening --self-test
	@scripts/check-hardening $^
shape: $(PROGRAMS) $(OUT)/sim $(call lib,memory_model)
	@scripts/check-shape $(OUT)
C_FILES = $(shell find src storage raft http scripts/bench cluster-tests -name '*.[ch]')
# Each file as another compiler reads it (CC=clang), without the code that it would make of it. One
# process of clang reads some of them: to start takes it as long as a file.
warnings:
	@printf '%s\n' $(patsubst %,$(if $(findstring clang,$(CC)),-Xclang) %,$(filter %.c,$(C_FILES))) | \
		xargs -P $(CPUS) -n 32 $(CC) $(OUR_CPPFLAGS) $(shell pkg-config --cflags glib-2.0) \
		-DLEAFD_COMMIT='""' -std=gnu11 $(WARN) -fsyntax-only -x c /dev/null
format:
	clang-format -i --style=file $(C_FILES)
tidy:
	clang-tidy --quiet $(filter %.c,$(C_FILES)) -- -std=gnu11 $(OUR_CPPFLAGS)

# What is rarer: scripts, each with --help.
TOLD = BUILD="$(BUILD)" FLAVOUR="$(FLAVOUR)" CC="$(CC)"
MORE := chaos model-test clients clients-test clients-many page-test resp-test nightly
PACKAGED := dist deb deb-test image compose-test check-dashboard
HABITS := debug watch compile_commands.json
.PHONY: $(MORE) $(PACKAGED) $(HABITS) mutants sim-mutants man config-doc
$(MORE):
	@$(TOLD) exec scripts/test-more $@
$(PACKAGED):
	@$(TOLD) COMMIT="$(COMMIT)" exec scripts/package $@
$(HABITS):
	@$(TOLD) exec scripts/dev $@
man config-doc: $(OUT)/leafd $(OUT)/leafctl
	@$(TOLD) scripts/generate $@
mutants sim-mutants:
	@scripts/setup test
	@scripts/$@ --jobs $(CPUS) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

# Places are scripts/install-files's: prefix, sysconfdir, DESTDIR and others, as GNU has them.
# The client library for C needs no more than leafctl does; `make LIBLEAFD= install` is without.
LIBLEAFD ?= libleafd
.PHONY: install uninstall libleafd clean
libleafd:
	+@$(MAKE) --no-print-directory -C clients/c OUT="$(abspath $(BUILD))/clients/c" library
install: all $(LIBLEAFD) man
	@scripts/install-files --build "$(BUILD)" install
uninstall:
	@scripts/install-files --build "$(BUILD)" uninstall
clean:
	rm -rf $(BUILD)
help:
	@sed -n 's/^## //p' Makefile

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
