# leafd: build and test. `make help` lists the targets.
#
# Objects go to $(BUILD)/$(FLAVOUR); FLAVOUR is release, asan (ASan and UBSan), tsan, or fuzz (by
# `make fuzz`, with clang).

CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
# A compiler cache, where there is one; CCACHE= does without.
CCACHE  ?= $(shell command -v ccache)
FLAVOUR ?= release
BUILD   ?= build
OUT     := $(BUILD)/$(FLAVOUR)
MACHINE := $(shell $(CC) -dumpmachine)

WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wimplicit-fallthrough -Wformat=2 -Wvla -Werror
# Calls through pointers land on functions alone, where the processor has that.
CONTROL_FLOW := $(if $(filter x86_64%,$(MACHINE)),-fcf-protection=full)\
                $(if $(filter aarch64%,$(MACHINE)),-mbranch-protection=standard)
OPT_release := -O2 -fstack-clash-protection $(CONTROL_FLOW)
FORTIFY_release := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
# For a debugger in what is shipped, for stacks in what only tests run.
DEBUG_release := -g
DEBUG_asan    := -g1
DEBUG_tsan    := -g1
DEBUG_fuzz    := -g1
# Tests may stop threads between two steps (src/base/yield.h) where it costs nobody anything.
OPT_asan    := -DLEAFD_YIELD -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
               -fno-omit-frame-pointer
OPT_tsan    := -DLEAFD_YIELD -O1 -fsanitize=thread -fno-omit-frame-pointer
OPT_fuzz    := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
               -fno-omit-frame-pointer
VERSION := $(shell cat VERSION)
# A tarball of `make dist` has no history, but a file that names the commit. The history of some
# other tree, which this one lies in, is not asked.
COMMIT  := $(shell cat COMMIT 2>/dev/null || { [ -e .git ] && git rev-parse --short=12 HEAD; } \
             2>/dev/null)
# The flags of whoever builds, and dpkg's, come behind ours; but FORTIFY is never less than ours. A
# make that this one starts is to add ours to them once more, and not to what is made here.
define GIVEN
ifndef GIVEN_$(1)
GIVEN_$(1) := $($(1))
endif
export GIVEN_$(1)
unexport $(1)
endef
$(foreach flags,CPPFLAGS CFLAGS LDFLAGS,$(eval $(call GIVEN,$(flags))))
override CPPFLAGS := -D_GNU_SOURCE -iquote . -DLEAFD_VERSION='"$(VERSION)"' $(GIVEN_CPPFLAGS)
override CFLAGS   := -std=gnu11 -ffile-prefix-map=$(CURDIR)=. $(DEBUG_$(FLAVOUR)) $(WARN) \
                     $(OPT_$(FLAVOUR)) -fstack-protector-strong -fPIE -MMD -MP -pthread \
                     $(GIVEN_CFLAGS) $(FORTIFY_$(FLAVOUR))
override LDFLAGS  := -fPIE -pie -pthread -Wl,-z,relro,-z,now,-z,noexecstack \
                     $(filter -fsanitize%,$(OPT_$(FLAVOUR))) $(GIVEN_LDFLAGS)

LIBS_base    := -lisal -lxxhash -lssl -lcrypto -lglib-2.0
LIBS_storage := -llmdb
LIBS_raft    := -l:libraft.a -lssl -lcrypto
LIBS_http    := -ljansson -lcrypto
LIBS_loop    := -luv
LIBS_app     := -lseccomp
LIBS_ctl     := -lcurl -ljansson
LIBS_all     := $(LIBS_app) $(LIBS_http) $(LIBS_raft) $(LIBS_storage) $(LIBS_loop) $(LIBS_base)

# The parser that the tests hold ours against.
TEST_LIBS_http := -lhttp_parser

# One static library a layer. A layer links those after it.
LAYERS    := app http raft storage loop id base
DIR_base  := src/base
DIR_loop  := src/loop
DIR_id    := src/id
DIR_app   := src/app
DIR_http  := http
DIR_raft  := raft
DIR_storage := storage
# No layer of leafd: leafctl, the operator's tool.
DIR_ctl := src/ctl
# Nor are tools of the tests: the checker of histories, for the simulation and the tests,
DIR_history := cluster-tests/history
# and the explorer of memory orders.
DIR_model := cluster-tests/memory_model
# All sources of a layer, floors and all; tests, fuzzers and the simulation are no part of it.
srcs       = $(shell find $(DIR_$(1)) -name '*.c' ! -name main.c ! -path '*/tests/*' \
               ! -path '*/fuzz/*' ! -path 'raft/sim/*' 2>/dev/null)
