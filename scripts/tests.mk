# tests.mk - how what tests leafd is built; the Makefile includes it.

# Unit tests: <dir>/tests/test_<file>.c, a group of cmocka's each, beside what they test. All groups
# of a layer are one program, $(OUT)/test-LAYER (src/tests/unit/main.c); each can also be made a
# program of its own, by the name of its file. A program links its layer and those below, and no
# others; other files of tests folders are helpers, of which it takes what it names.
SEEN_node    := $(LAYERS)
SEEN_http    := http loop id state base
SEEN_service := service raft storage loop id state base
SEEN_raft    := service raft storage loop id state base
SEEN_storage := storage base
SEEN_loop    := loop base
SEEN_id      := id loop state base
SEEN_state   := state base
SEEN_base    := base
SEEN_ctl     := $(CTL_SEES)
SEEN_history := history base
SEEN_memory_model := memory_model id state base
# The explorer of memory orders takes the place of TSan's library.
TESTED := base loop state id history node storage raft service http ctl \
          $(if $(filter tsan,$(FLAVOUR)),,memory_model)
IN_TESTS   := $(call only,/tests/,$(FILES))
TEST_FILES := $(call only,/test_,$(IN_TESTS))
# Always programs of their own: they take the place of functions of the system or of leafd, which
# the other groups would meet, too. A test that does so and is not named here fails to build.
APART      := $(addprefix $(OUT)/,src/node/tests/test_replace_lost src/node/tests/test_run \
              src/node/tests/test_supervisor src/node/recovery/tests/test_saved \
              $(addprefix storage/lmdb/tests/,test_failing test_power test_power_dirs test_room) \
              $(basename $(shell grep -rl --include="test_*.c" "_world.h" http 2>/dev/null)))
# Groups to take, by the names of their files without .c; all if there is none.
ONLY       ?=
tests_of   = $(call of,$(1),$(TEST_FILES))
chosen_of  = $(if $(ONLY),$(filter $(addprefix $(OUT)/,$(ONLY)),$(tests_of)),$(tests_of))
apart_of   = $(filter $(APART),$(chosen_of))
groups_of  = $(filter-out $(APART),$(chosen_of))
# Linked to every test: a limit of time, and failures that can be read (src/tests/unit).
UNIT_OBJS  := $(patsubst %.c,$(OUT)/%.o,$(filter src/tests/unit/%,$(FILES)))
WRAP       := -Wl,--wrap=_
UNIT_WRAP  := $(addprefix $(WRAP),cmocka_run_group_tests assert_int_equal \
              assert_int_not_equal assert_in_range assert_string_equal assert_memory_equal)
# What tests need beside: the parser that ours is held against; the helpers of the state machine's
# tests; leafd's own files, whose accesses of memory are made calls of the explorer.
EXTRA_http := -lhttp_parser
HELP_raft  := $(OUT)/libhelp-id.a $(OUT)/libhelp-state.a $(OUT)/libhelp-storage.a
HELP_service := $(OUT)/libhelp-raft.a $(HELP_raft)
HELP_memory_model := $(patsubst %,$(OUT)/modelled/src/%.o,base/buf id/alloc/batch \
                     id/alloc/segment id/alloc/id_table id/alloc/allocator id/snowflake/snowflake)
$(OUT)/modelled/src/id/alloc/id_table.o: OUR_CPPFLAGS += -DFIRST_BITS=1
$(OUT)/modelled/%.o: OUR_CFLAGS := $(filter-out -fsanitize% -fno-sanitize%,$(OUR_CFLAGS)) -O1 \
                     -fsanitize=thread -include cluster-tests/memory_model/model_atomic.h
$(OUT)/modelled/%.o: %.c
	$(COMPILE)
$(patsubst %.c,$(OUT)/%.o,$(TEST_FILES)): \
	OUR_CPPFLAGS += -DUNIT_GROUP -include src/tests/unit/group.h

define TEST_RULES
$(OUT)/libhelp-$(1).a: $(addsuffix .o,$(call of,$(1),$(filter-out $(TEST_FILES),$(IN_TESTS))))
	$$(ARCHIVE)
$(tests_of) $(OUT)/test-$(1): WITH := $(UNIT_WRAP) -lcmocka $(EXTRA_$(1)) $(call links,$(SEEN_$(1)))
$(tests_of) $(OUT)/test-$(1): $(UNIT_OBJS) $(OUT)/libhelp-$(1).a $(HELP_$(1)) \
                              $(call libs,$(SEEN_$(1)))
