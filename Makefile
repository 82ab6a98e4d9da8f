# Two commands for everybody: `make demo` and `make test`. Everything they need, they install.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
TOOLS := $(CURDIR)/.tools
PYTHON := $(CURDIR)/.venv/bin/python
NILO := $(CURDIR)/target/release/nilo

INTEGRATIONS := $(CURDIR)/.venv-integrations/bin/python

.PHONY: help demo build install develop dist environments test test-rust test-python test-dist test-integrations test-gpu test-vm check fmt bench bench-bpe bench-buffers bench-gc bench-batch-size bench-fit bench-planner bench-training bench-verdicts bench-truth fuzz clean

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

build: ## Build the nilo command
	cargo build --release --locked -p nilo-cli

install: ## Install the command and the Python package into the Python at hand
	python3 -m pip install .

develop: .venv/ready ## Build the package into .venv, with the sources in python/ as they are
	mkdir -p target/nilometer.data/scripts
	PATH=$(CURDIR)/.venv/bin:$$PATH VIRTUAL_ENV=$(CURDIR)/.venv .venv/bin/maturin develop --release --quiet

dist: .venv-dist/ready ## Build the sdist and a wheel for every Linux with glibc 2.17 or newer, into dist/
	.venv-dist/bin/python scripts/dist.py

demo: build ## Record a small training job and show the summary and the picture
	cd demo && NILO=$(NILO) $(NILO) run --interval 0.02 --name demo -- python3 train.py
	cd demo && $(NILO) show demo && $(NILO) plot demo -o demo.svg
	@echo && echo "The picture is demo/demo.svg. Next: $(NILO) run -- YOUR COMMAND"

# Packages are fetched while Rust compiles.
test: ## Run every test; installs what they need
	$(MAKE) environments & fetching=$$!; $(MAKE) test-rust; wait $$fetching
	$(MAKE) dist
	$(MAKE) --old-file=dist test-python test-dist test-integrations test-vm

environments: .venv-integrations/ready .venv/ready .venv-dist/ready

# Half of the time these tests wait.
test-rust: $(TOOLS)/bin/cargo-nextest
	PATH=$(TOOLS)/bin:$$PATH cargo nextest run --workspace --locked --test-threads $$((2 * $$(nproc)))
	cargo test --workspace --doc --locked

# What is published is what is tested, and built once: the wheel here and with the frameworks, the command in it in the emulated machine.
# Most of these tests wait, so four run at a time.
test-python: .venv/ready dist ## Test the package and the command as installed from the wheel
	tests/python/install_terminal_programs.sh
	.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/nilometer-*.whl
	$(PYTHON) -m mypy.stubtest nilometer._native
	NILO=$(CURDIR)/.venv/bin/nilo $(PYTHON) -m pytest -q -n 4 tests/python

test-dist: .venv/ready dist ## Test what is published, in a clean environment without Rust
	$(PYTHON) -m pytest -q tests/dist

test-integrations: .venv-integrations/ready dist ## Test with the real frameworks; installs PyTorch and its CUDA libraries
	.venv-integrations/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/nilometer-*.whl
	$(INTEGRATIONS) -m pytest -q -n 2 tests/integrations

test-gpu: ## Test on a real GPU, with the PyTorch of the Python at hand; needs the package installed there
	python3 -m pytest -q -s -p no:cacheprovider tests/gpu

test-vm: .venv/ready dist ## Test against a real cgroup v2 in an emulated machine
	.venv/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/nilometer-*.whl
	tests/vm/run.sh .venv/bin/nilo

check: $(TOOLS)/bin/cargo-deny ## Format, lints, licences, dependency direction
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo check --quiet --manifest-path fuzz/Cargo.toml --no-default-features --locked --target-dir target
	cargo fetch --quiet --locked # of every platform: nothing else needs those of others, and the next line fetches nothing
	PATH=$(TOOLS)/bin:$$PATH cargo deny --offline check bans licenses sources
	@if compgen -G "$${CARGO_HOME:-$$HOME/.cargo}/advisory-dbs/*" > /dev/null; then \
		PATH=$(TOOLS)/bin:$$PATH cargo deny --offline check advisories; \
	else echo "advisories: not checked, no database on this machine; \`cargo deny fetch db\` gets it"; fi
	python3 scripts/check_architecture.py

