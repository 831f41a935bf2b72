# Every habit of the project as a target; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Whatever is built or downloaded stays outside the tree.
export DRAGSTRIP_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dragstrip
export CARGO_TARGET_DIR ?= $(DRAGSTRIP_CACHE)/target
export CLUSTER ?= local

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
HOST_TARGET = $(shell rustc -vV | sed -n 's/^host: //p')
DIST := $(DRAGSTRIP_CACHE)/dist
OPERATOR_IMAGE := dragstrip.dev/operator:$(VERSION)
RUNNER_IMAGE := dragstrip.dev/runner:$(VERSION)
CLUSTER_ENV = eval "$$(testbed/cluster env)"

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##### Building

.PHONY: build
build: ## Build the static programs into the cache (release)
	@echo "==> compiling the operator, the runner, the load generator and the command line"
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target $(HOST_TARGET) \
	  -p dragstrip-operator -p dragstrip-runner -p dragstrip-loadgen -p dragstrip
	mkdir -p $(DIST)/operator $(DIST)/runner $(DIST)/bin
	install -C $(CARGO_TARGET_DIR)/$(HOST_TARGET)/release/dragstrip-operator $(DIST)/operator/
	install -C $(CARGO_TARGET_DIR)/$(HOST_TARGET)/release/dragstrip-{runner,loadgen} $(DIST)/runner/
	install -C $(CARGO_TARGET_DIR)/$(HOST_TARGET)/release/dragstrip $(DIST)/bin/

.PHONY: images
images: build ## Build the product's images and load them into the cluster's nodes
	testbed/cluster build-image $(OPERATOR_IMAGE) operator/Containerfile $(DIST)/operator
	testbed/cluster build-image $(RUNNER_IMAGE) bench-jobs/runner/Containerfile $(DIST)/runner

.PHONY: generate
generate: ## Write the generated files: CRDs and the chart's copy of them, the schema of results
	cargo run --quiet --locked -p dragstrip-crds --features crdgen --bin crdgen
	cargo run --quiet --locked -p dragstrip-parsers --bin result-schema >docs/result.schema.json

##### Checking

.PHONY: format
format: ## Format the code
	cargo fmt --all

.PHONY: check
check: generate tools ## Format, lint, licences, generated files, shell scripts
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
	$(DRAGSTRIP_CACHE)/tools/bin/cargo-deny --locked check bans licenses sources
	shellcheck -x -P testbed $$(git ls-files testbed bench-jobs .ci | xargs -r grep -lE '^#!.*(ba)?sh')
	git diff --exit-code -- crds/yaml charts/dragstrip/templates/crds docs/result.schema.json \
	  || { echo "generated files are stale: run 'make generate' and commit the result"; exit 1; }

.PHONY: tools
tools: ## Install what the checks need
	@command -v shellcheck >/dev/null || { echo "==> installing shellcheck"; apt-get install -y -qq shellcheck >/dev/null; }
	@command -v redis-server >/dev/null || { echo "==> installing redis-server, which the tests start"; apt-get install -y -qq redis-server redis-tools >/dev/null; }
	@[ -x $(DRAGSTRIP_CACHE)/tools/bin/cargo-deny ] || { echo "==> installing cargo-deny (once, some minutes)"; \
	  CARGO_TARGET_DIR=$(DRAGSTRIP_CACHE)/target-tools cargo install --quiet --locked --root $(DRAGSTRIP_CACHE)/tools cargo-deny@0.20.2; }

##### The cluster

.PHONY: cluster
cluster: ## Bring a Kubernetes up on this machine (CLUSTER=local|current|kind)
	testbed/cluster up

.PHONY: cluster-down
cluster-down: ## Remove that cluster and all it made
	testbed/cluster down

.PHONY: install
install: cluster images ## Install CRDs and operator into the cluster
	testbed/cluster images
	@# The annotation makes a rebuilt image of the same tag roll out.
	$(CLUSTER_ENV); helm upgrade --install dragstrip charts/dragstrip --namespace dragstrip-system --create-namespace \
	  --set-string podAnnotations.build=$$(cat $(DIST)/operator/* $(DIST)/runner/* | sha256sum | cut -c1-16) --wait --timeout 120s

##### Trying

.PHONY: demo
demo: install ## One command: cluster, operator, quickstart, a table of numbers
	$(CLUSTER_ENV); testbed/demo $(DIST)/bin/dragstrip

.PHONY: test
test: test-unit test-e2e ## Run all tests

.PHONY: test-unit
test-unit: tools ## Run unit and scenario tests
	cargo test --locked --workspace --exclude dragstrip-e2e

.PHONY: test-e2e
test-e2e: install ## Run the end-to-end tests on the cluster
	$(CLUSTER_ENV); cargo test --locked -p dragstrip-e2e -- --test-threads=1

.PHONY: bench-loadgen
bench-loadgen: tools ## Measure the load generator against redis-benchmark (and memtier when on PATH)
	bench-jobs/loadgen/bench/bench-loadgen

##### Fuzzing

FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_DIR := $(DRAGSTRIP_CACHE)/fuzz
# Without a sanitizer, which needs a nightly compiler: there is no unsafe code
# to watch. Coverage needs one unstable flag, hence RUSTC_BOOTSTRAP.
FUZZ := PATH="$(DRAGSTRIP_CACHE)/tools/bin:$$PATH" RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$(FUZZ_DIR)/target cargo fuzz

.PHONY: fuzz
fuzz: ## Fuzz every parser, FUZZ_SECONDS each (FUZZ_TARGETS names some); findings go to the cache
	@[ -x $(DRAGSTRIP_CACHE)/tools/bin/cargo-fuzz ] || { echo "==> installing cargo-fuzz (once, some minutes)"; \
	  CARGO_TARGET_DIR=$(DRAGSTRIP_CACHE)/target-tools cargo install --quiet --locked --root $(DRAGSTRIP_CACHE)/tools cargo-fuzz@0.13.1; }
	cargo run --quiet --locked -p dragstrip-parser-checks --bin fuzz-seeds -- $(FUZZ_DIR)/corpus >/dev/null
	$(FUZZ) build --sanitizer none
	for target in $(FUZZ_TARGETS); do \
	  echo "==> $$target for $(FUZZ_SECONDS) s"; mkdir -p $(FUZZ_DIR)/corpus/$$target $(FUZZ_DIR)/findings/$$target; \
	  $(FUZZ) run --sanitizer none $$target $(FUZZ_DIR)/corpus/$$target -- -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	    -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 -artifact_prefix=$(FUZZ_DIR)/findings/$$target/; \
	done