$(tests_of): %: %.o
	$$(LINK)
$(OUT)/test-$(1): $(addsuffix .o,$(groups_of)) $(OUT)/test-$(1).groups
	@! nm -Ag --defined-only $(addsuffix .o,$(groups_of)) | grep . || { \
		echo "the others would meet these: name their tests in APART" >&2; false; }
	$$(LINK)
$(OUT)/test-$(1).groups: anew
	$$(call NOTE,$(groups_of))
endef
$(foreach layer,$(TESTED),$(eval $(call TEST_RULES,$(layer))))
.PHONY: tests list-tests model
tests: $(foreach layer,$(TESTED),$(call apart_of,$(layer))\
         $(if $(call groups_of,$(layer)),$(OUT)/test-$(layer)))
# A program, or PROGRAM:GROUP.
list-tests:
	@echo $(foreach layer,$(TESTED),$(call apart_of,$(layer)) \
		$(patsubst $(OUT)/%,$(OUT)/test-$(layer):%,$(call groups_of,$(layer))))
# Memory orders once more, with larger bounds: some minutes.
model: $(OUT)/test-memory_model
	@MODEL=long LEAFD_TEST_LIMIT_S=300 $<

# The simulation: a whole cluster in one process, driven by a seed (cluster-tests/sim).
$(OUT)/sim: WITH := $(call links,raft storage loop base)
$(OUT)/sim: $(patsubst %.c,$(OUT)/%.o,$(filter cluster-tests/sim/%,$(FILES))) \
            $(OUT)/libhelp-storage.a \
            $(call libs,service raft storage history loop id state base)
	$(LINK)

# Fuzzers, <dir>/fuzz/fuzz_<what>.c, with clang's libFuzzer; and replays, the same by any compiler,
# which run through the files that are named to them.
FUZZED := id storage raft http node ctl
fuzzers_of = $(call of,$(1),$(call only,/fuzz/fuzz_,$(FILES)))
replays_of = $(patsubst $(OUT)/%,$(OUT)/replay/%,$(fuzzers_of))
define FUZZ_RULES
$(fuzzers_of) $(replays_of): WITH := -lcmocka $(EXTRA_$(1)) $(call links,$(SEEN_$(1)))
$(fuzzers_of): WITH += -fsanitize=fuzzer
$(fuzzers_of): $(OUT)/%: $(OUT)/%.o
	$$(LINK)
$(replays_of): $(OUT)/replay/%: $(OUT)/%.o $(OUT)/src/tests/fuzz/replay.o
	$$(LINK)
$(fuzzers_of) $(replays_of): $(OUT)/libhelp-$(1).a $(HELP_$(1)) $(call libs,$(SEEN_$(1)))
endef
$(foreach layer,$(FUZZED),$(eval $(call FUZZ_RULES,$(layer))))
REPLAYS := $(foreach layer,$(FUZZED),$(call replays_of,$(layer)))
.PHONY: fuzz-run replays list-replays
fuzz-run: $(foreach layer,$(FUZZED),$(call fuzzers_of,$(layer)))
	@scripts/fuzz "$(or $(SECONDS),60)" "$(or $(JOBS),2)" "$(BUILD)/fuzz" $^
replays: $(REPLAYS)
list-replays:
	@echo $(REPLAYS)

# The tools of the benchmarks: the load generator, and the least that a server can do.
.PHONY: bench-tools
bench-tools: $(addprefix $(BUILD)/bench/,load bare slow_disk distance claims)
$(BUILD)/bench/load: WITH := -lhttp_parser
$(BUILD)/bench/load: $(addprefix $(OUT)/scripts/bench/,idset.o result.o verify.o protocol.o \
                     load_options.o)
$(BUILD)/bench/claims: $(OUT)/src/id/alloc/segment.o
$(BUILD)/bench/%: $(OUT)/scripts/bench/%.o $(call lib,base)
	$(LINK)

# What the newest level means (docs/versions.md): once, before it is released.
RECORDED := src/id/tests/test_recorded
.PHONY: record-level
record-level: $(OUT)/$(RECORDED)
	@LEAFD_RECORD_LEVEL=1 $(OUT)/$(RECORDED)