fmt:
	cargo fmt --all

bench: build develop ## Measure ourselves and the rivals in one run: the recorder, then logging
	python3 bench/run.py --markdown docs/benchmarks/recorder.md
	python3 bench/trackers.py --markdown docs/benchmarks/trackers.md

bench-bpe: build develop ## Measure training and encoding of BPE with the rivals in one run; BPE_BENCH=--quick takes two minutes
	cargo build --release --locked -p nilo-tokenizer --example count
	python3 bench/bpe/run.py $(or $(BPE_BENCH),--markdown docs/benchmarks/bpe.md)

bench-buffers: develop ## Measure replay buffers with the rivals in one run; the Python at hand needs them
	PYTHONPATH=$(CURDIR)/python python3 bench/buffers.py --markdown docs/benchmarks/buffers.md

bench-gc: develop ## Measure ways to collect garbage in one run
	PYTHONPATH=$(CURDIR)/python $(PYTHON) bench/gc.py --markdown docs/benchmarks/gc.md

bench-batch-size: ## Measure searches for the largest batch against the true maximum, on the CPU
	PYTHONPATH=$(CURDIR)/python $(INTEGRATIONS) bench/batch_finder.py --markdown docs/benchmarks/batch-size.md

bench-fit: build develop ## Compare estimates of GPU memory with what was measured on a GPU
	NILO=$(NILO) PYTHONPATH=$(CURDIR)/python $(INTEGRATIONS) -W ignore bench/fit.py --markdown docs/benchmarks/fit.md

bench-planner: develop ## Measure how long checkpoint plans take
	PYTHONPATH=$(CURDIR)/python $(PYTHON) bench/checkpoint_plan.py --markdown docs/benchmarks/planner.md

bench-training: ## Measure what the optimizer saves in training; needs a GPU, PyTorch and transformers in the Python at hand
	python3 bench/training_memory.py --json target/training.json
	python3 bench/training_page.py target/training.json --markdown docs/benchmarks/optimize.md --date $$(date +%F)

bench-verdicts: ## Score forecasts and leak findings on traces of known outcome
	cargo run --release --locked -p nilo-verdict-bench -- --seeds reporting --traces-per-shape 40 --markdown docs/benchmarks/verdicts.md

bench-truth: build ## Compare recorded memory with the exact pages of real process trees; needs root, takes ten minutes
	cargo build --release --locked -p nilo-truth-bench
	target/release/nilo-truth-bench measure --nilo $(NILO) --jobs epochs,forks,shared-file,shared-memory,short-workers,late-copies,growing-workers,double-maps,random,busy \
		--forks 3000 --seeds 1,2,3,4 --seconds 120 --markdown docs/benchmarks/truth.md

fuzz: ## Fuzz every parser of outside bytes, a minute each
	scripts/fuzz.sh 60

# cargo-nextest comes with many machines; otherwise it is built once.
$(TOOLS)/bin/cargo-nextest:
	mkdir -p $(TOOLS)/bin
	@if command -v cargo-nextest >/dev/null; then ln -sf "$$(command -v cargo-nextest)" $@; \
	else cargo install cargo-nextest --locked --root $(TOOLS); fi

# Only the check itself is used, so it is built quickly rather than to be quick.
$(TOOLS)/bin/cargo-deny:
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install cargo-deny --version 0.20.2 --locked --root $(TOOLS)

.venv/ready: tests/python/requirements.txt
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -r tests/python/requirements.txt
	touch $@

.venv-dist/ready: scripts/dist-requirements.txt
	python3 -m venv .venv-dist
	.venv-dist/bin/pip install --quiet --disable-pip-version-check -r scripts/dist-requirements.txt
	touch $@

.venv-integrations/ready: tests/integrations/requirements.txt
	python3 -m venv .venv-integrations
	.venv-integrations/bin/pip install --quiet --disable-pip-version-check -r tests/integrations/requirements.txt
	touch $@

clean:
	rm -rf target dist .venv .venv-dist .venv-integrations demo/.nilo demo/demo.svg