objs       = $(patsubst %.c,$(OUT)/%.o,$(call srcs,$(1)))
lib        = $(OUT)/lib$(1).a

.DEFAULT_GOAL := all
.PHONY: all help
## make                     build leafd and leafctl into build/release
all: $(OUT)/leafd $(OUT)/leafctl $(OUT)/check-history

help:
	@sed -n 's/^## //p' Makefile

# V=1 shows the commands instead of what they make.
SAY = $(if $(V),,@echo "  $(1)";)
# The consensus library must be exactly the one that leafd was written for.
.PHONY: raft-version
raft-version:
	@scripts/check-raft-version
$(OUT)/leafd $(OUT)/sim $(call objs,raft): | raft-version

$(OUT)/src/base/zone.o: override CPPFLAGS += $(shell pkg-config --cflags glib-2.0)

$(OUT)/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,CC $@)$(CCACHE) $(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# One object knows the commit, and is made anew when that changes: the others come from a compiler
# cache although there is a new commit.
$(OUT)/src/base/commit.o: override CPPFLAGS += -DLEAFD_COMMIT='"$(COMMIT)"'
$(OUT)/src/base/commit.o: $(OUT)/commit
$(OUT)/commit: anew
	@mkdir -p $(@D)
	@echo "$(COMMIT)" | cmp -s - $@ || echo "$(COMMIT)" >$@
.PHONY: anew
anew:

# The parts of the page at `/`, which are put into it as they are.
$(OUT)/http/page/page.o: $(wildcard http/page/*.html http/page/*.css http/page/*.js)
# And what says which routes there are.
$(OUT)/http/api/openapi.o: http/api/openapi.json

define LAYER_RULE
$(call lib,$(1)): $(call objs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(call SAY,AR $$@)ar qcs $$@ $$^
endef
$(foreach layer,$(LAYERS) ctl history model,$(eval $(call LAYER_RULE,$(layer))))

$(OUT)/leafd: $(OUT)/src/app/main.o $(foreach layer,$(LAYERS),$(call lib,$(layer)))
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_all)

# The operator's tool. Of leafd it takes what makes a token, and reads an address or a backup.
CTL_SEES := http id base
$(OUT)/leafctl: $(OUT)/src/ctl/main.o $(foreach layer,ctl $(CTL_SEES),$(call lib,$(layer)))
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_ctl) $(LIBS_http) $(LIBS_base)

# A leafd that speaks a level more, which does nothing: for the tests of upgrades, and for them
# alone. It is no setting, so that nobody can choose it by mistake.
.PHONY: next-level
next-level: $(OUT)/leafd-next-level $(OUT)/plant-row
$(OUT)/src/id/codec/level-next.o: src/id/codec/level.c
	@mkdir -p $(@D)
	$(call SAY,CC $@)$(CCACHE) $(CC) $(CPPFLAGS) $(CFLAGS) -DLEVEL_MAX='(LEVEL_NEWEST + 1)' -c -o $@ $<
$(OUT)/leafd-next-level: $(OUT)/src/app/main.o $(OUT)/src/id/codec/level-next.o \
                         $(foreach layer,$(LAYERS),$(call lib,$(layer)))
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_all)

# A state that differs, for the tests of real processes.
$(OUT)/plant-row: $(OUT)/cluster-tests/tools/plant_row.o \
                  $(foreach layer,raft storage id base,$(call lib,$(layer)))
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_all)

# Was a run of clients right? See docs/testing.md.
$(OUT)/check-history: $(OUT)/cluster-tests/history/main.o $(call lib,history) $(call lib,base)
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS_base)

# Unit tests: <dir>/tests/test_<file>.c, a group of cmocka's each, beside what they test. All groups
# of a layer are one program, $(OUT)/test-LAYER (src/tests/unit/main.c); each can also be made a
# program of its own, by the name of its file. A program links its layer and those below, and no
# others; other files of tests folders are helpers, of which it takes what it names.
SEEN_app      := app http raft storage loop id base
SEEN_http     := http loop id base
SEEN_raft     := raft storage loop id base
SEEN_storage  := storage base
SEEN_loop     := loop base
SEEN_id       := id loop base
SEEN_base     := base
SEEN_ctl      := ctl $(CTL_SEES)
SEEN_history  := history base
SEEN_model    := model id base
TESTED        := base loop id history app storage raft http ctl
# The explorer takes the place of TSan's library.
ifneq ($(FLAVOUR),tsan)
TESTED += model
endif
in_tests   = $(shell find $(DIR_$(1)) -path '*/tests/*' -name '*.c' $(2) -name 'test_*' 2>/dev/null)
tests_of   = $(patsubst %.c,$(OUT)/%,$(call in_tests,$(1)))
# Always programs of their own: they take the place of functions of the system or of leafd, which
# the other groups would meet, too. A test that does so and is not named here fails to build.
APART      := $(addprefix $(OUT)/,src/app/tests/test_lost src/app/tests/test_server \
              src/app/tests/test_supervisor \
              src/app/recovery/tests/test_fresh storage/lmdb/tests/test_failing \
              storage/lmdb/tests/test_power storage/lmdb/tests/test_power_dirs \
              $(basename $(shell grep -rl --include="test_*.c" "_world.h" http)))
# Groups to take, by the names of their files without .c; all if there is none.
ONLY       ?=
only       = $(if $(ONLY),$(filter $(addprefix $(OUT)/,$(ONLY)),$(1)),$(1))
apart_of   = $(call only,$(filter $(APART),$(tests_of)))
groups_of  = $(call only,$(filter-out $(APART),$(tests_of)))
helpers_of = $(patsubst %.c,$(OUT)/%.o,$(call in_tests,$(1),!))
libs_of    = $(foreach layer,$(SEEN_$(1)),$(LIBS_$(layer)))
# Linked to every test: a limit of time, and failures that can be read (src/tests/unit).
UNIT_OBJS := $(patsubst %.c,$(OUT)/%.o,$(wildcard src/tests/unit/*.c))
WRAP      := -Wl,--wrap=_
UNIT_WRAP := $(addprefix $(WRAP),cmocka_run_group_tests assert_int_equal assert_int_not_equal \
             assert_in_range assert_string_equal assert_memory_equal)

# What the explorer runs: leafd's own files, whose accesses of memory are made calls of it.
MODELLED := src/id/alloc/segment.c src/id/alloc/id_table.c src/id/alloc/allocator.c \
            src/id/snowflake/snowflake.c src/base/arena.c src/base/buf.c
TEST_WITH_model := $(patsubst %.c,$(OUT)/modelled/%.o,$(MODELLED))
$(OUT)/modelled/src/id/alloc/id_table.o: override CPPFLAGS += -DFIRST_BITS=1
$(OUT)/modelled/%.o: %.c
	@mkdir -p $(@D)
	$(call SAY,CC $@)$(CCACHE) $(CC) $(CPPFLAGS) \
		$(filter-out -fsanitize% -fno-sanitize%,$(CFLAGS)) -O1 \
		-fsanitize=thread -include cluster-tests/memory_model/model_atomic.h -c -o $@ $<
# Replicas hold state machines, whose tests have helpers of their own.
TEST_WITH_raft := $(OUT)/libhelp-id.a
ALL_TESTS  = $(foreach layer,$(TESTED),$(call apart_of,$(layer))\
             $(if $(call groups_of,$(layer)),$(OUT)/test-$(layer)))

$(addsuffix .o,$(foreach layer,$(TESTED),$(call tests_of,$(layer)))): \
	override CPPFLAGS += -DUNIT_GROUP -include src/tests/unit/group.h

LINK_TEST = $$(CC) $$(LDFLAGS) $$(UNIT_WRAP) -o $$@ $$(filter-out %.groups,$$^) -lcmocka
define TEST_RULE
$(OUT)/libhelp-$(1).a: $(call helpers_of,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(call SAY,AR $$@)ar qcs $$@ $$^
$(call tests_of,$(1)): $(OUT)/%: $(OUT)/%.o $(UNIT_OBJS) $(OUT)/libhelp-$(1).a $(TEST_WITH_$(1)) \
                      $(foreach layer,$(SEEN_$(1)),$(call lib,$(layer)))
	$$(call SAY,LINK $$@)$(LINK_TEST) $(TEST_LIBS_$(1)) $(call libs_of,$(1))
$(OUT)/test-$(1): $(addsuffix .o,$(call groups_of,$(1))) $(UNIT_OBJS) $(OUT)/libhelp-$(1).a \
                      $(TEST_WITH_$(1)) $(foreach layer,$(SEEN_$(1)),$(call lib,$(layer))) \
                      $(OUT)/test-$(1).groups
	@! nm -Ag --defined-only $(addsuffix .o,$(call groups_of,$(1))) | grep . || { \
		echo "the others would meet these: name their tests in APART" >&2; false; }
	$$(call SAY,LINK $$@)$(LINK_TEST) $(TEST_LIBS_$(1)) $(call libs_of,$(1))
# With other groups it is linked anew.
$(OUT)/test-$(1).groups: anew
	@mkdir -p $$(@D)
	@echo "$(call groups_of,$(1))" | cmp -s - $$@ || \
		echo "$(call groups_of,$(1))" >$$@
endef
$(foreach layer,$(TESTED),$(eval $(call TEST_RULE,$(layer))))

.PHONY: tests list-tests
tests: $(ALL_TESTS)
# A program, or PROGRAM:GROUP.
list-tests:
	@echo $(foreach layer,$(TESTED),$(call apart_of,$(layer)) \
		$(patsubst $(OUT)/%,$(OUT)/test-$(layer):%,$(call groups_of,$(layer))))

## make model              memory orders once more, with larger bounds: some minutes
.PHONY: model
model: $(OUT)/test-model
	@MODEL=long $<

# The simulation: a whole cluster in one process, driven by a seed (raft/sim).
SIM_OBJS := $(patsubst %.c,$(OUT)/%.o,$(wildcard raft/sim/*.c))
SEEDS    ?= 2000
$(OUT)/sim: $(SIM_OBJS) $(foreach layer,raft storage history loop id base,$(call lib,$(layer)))
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^ \
		$(LIBS_raft) $(LIBS_storage) $(LIBS_loop) $(LIBS_base)

# Fuzzers, <dir>/fuzz/fuzz_<what>.c: clang's libFuzzer with ASan and UBSan, each for SECONDS, JOBS
# at a time. They begin with <dir>/fuzz/corpus/fuzz_<what>; what they learn is kept in
# $(BUILD)/fuzz/known-* and used again; an input that fails is beside it.
FUZZED := id storage raft http app ctl
fuzzers_of = $(patsubst %.c,$(OUT)/%,$(shell find $(DIR_$(1)) -path '*/fuzz/fuzz_*.c' 2>/dev/null))
FUZZ_BINS  = $(foreach layer,$(FUZZED),$(call fuzzers_of,$(layer)))
# The same without libFuzzer, by any compiler: they run through the files that are named to them.
replays_of = $(patsubst $(OUT)/%,$(OUT)/replay/%,$(call fuzzers_of,$(1)))
REPLAYS    = $(foreach layer,$(FUZZED),$(call replays_of,$(layer)))
define FUZZ_RULE
$(call fuzzers_of,$(1)): $(OUT)/%: $(OUT)/%.o $(OUT)/libhelp-$(1).a \
                      $(foreach layer,$(SEEN_$(1)),$(call lib,$(layer)))
	$$(call SAY,LINK $$@)$$(CC) $$(LDFLAGS) -fsanitize=fuzzer -o $$@ $$^ -lcmocka \
		$(TEST_LIBS_$(1)) $(call libs_of,$(1))
$(call replays_of,$(1)): $(OUT)/replay/%: $(OUT)/%.o $(OUT)/src/tests/fuzz/replay.o \
                      $(OUT)/libhelp-$(1).a $(foreach layer,$(SEEN_$(1)),$(call lib,$(layer)))
	@mkdir -p $$(@D)
	$$(call SAY,LINK $$@)$$(CC) $$(LDFLAGS) -o $$@ $$^ -lcmocka $(TEST_LIBS_$(1)) $(call libs_of,$(1))
endef
$(foreach layer,$(FUZZED),$(eval $(call FUZZ_RULE,$(layer))))
.PHONY: fuzz fuzz-run replays list-replays
## make fuzz [SECONDS=60]   any bytes to parsers and decoders, each fuzzer for so long (JOBS=2)
fuzz:
	+@$(MAKE) --no-print-directory -j$(shell nproc) CC=clang FLAVOUR=fuzz fuzz-run
fuzz-run: $(FUZZ_BINS)
	@scripts/fuzz "$(or $(SECONDS),60)" "$(or $(JOBS),2)" "$(BUILD)/fuzz" $^
replays: $(REPLAYS)
list-replays:
	@echo $(REPLAYS)

# The tools of the benchmarks: the load generator, and the least that a server can do.
BENCH     := $(BUILD)/bench
bench_objs = $(patsubst %,$(OUT)/scripts/bench/%.o,$(1))
BENCH_LOAD := idset result verify protocol load_options load
.PHONY: bench bench-tools
bench-tools: $(BENCH)/load $(BENCH)/bare $(BENCH)/slow_disk $(BENCH)/distance $(BENCH)/claims
$(BENCH)/load: $(call bench_objs,$(BENCH_LOAD)) $(call lib,base)
	@mkdir -p $(@D)
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^ -lhttp_parser
$(BENCH)/bare: $(call bench_objs,bare) $(call lib,base)
	@mkdir -p $(@D)
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^
$(BENCH)/slow_disk: $(call bench_objs,slow_disk) $(call lib,base)
	@mkdir -p $(@D)
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^
$(BENCH)/distance: $(call bench_objs,distance) $(call lib,base)
	@mkdir -p $(@D)
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -o $@ $^
$(BENCH)/claims: $(call bench_objs,claims) $(OUT)/src/id/alloc/segment.o $(call lib,base)
	@mkdir -p $(@D)
	$(call SAY,LINK $@)$(CC) $(LDFLAGS) -pthread -o $@ $^
## make bench [CASE=strict] compare with other servers: build/bench/report.md (ROUNDS=5 SECONDS=5),
##                          or with BASE=path/to/leafd another build: build/bench/base/report.md
bench:
	@scripts/setup bench
	+@$(MAKE) --no-print-directory -j$(shell nproc) all bench-tools
	@exec setpriv --pdeathsig TERM scripts/bench/bench --build "$(BUILD)" \
		--binary "$(OUT)/leafd" $(if $(BASE),--base "$(BASE)") \
		$(if $(ROUNDS),--rounds "$(ROUNDS)") $(if $(SECONDS),--seconds "$(SECONDS)") \
		$(if $(PRIORITY),--priority) $(CASE)

# Faults on real processes, drawn from a seed (cluster-tests/chaos), and a page about them. LEAFD
# names another binary; CHAOS has further options, as CHAOS="--only kill,pause".
CHAOS_SHIM := $(BUILD)/chaos/disk_shim.so
MINUTES    ?= 2
$(CHAOS_SHIM): cluster-tests/chaos/disk_shim.c
	@mkdir -p $(@D)
	$(call SAY,LINK $@)$(CC) -D_GNU_SOURCE -std=gnu11 -g3 $(WARN) -O2 -fPIC -shared \
		-fvisibility=hidden -o $@ $< -ldl
.PHONY: chaos
## make chaos [MINUTES=2]   faults on real processes; SEED=n (or a-b), NODES=3|5; a page of it
chaos:
	@scripts/setup test
	+@$(MAKE) --no-print-directory -j$(shell nproc) all $(CHAOS_SHIM)
	@LEAFD="$${LEAFD:-$(OUT)/leafd}" /usr/bin/python3 cluster-tests/chaos/run.py \
		--out "$(BUILD)/chaos" --shim "$(CHAOS_SHIM)" --minutes "$(MINUTES)" \
		--nodes "$(NODES)" $(if $(SEED),--seed "$(SEED)") $(CHAOS)

# Each file as the compiler reads it, without the code that it would make of it.
.PHONY: warnings
## make warnings CC=clang   what another compiler warns of, in all C files
warnings:
	@find src storage raft http scripts/bench cluster-tests -name '*.c' | \
		xargs -P $(shell nproc) -I {} $(CC) $(CPPFLAGS) $(shell pkg-config --cflags glib-2.0) \
		-DLEAFD_COMMIT='"$(COMMIT)"' -std=gnu11 $(WARN) -fsyntax-only {}

.PHONY: model-test
## make model-test [MINUTES=2]  random sequences of all operations against a reference model; SEED=n
model-test:
	@scripts/setup test
	+@$(MAKE) --no-print-directory -j$(shell nproc) all next-level
	@LEAFD="$${LEAFD:-$(abspath $(OUT)/leafd)}" exec setpriv --pdeathsig TERM /usr/bin/python3 \
		cluster-tests/model/run.py --minutes "$(MINUTES)" $(if $(SEED),--seed "$(SEED)") $(MODEL)

# The table of settings in the documentation is made from the one in src/app/config/table.c; a test
# compares the two.
.PHONY: config-doc
## make config-doc          write the table of settings into docs/configuration.md
config-doc: $(OUT)/leafd
	@sed -i '/^<!-- settings -->$$/,/^<!-- end of settings -->$$/{/^<!--/!d}' docs/configuration.md
	@$< --print-config-doc | sed -i '/^<!-- settings -->$$/r /dev/stdin' docs/configuration.md

# Manual pages and completions of shells, for packages: made from docs/man, the tables of settings
# and the commands of leafctl.
.PHONY: man completions
## make man completions     manual pages into build/man, completions into build/completions
man: $(OUT)/leafd $(OUT)/leafctl
	$(call SAY,MAN $(BUILD)/man)scripts/make-man "$(BUILD)/man" "$(OUT)"
completions: $(OUT)/leafctl
	@mkdir -p "$(BUILD)/completions"
	$(call SAY,MAKE $(BUILD)/completions)\
		$< --print-completion bash >"$(BUILD)/completions/leafctl.bash"
	@$< --print-completion zsh >"$(BUILD)/completions/_leafctl"
	@$< --print-completion fish >"$(BUILD)/completions/leafctl.fish"

# A cluster on this machine. DATA is where it keeps its data.
NODES ?= 3
DATA  ?= data
.PHONY: run
## make run [NODES=3]       install what is missing, build, run a local cluster of 1, 3 or 5 nodes
##                          (SETTINGS="log.level=debug ..." for all of them)
run:
	@scripts/setup run
	+@$(MAKE) --no-print-directory -j$(shell nproc) all
	@exec setpriv --pdeathsig TERM \
		scripts/run-cluster --nodes "$(NODES)" --data "$(DATA)" --binary "$(OUT)/leafd" \
		$(SETTINGS:%=--setting "%")

# What the newest level means (docs/versions.md): once, before it is released.
RECORDED := src/id/tests/test_recorded
.PHONY: record-level
## make record-level        record what the newest level means, unless that was done before
record-level: $(OUT)/$(RECORDED)
	@LEAFD_RECORD_LEVEL=1 $(OUT)/$(RECORDED)

# The client library for C needs no more than leafctl does, so `make install` takes it along;
# `make LIBLEAFD= install` does not.
LIBLEAFD ?= libleafd
.PHONY: libleafd
libleafd:
	+@$(MAKE) --no-print-directory -C clients/c OUT="$(abspath $(BUILD))/clients/c" library

# Where `make install` puts things; DESTDIR goes before each. A prefix of /usr has its settings in
# /etc.
prefix      ?= /usr/local
bindir      ?= $(prefix)/bin
datarootdir ?= $(prefix)/share
mandir      ?= $(datarootdir)/man
docdir      ?= $(datarootdir)/doc/leafd
sysconfdir  ?= $(if $(filter /usr,$(prefix)),/etc,$(prefix)/etc)
unitdir     ?= $(prefix)/lib/systemd/system
sysusersdir ?= $(prefix)/lib/sysusers.d
libdir      ?= $(prefix)/lib
includedir  ?= $(prefix)/include
# Given to the script alone: exported, they would reach what the tests install, too.
PLACES = $(foreach place,prefix bindir datarootdir mandir docdir sysconfdir unitdir sysusersdir \
	libdir includedir DESTDIR,$(place)='$($(place))')
.PHONY: install uninstall
## make install             programs, libleafd, units, an example of leafd.conf, man pages, guides:
##                          DESTDIR, prefix=/usr/local, sysconfdir ... as GNU has them
install: all $(LIBLEAFD) $(if $(wildcard scripts/make-man),man completions)
	@$(PLACES) scripts/install-files --build "$(BUILD)" install
## make uninstall           remove them (settings that were changed stay)
uninstall:
	@$(PLACES) scripts/install-files --build "$(BUILD)" uninstall

# The Debian package, in a clean copy of the tree.
.PHONY: deb deb-test
## make deb                 the Debian package of this commit: build/deb
deb:
	@scripts/setup deb
	@scripts/deb-test --build "$(BUILD)" --only-build
## make deb-test            that, looked over; installed, run, upgraded, removed and purged with
##                          systemd in a container
deb-test:
	@scripts/setup deb
	@exec setpriv --pdeathsig TERM scripts/deb-test --build "$(BUILD)"

# The sources of a commit, without their history; whoever unpacks them builds the same leafd.
DIST := leafd-$(VERSION)
.PHONY: dist
## make dist                build/leafd-VERSION.tar.gz: the sources of this commit, without git;
##                          the same bytes wherever it is made
dist:
	@mkdir -p "$(BUILD)"
	@git -c tar.umask=0022 archive --format=tar --prefix="$(DIST)/" -o "$(BUILD)/$(DIST).tar" HEAD
	@git rev-parse --short=12 HEAD >"$(BUILD)/COMMIT"
	@tar --append --file="$(BUILD)/$(DIST).tar" --transform='s,^,$(DIST)/,' \
		--owner=root:0 --group=root:0 --mode=0644 \
		--mtime="@$$(git log -1 --format=%ct)" -C "$(BUILD)" COMMIT
	@gzip -nf "$(BUILD)/$(DIST).tar"
	@rm "$(BUILD)/COMMIT"
	@echo "$(BUILD)/$(DIST).tar.gz"

# The page at `/` in a browser, which `make test` does not install. axe-core, which looks for what
# keeps people out, comes from npm where there is one.
AXE := $(BUILD)/page/node_modules/axe-core/axe.min.js
REDOCLY := $(BUILD)/page/node_modules/.bin/redocly
.PHONY: page-test
## make page-test           the page in a browser: each view, screenshots in build/page; and a
##                          linter for http/api/openapi.json
page-test:
	@scripts/setup page
	+@$(MAKE) --no-print-directory -j$(shell nproc) all
	@mkdir -p "$(BUILD)/page"
	@[ -e "$(AXE)" ] || [ -z "$$(command -v npm)" ] || \
		npm install --silent --no-fund --no-audit --prefix "$(BUILD)/page" axe-core@4.10.2
	@[ -e "$(AXE)" ] || echo "page-test: without npm axe-core does not look at the page"
	@[ -e "$(REDOCLY)" ] || [ -z "$$(command -v npm)" ] || npm install --silent --no-fund \
		--no-audit --prefix "$(BUILD)/page" @redocly/cli@2.77.0
	@[ ! -e "$(REDOCLY)" ] || REDOCLY_TELEMETRY=off "$(REDOCLY)" lint http/api/openapi.json
	@[ -e "$(REDOCLY)" ] || echo "page-test: without npm redocly does not look at openapi.json"
	@LEAFD_PAGE_TEST=1 LEAFD="$(abspath $(OUT))/leafd" /usr/bin/python3 -m pytest -q \
		cluster-tests/test_page.py cluster-tests/test_page_browser.py

# Clients of Redis in other languages at the RESP door; those of Node come from npm where there is
# one.
RESP_MODULES := $(BUILD)/resp/node_modules
.PHONY: resp-test
## make resp-test           the RESP door by Redis's clients of Go and Node, too
resp-test:
	@scripts/setup clients
	+@$(MAKE) --no-print-directory -j$(shell nproc) all
	@mkdir -p "$(BUILD)/resp"
	@[ -e "$(RESP_MODULES)/openapi-fetch" ] || [ -z "$$(command -v npm)" ] || \
		npm install --silent --no-fund --no-audit --prefix "$(BUILD)/resp" \
			ioredis@6.0.0 redis@6.3.1 redis5@npm:redis@5.12.1 axios@1.21.1 openapi-fetch@0.17.0
	@LEAFD="$(abspath $(OUT))/leafd" LEAFD_RESP_MODULES="$(abspath $(RESP_MODULES))" \
		/usr/bin/python3 -m pytest -q -rs cluster-tests/test_resp.py \
		cluster-tests/test_resp_clients.py

# The client libraries (docs/clients.md), each by its own Makefile, and the suite that they share,
# whose tests have a limit of time each, and together CONFORMANCE_S.
CONFORMANCE_S := 1800
.PHONY: clients clients-test
## make clients             the client libraries whose languages are installed: build/clients
clients:
	@scripts/clients build
## make clients-test        their own tests, and one suite for all against real nodes
##                          (PYTEST="-k strict"; LEAFD_CLIENTS=go,c: these alone)
clients-test:
	@scripts/setup clients
	+@$(MAKE) --no-print-directory -j$(shell nproc) all
	@scripts/clients build
	@scripts/clients test
	@for those in "not alone" alone; do \
		workers=$$(($(shell nproc) + 1)); [ "$$those" != alone ] || workers=0; \
		LEAFD="$(abspath $(OUT))/leafd" timeout -k 30 $(CONFORMANCE_S) /usr/bin/python3 -m pytest \
			-q -rs -n $$workers --dist loadgroup -m "$$those" --durations=10 \
			-p no:cacheprovider clients/conformance $(PYTEST) || { \
			code=$$?; [ $$code != 124 ] || \
			echo "clients-test: clients/conformance hangs: not over in $(CONFORMANCE_S) s" >&2; \
			[ $$code = 5 ] || exit $$code; } \
	done  # 5: PYTEST chose none of those

## make clients-many        100 processes of all languages at one tag for a minute; leaders die,
##                          processes stop and fork, clocks step
.PHONY: clients-many
clients-many:
	@scripts/setup clients
	+@$(MAKE) --no-print-directory -j$(shell nproc) all
	@scripts/clients build
	@LEAFD_CLIENTS_LONG=1 LEAFD="$(abspath $(OUT))/leafd" timeout -k 30 900 /usr/bin/python3 \
		-m pytest -q -rs -p no:cacheprovider clients/conformance -k processes_of $(PYTEST)

# In containers (docs/operations.md).
.PHONY: image compose-test
## make image               leafd's container image, leafd:local, which knows its commit
image:
	docker build -t leafd:local --build-arg COMMIT="$(COMMIT)" .
## make compose-test        docker-compose.yml for real: kill, cut off, pause, stop; on any Docker
compose-test:
	@exec setpriv --pdeathsig TERM scripts/compose-test --build "$(BUILD)"

## make check-dashboard     the dashboard by Grafana's own types, which npm fetches (a part of
##                          compose-test)
.PHONY: check-dashboard
check-dashboard:
	@scripts/check-dashboard --build "$(BUILD)"
	@scripts/check-dashboard --build "$(BUILD)" --self-test

# The stages of the tests are run by scripts/test-all, which sums them up in its last line.
TEST_ALL = scripts/test-all --build "$(BUILD)" --cc "$(CC)"
STAGES  ?= check build unit-asan corpus unit-tsan sim cluster
.PHONY: test check unit unit-asan unit-tsan corpus sim cluster format tidy clean
## make test                all of the tests below but unit, which unit-asan has, in some 18 minutes
##                          (STAGES="unit sim")
test:
	@scripts/setup test
	@$(TEST_ALL) $(STAGES)
## make nightly             all that there is, with long runs of what draws by chance: a night
.PHONY: nightly
nightly:
	@.ci/run nightly
## make check               layers, style, format, and that the files form a tree
check:
	@$(TEST_ALL) check
## make check-hardening     PIE, RELRO, NX, canaries, FORTIFY, CET: a part of check
.PHONY: check-hardening
check-hardening: $(OUT)/leafd $(OUT)/leafctl $(OUT)/check-history
	@CC="$(CC)" scripts/check-hardening --self-test
	@scripts/check-hardening $^
.PHONY: shape
shape: $(OUT)/leafd $(OUT)/leafctl $(OUT)/check-history $(OUT)/sim $(call lib,model)
	@scripts/check-shape $(OUT)
## make corpus              what the fuzzers know and ever found, once more, with ASan and UBSan
## make unit                unit tests (unit-asan: with ASan and UBSan, unit-tsan: with TSan)
unit unit-asan unit-tsan corpus:
	@$(TEST_ALL) $@
## make sim [SEEDS=2000]    simulate so many clusters; SEED=n: that one alone, with its story;
##                          STORE=lmdb: all on the store that leafd has, not only every 25th
sim: $(OUT)/sim
	$(OUT)/sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --jobs $(shell nproc)) \
		$(if $(STORE),--store $(STORE))
## make sim-mutants         plant faults one by one and see that the simulation finds each
.PHONY: sim-mutants
sim-mutants:
	@scripts/sim-mutants --jobs $(shell nproc)
## make mutants [COUNT=80]  plant faults in any layer: does a test notice? SEED=n
.PHONY: mutants
mutants:
	@scripts/setup test
	@scripts/mutants --jobs $(shell nproc) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))
## make cluster             tests of real processes, by pytest
cluster:
	@$(TEST_ALL) cluster
## make format              let clang-format lay out all C files
format:
	clang-format -i --style=file $(shell find src storage raft http scripts/bench cluster-tests \
		-name '*.[ch]')
## make tidy                clang-tidy's opinion, which is not part of the tests
tidy:
	clang-tidy --quiet $(shell find src storage raft http -name '*.c') -- -std=gnu11 $(CPPFLAGS)
## make clean               remove what was built
clean:
	rm -rf $(BUILD)

-include $(shell find $(OUT) -name '*.d' 2>/dev/null)
.SECONDARY:
