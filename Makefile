# tapconv's targets; `make help` lists them. A C compiler, make and Python 3 with venv suffice: CMake and Ninja are
# installed into .tools where they are missing, what the tests need into .venv.
#
# CC      the C compiler                          PREFIX, DESTDIR  where `make install` installs
# BUILD   the build directory                     FUZZ_SECONDS     how long `make fuzz` runs each fuzzer
# JOBS    compilers at once                       PYTHON           a Python 3 that has venv

BUILD ?= build
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 10
PYTHON ?= python3
# The sanitizers' builds use clang where there is one, so that both compilers compile everything.
SANITIZER_CC ?= $(or $(shell command -v clang),cc)

tools := $(CURDIR)/.tools/bin
CMAKE := $(or $(shell cmake -P cmake/minimum.cmake 2>/dev/null && command -v cmake),$(tools)/cmake)
NINJA := $(or $(shell command -v ninja),$(tools)/ninja)
CTEST := $(dir $(CMAKE))ctest
missing := $(filter $(tools)/%,$(CMAKE) $(NINJA))

# $(call configure,DIRECTORY,OPTIONS) and $(call compile,DIRECTORY)
configure = $(CMAKE) -S . -B $(1) -G Ninja -DCMAKE_MAKE_PROGRAM=$(NINJA) $(2)
compile = $(CMAKE) --build $(1) --parallel $(JOBS)$(if $(2), --target $(2))
# Every sanitizer sees threads through the test-only pthread backend: OpenMP's runtime is not instrumented.
sanitize = CC=$(SANITIZER_CC) $(call configure,$(1),-DCMAKE_BUILD_TYPE=RelWithDebInfo -DTAPCONV_PARALLEL=pthreads $(2))
sources = $(shell find include src cli tests bench examples -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' 2>/dev/null)

python_folders := $(wildcard scripts tests bench python examples)
comma := ,

.PHONY: build demo test lint format asan tsan fuzz bench install uninstall clean help tools lint-tools test-tools bench-tools
.NOTPARALLEL:

build: tools ## the library and the command, optimised (the default)
	$(call configure,$(BUILD))
	$(call compile,$(BUILD))

# The command alone: neither the tests nor the CUDA engine, whose compilation takes minutes.
demo: tools ## both measured layers and a real recording, against float64 and the machine's peak
	$(call configure,$(BUILD))
	$(call compile,$(BUILD),tapconv_cli)
	BUILD=$(BUILD) $(PYTHON) bench/demo.py

test: build test-tools ## all tests: CTest and pytest
	$(PYTHON) scripts/run_tests.py $(CTEST) $(BUILD) .venv/bin/python

lint: tools lint-tools ## formatting and static analysis, of C and Python
	$(tools)/clang-format --dry-run -Werror $(sources)
	$(tools)/ruff check $(python_folders)
	@command -v run-clang-tidy >/dev/null || { echo "tapconv: clang-tidy is missing; install it (on Debian: apt-get install clang-tidy)"; exit 1; }
	CC=$(SANITIZER_CC) $(call configure,build-lint)
	run-clang-tidy -quiet -p build-lint -j $(JOBS)

format: lint-tools ## formats C, and mends what ruff can mend in Python
	$(tools)/clang-format -i $(sources)
	$(tools)/ruff check --fix $(python_folders)

asan: tools ## the tests under the address and undefined-behaviour sanitizers
	$(call sanitize,build-asan,-DTAPCONV_SANITIZE=address$(comma)undefined)
	$(call compile,build-asan)
	$(PYTHON) scripts/run_tests.py $(CTEST) build-asan

tsan: tools ## the tests under the thread sanitizer
	$(call sanitize,build-tsan,-DTAPCONV_SANITIZE=thread)
	$(call compile,build-tsan)
	$(PYTHON) scripts/run_tests.py $(CTEST) build-tsan

fuzz: tools ## each fuzzer for FUZZ_SECONDS (needs clang)
	$(call sanitize,build-fuzz,-DTAPCONV_FUZZ=ON -DTAPCONV_SANITIZE=fuzzer-no-link$(comma)address$(comma)undefined)
	$(call compile,build-fuzz)
	$(PYTHON) scripts/fuzz.py build-fuzz $(FUZZ_SECONDS)

bench: build bench-tools ## the layers beside PyTorch, ONNX Runtime and OpenVINO; minutes
	.venv/bin/python bench/peers_cpu.py

install: build ## into PREFIX (below DESTDIR, where that is set)
	$(call configure,$(BUILD),-DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX)))
	DESTDIR="$(DESTDIR)" $(CMAKE) --install $(BUILD)
	cp $(BUILD)/install_manifest.txt $(BUILD)/installed.txt # the tests install as well, elsewhere

uninstall: ## removes what the last `make install` installed (below DESTDIR, where that was set)
	sh scripts/uninstall.sh "$(BUILD)/installed.txt" "$(DESTDIR)"

clean: ## removes what was built; .venv and .tools stay
	rm -rf $(BUILD) build-asan build-tsan build-fuzz build-lint

help: ## lists the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

tools:
	@$(if $(missing),$(PYTHON) scripts/venv.py .tools scripts/requirements-build.txt,:)

lint-tools:
	@$(PYTHON) scripts/venv.py .tools scripts/requirements-lint.txt

# The Python package is built without the CUDA engine, which CTest has in $(BUILD), and in a directory that is kept.
test-tools: tools
	@$(PYTHON) scripts/venv.py .venv tests/requirements.txt
	@PATH="$(tools):$$PATH" .venv/bin/python -m pip install --disable-pip-version-check --quiet --no-build-isolation --no-deps \
		-Cbuild-dir=$(BUILD)/python -Ccmake.define.TAPCONV_CUDA=off .

bench-tools:
	@$(PYTHON) scripts/venv.py .venv bench/requirements.txt
