# Two commands for everybody: `make demo` and `make test`. Everything they need, they install.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
TOOLS := $(CURDIR)/.tools
PYTHON := $(CURDIR)/.venv/bin/python
NILO := $(CURDIR)/target/release/nilo

.PHONY: help demo build test test-rust test-python test-vm check fmt bench fuzz clean

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## Build the nilo command
	cargo build --release --locked -p nilo-cli

demo: build ## Record a small training job and show the summary and the picture
	cd demo && NILO=$(NILO) $(NILO) run --interval 0.02 --name demo -- python3 train.py
	cd demo && $(NILO) show demo && $(NILO) plot demo -o demo.svg
	@echo && echo "The picture is demo/demo.svg. Next: $(NILO) run -- YOUR COMMAND"

test: test-rust test-python test-vm ## Run every test; installs what they need

test-rust: $(TOOLS)/bin/cargo-nextest
	PATH=$(TOOLS)/bin:$$PATH cargo nextest run --workspace --locked
	cargo test --workspace --doc --locked

test-python: build .venv/ready
	$(PYTHON) -m pytest -q tests/python

test-vm: build ## Test against a real cgroup v2 in an emulated machine
	tests/vm/run.sh $(NILO)

check: $(TOOLS)/bin/cargo-deny ## Format, lints, licences, dependency direction
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	PATH=$(TOOLS)/bin:$$PATH cargo deny --offline check bans licenses sources
	python3 scripts/check_architecture.py

fmt:
	cargo fmt --all

bench: build ## Measure ourselves and the rivals in one run
	python3 bench/run.py --markdown docs/benchmarks/recorder.md

fuzz: ## Fuzz every parser of outside bytes, a minute each
	scripts/fuzz.sh 60

# cargo-nextest comes with many machines; otherwise it is built once.
$(TOOLS)/bin/cargo-nextest:
	mkdir -p $(TOOLS)/bin
	@if command -v cargo-nextest >/dev/null; then ln -sf "$$(command -v cargo-nextest)" $@; \
	else cargo install cargo-nextest --locked --root $(TOOLS); fi

# Only the check itself is used, so it is built quickly rather than to be quick.
$(TOOLS)/bin/cargo-deny:
	CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install cargo-deny --version 0.20.2 --locked --root $(TOOLS)

.venv/ready: tests/python/requirements.txt
	python3 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -r tests/python/requirements.txt
	touch $@

clean:
	rm -rf target .venv demo/.nilo demo/demo.svg
