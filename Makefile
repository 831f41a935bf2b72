# All targets of the project; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Builds and downloads stay outside the tree.
export DRAGSTRIP_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dragstrip
export CARGO_TARGET_DIR ?= $(DRAGSTRIP_CACHE)/target
export CLUSTER ?= local
# Either would replace those of .cargo/config.toml, without which no program is static.
unexport RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
HOST_TARGET = $(shell rustc -vV | sed -n 's/^host: //p')
# A release sets both, for each architecture.
BUILD_TARGET ?= $(HOST_TARGET)
NPM_PLATFORM ?=
DIST := $(DRAGSTRIP_CACHE)/dist
OPERATOR_IMAGE := dragstrip.dev/operator:$(VERSION)
RUNNER_IMAGE := dragstrip.dev/runner:$(VERSION)
# BULLMQ=article takes the BullMQ of the article on Dragonfly (4.12) instead of the current one.
BULLMQ ?=
BULLMQ_IMAGE := dragstrip.dev/bullmq:$(VERSION)$(BULLMQ:%=-%)
BULLMQ_LOCK := bench-jobs/bullmq$(BULLMQ:%=/%)
BULLMQ_DIST := $(DIST)/bullmq$(BULLMQ:%=-%)
PREFIX ?= $(HOME)/.local
# Images are pushed here with CLUSTER=current, or by a release.
export REGISTRY
CLUSTER_ENV = eval "$$(testbed/cluster env)"

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^##### /{printf "\n%s\n", substr($$0, 7)} /^[a-z0-9-]+:.*## /{printf "  make %-18s  %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##### Building

# What a build for this machine uses: see the profile in Cargo.toml. A release says `release`, and `dev`
# builds programs from what tests are built from.
PROFILE ?= local
# The operator of a release is linked as a whole: it takes minutes and halves the memory of its program.
SMALL_OPERATOR ?=
# Half a megabyte of the operator's memory would be its relocations. GNU's linker for arm64
# has no such option.
PACK_RELOCATIONS = $(if $(filter x86_64%,$(BUILD_TARGET)),-- -C link-arg=-zpack-relative-relocs)
PROGRAMS = dragstrip-runner dragstrip-loadgen dragstrip-clients dragstrip $(if $(SMALL_OPERATOR),,dragstrip-operator)
# With another choice of crates Cargo compiles shared ones once more: so one command builds all programs,
# and those of `dev` are chosen as tests are.
CHOICE = $(if $(filter dev,$(PROFILE)),$(DEV) --example crdgen $(addprefix --bin ,$(PROGRAMS)),--locked $(addprefix -p ,$(PROGRAMS)))
BUILT := $(CARGO_TARGET_DIR)/$(BUILD_TARGET)
BUILT_PROGRAMS := $(BUILT)/$(PROFILE:dev=debug)
# Programs of `dev` have symbols.
INSTALL := install $(if $(filter dev,$(PROFILE)),--strip,-C)

.PHONY: build
build: $(if $(SMALL_OPERATOR),small-operator) ## Build the static programs into the cache
	@echo "==> compiling the operator, the runner, the load generators and the command line"
	cargo build --profile $(PROFILE) --target $(BUILD_TARGET) $(CHOICE)
	mkdir -p $(DIST)/operator $(DIST)/runner $(DIST)/bin
	$(INSTALL) $(if $(SMALL_OPERATOR),$(BUILT)/small,$(BUILT_PROGRAMS))/dragstrip-operator $(BUILT_PROGRAMS)/dragstrip $(DIST)/operator/
	$(INSTALL) $(BUILT_PROGRAMS)/dragstrip-{runner,loadgen,clients} $(DIST)/runner/
	$(INSTALL) $(BUILT_PROGRAMS)/dragstrip $(DIST)/bin/
	install -CD -m 0644 LICENSE $(DIST)/operator/licenses/dragstrip/LICENSE
	install -CD -m 0644 LICENSE $(DIST)/runner/licenses/dragstrip/LICENSE

.PHONY: small-operator
small-operator:
	@echo "==> compiling the operator as a release does"
	cargo rustc --profile small --locked --target $(BUILD_TARGET) \
	  -p dragstrip-operator --bin dragstrip-operator $(PACK_RELOCATIONS)

.PHONY: build-bullmq
build-bullmq: bullmq-modules ## Build the BullMQ job into the cache, with the modules it needs
	cd bench-jobs/bullmq && npm run --silent build
	mkdir -p $(BULLMQ_DIST)/dist
	cmp -s $(BULLMQ_LOCK)/package-lock.json $(BULLMQ_DIST)/package-lock.json || { \
	  install -m 0644 bench-jobs/bullmq/.npmrc $(BULLMQ_LOCK)/{package.json,package-lock.json} $(BULLMQ_DIST)/ && \
	  cd $(BULLMQ_DIST) && npm ci --loglevel=error --omit=dev --ignore-scripts $(NPM_PLATFORM) || { rm -f $(BULLMQ_DIST)/package-lock.json; exit 1; }; }
	@# The job reads its own version there, whichever modules it has.
	install -C -m 0644 bench-jobs/bullmq/package.json $(BULLMQ_DIST)/
	rm -rf $(BULLMQ_DIST)/dist/src && cp -R bench-jobs/bullmq/dist/src $(BULLMQ_DIST)/dist/
	chmod 0755 $(BULLMQ_DIST)/dist/src/main.js
	mkdir -p $(BULLMQ_DIST)/bin && ln -sfn /opt/dragstrip-bullmq/dist/src/main.js $(BULLMQ_DIST)/bin/dragstrip-bullmq
	rm -rf $(BULLMQ_DIST)/licenses && install -D -m 0644 LICENSE $(BULLMQ_DIST)/licenses/dragstrip/LICENSE
	cd $(BULLMQ_DIST)/node_modules && find . -type f -iname 'licen[cs]e*' -exec cp --parents -t ../licenses {} +

.PHONY: bullmq-modules dashboard-modules
bullmq-modules: bench-jobs/bullmq/node_modules/.package-lock.json
dashboard-modules: dashboards/node_modules/.package-lock.json
%/node_modules/.package-lock.json: %/package-lock.json
	@command -v npm >/dev/null || { echo "no 'npm' on PATH: install Node.js 20 or newer (https://nodejs.org), then retry"; exit 1; }
	cd $* && npm ci --loglevel=error --ignore-scripts
	@touch $@

# Grafana's libraries are large, and only the dashboards' proof needs them.
.PHONY: proof-modules
proof-modules: dashboards/proof/node_modules/.package-lock.json

.PHONY: images
images: build ## Build the product's images and load them into the cluster's nodes (CLUSTER=current: push them to REGISTRY)
	testbed/cluster build-image $(OPERATOR_IMAGE) operator/Containerfile $(DIST)/operator
	testbed/cluster build-image $(RUNNER_IMAGE) bench-jobs/runner/Containerfile $(DIST)/runner

.PHONY: image-bullmq
image-bullmq: build-bullmq ## The same for the image of the BullMQ job, which needs Node.js (BULLMQ=article: with BullMQ 4.12)
	testbed/cluster build-image $(BULLMQ_IMAGE) bench-jobs/bullmq/Containerfile $(BULLMQ_DIST)

HELM_DOCS := $(DRAGSTRIP_CACHE)/tools/bin/helm-docs-1.14.2
$(HELM_DOCS):
	@echo "==> installing helm-docs (once)"
	GOBIN=$(dir $@)helm-docs.new go install github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2
	mv $(dir $@)helm-docs.new/helm-docs $@ && rmdir $(dir $@)helm-docs.new

# Without the client libraries, nothing that a load passes through uses the redis crate.
LIBRARIES ?=
WITHOUT_LIBRARIES = --no-default-features --config profile.$(PROFILE).package.redis.opt-level=0

.PHONY: cli
cli: ## Put dragstrip, kubectl-dragstrip and its completion into ~/.local/bin, or PREFIX/bin (needs only Rust; LIBRARIES=1 adds local runs with fred and redis-rs)
	cargo build --profile $(PROFILE) --locked -p dragstrip \
	  $(if $(LIBRARIES),,$(WITHOUT_LIBRARIES))
	install -D $(CARGO_TARGET_DIR)/$(HOST_TARGET)/$(PROFILE:dev=debug)/dragstrip $(PREFIX)/bin/dragstrip
	ln -sfn dragstrip $(PREFIX)/bin/kubectl-dragstrip
	install cli/kubectl_complete-dragstrip $(PREFIX)/bin/
	@echo "installed $(PREFIX)/bin/dragstrip, which is 'kubectl dragstrip' too"
	@case ":$$PATH:" in *:$(PREFIX)/bin:*) ;; *) echo "add $(PREFIX)/bin to your PATH" ;; esac

# The same features as the tests have, so that they share what is compiled: an example among
# the targets makes Cargo count those of dev-dependencies too.
DEV := --locked --workspace --all-features
DEV_PROGRAMS := $(CARGO_TARGET_DIR)/$(HOST_TARGET)/debug

.PHONY: generators
generators:
	cargo build --quiet $(DEV) --example crdgen --example result-schema --example report-schema --example page

.PHONY: generate
generate: generators dashboard-modules $(HELM_DOCS) ## Write the generated files: CRDs, dashboards and the chart's copies of them, its README, the schemas of results and reports, the fuzz targets' lock file
	$(DEV_PROGRAMS)/examples/crdgen
	$(DEV_PROGRAMS)/examples/result-schema >docs/result.schema.json
	$(DEV_PROGRAMS)/examples/report-schema >docs/report.schema.json
	cargo metadata --quiet --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
	cd dashboards && npm run --silent generate
	$(HELM_DOCS) --chart-search-root charts --sort-values-order file --log-level warning

##### Checking

.PHONY: format
format: ## Format the code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml

.PHONY: format-check
format-check:
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check

.PHONY: check
check: generate lint ## Format, lint, licences, generated files, shell scripts, versions, workflows, what a release is made of

# The checks without what writes into the tree, so that tests may use it meanwhile.
.PHONY: lint
lint: format-check check-tools bullmq-modules dashboard-modules proof-modules
	@! git ls-files '*.lua' '*/node_modules/*' | grep . || { echo "third-party text is in the tree: take it from its package at build time"; exit 1; }
	cd bench-jobs/bullmq && npm run --silent check
	cd dashboards && npm run --silent check
	cd dashboards/proof && npm run --silent check
	$(TOOLS)/bin/cargo-deny --locked check bans licenses sources
	release/check-versions
	release/check-versions-test
	release/check-support
	release/check-support-test
	release/check-supply-chain
	release/check-supply-chain-test
	release/try-published-test
	testbed/kind-test
	$(TOOLS)/bin/actionlint .github/workflows/*.yaml examples/ci/engine-pull-request.yaml
	shellcheck -x -P testbed -P SCRIPTDIR $$(git ls-files -z testbed bench-jobs charts cli dashboards fuzz release examples .ci | xargs -0r grep -lE '^#!.*(ba)?sh')
	cargo clippy $(DEV) --all-targets -- -D warnings
	@# Cargo leaves tests that need a cluster out of all targets.
	cargo clippy $(DEV) --test e2e --test eks --test rules -- -D warnings
	git diff --exit-code -- crds/yaml charts/dragstrip/{templates/crds,dashboards,README.md} dashboards/json docs/{result,report}.schema.json fuzz/Cargo.lock \
	  || { echo "generated files are stale: run 'make generate' and commit the result"; exit 1; }

.PHONY: count
count: ## Print lines, functions and cycles of modules by crate, as Markdown (docs/size.md)
	@cargo run --quiet --locked -p dragstrip-count

.PHONY: simulate
simulate: ## Simulate how often the rules of verdicts miss and cry wolf, and print the table of docs/statistics.md
	@cargo run --quiet --locked --profile local -p dragstrip-simulate

.PHONY: model
model: ## Explore the model of turns, Leases and the start line, and print states, depth and properties (some minutes)
	@cargo run --quiet --locked --profile local -p dragstrip-model
	cargo test --locked --profile local -p dragstrip-model --test rules

# A fresh machine often upgrades itself meanwhile, and holds the lock.
APT := apt-get -o DPkg::Lock::Timeout=300
# installed COMMAND,PACKAGE: a Debian package for a command that is missing.
installed = @command -v $(1) >/dev/null || { echo "==> installing $(2)"; $(APT) update -qq && $(APT) install -y -qq $(2) >/dev/null; }
TOOLS := $(DRAGSTRIP_CACHE)/tools
# A tool runs for seconds: it need not be optimised for minutes.
QUICK_TOOL := CARGO_TARGET_DIR=$(DRAGSTRIP_CACHE)/target-tools CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
  CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0

.PHONY: check-tools
check-tools: shellcheck $(TOOLS)/bin/cargo-deny $(TOOLS)/bin/actionlint ## Install what the checks need

# Two at a time would be in each other's way.
.PHONY: packages
packages: shellcheck redis-server promtool bullmq-modules dashboard-modules proof-modules ## Install what checks and tests need from Debian and npm

.PHONY: shellcheck
shellcheck:
	$(call installed,shellcheck,shellcheck)

.PHONY: redis-server
redis-server:
	$(call installed,redis-server,redis-server)

.PHONY: promtool
promtool:
	$(call installed,promtool,prometheus)

$(TOOLS)/bin/cargo-deny:
	@echo "==> installing cargo-deny (once, some minutes)"
	$(QUICK_TOOL) cargo install --quiet --locked --root $(TOOLS) cargo-deny@0.20.2
$(TOOLS)/bin/actionlint:
	@echo "==> installing actionlint"
	GOBIN=$(TOOLS)/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
$(TOOLS)/bin/cargo-cyclonedx:
	@echo "==> installing cargo-cyclonedx (once, some minutes)"
	$(QUICK_TOOL) cargo install --quiet --locked --root $(TOOLS) cargo-cyclonedx@0.5.9

.PHONY: advisories
advisories: $(TOOLS)/bin/cargo-deny ## Check whether a dependency has a known vulnerability (needs github.com and npm's registry)
	$(TOOLS)/bin/cargo-deny --locked check advisories
	cd bench-jobs/bullmq && npm audit --omit=dev

##### The cluster

.PHONY: cluster
cluster: ## Start a Kubernetes on this machine (CLUSTER=local|kind), or check the one you have (CLUSTER=current)
	testbed/cluster up

.PHONY: cluster-down
cluster-down: ## Remove that cluster and everything it created
	testbed/cluster down

.PHONY: install
install: install-operator image-bullmq ## Install CRDs and operator into the cluster (CLUSTER=local|kind, or current with REGISTRY)

# All but the image of the BullMQ job, which only its runs need.
.PHONY: install-operator
install-operator: cluster images
	@# The annotation makes a rebuilt image of the same tag roll out.
	$(CLUSTER_ENV); helm upgrade --install dragstrip charts/dragstrip --namespace dragstrip-system --create-namespace \
	  $(if $(filter current,$(CLUSTER)),$(foreach image,operator runner bullmq,--set image.$(image)=$(REGISTRY)/$(image))) \
	  --set-string podAnnotations.build=$$(cat $(DIST)/{operator,runner}/dragstrip-* | sha256sum | cut -c1-16) --wait --timeout 120s

##### Trying

DEMO_IMAGES := redis-7.0 valkey-8

.PHONY: demo
demo: IMAGES = $(DEMO_IMAGES)
demo: cluster-and-programs ## Start a cluster, install Dragstrip, run the quickstart, and print its table; installs missing Debian packages
	$(MAKE) --no-print-directory install-operator
	$(CLUSTER_ENV); testbed/demo $(DIST)/bin/dragstrip

# Images of servers to prepare; all if it is empty.
IMAGES ?=
# Other targets to build meanwhile.
ALSO ?=

# Side by side: each leaves a core idle at times.
.PHONY: cluster-and-programs
cluster-and-programs:
	@# Not the variable MAKE: a dry run would execute this line.
	@{ testbed/cluster up && testbed/cluster images $(IMAGES); } & cluster=$$!; \
	make --no-print-directory build $(ALSO) || { kill $$cluster; exit 1; }; wait $$cluster

.PHONY: published-smoke
published-smoke: install ## Run small versions of the published benchmarks and print how they compare (PUBLISHED selects some; 10 minutes)
	testbed/cluster images
	$(CLUSTER_ENV); testbed/published-smoke $(DIST)/bin/dragstrip $(PUBLISHED)

.PHONY: test
test: test-unit test-report-page test-on-cluster ## Run all tests except those of test-long

.PHONY: test-on-cluster
test-on-cluster: cluster-and-programs test-eks test-chart test-e2e test-dashboards ## Run those tests that need a cluster

.PHONY: build-tests build-e2e
build-tests:
	cargo test $(DEV) --no-run

# Cargo leaves tests that need a cluster out of the others.
build-e2e:
	cargo test $(DEV) --no-run --test e2e --test eks

# Tests that wait for minutes, or stop a part of the cluster and all other tests with it, or
# need a machine without other load. Patterns match a test's path.
E2E_LONG := run::held_up:: run::search:: run::verdict::provoked:: suite::long:: \
  faults::outages:: faults::two_operators:: faults::undecodable:: install::upgrade:: install::releases:: install::openshift:: \
  clients::a_repetition_that_lost turns::no_lease_is_released identity::an_edit_of_a_datastore \
  identity::a_server_whose_pod_was_recreated refusals::a_namespace_with_quotas loadgen::a_stalled_server loadgen::batches \
  findings::one_hot_shard findings::a_narrow_network findings::thirty_clean findings::noise_of_repetitions \
  findings::a_required_check bullmq::bullmq_adds_jobs_on_a_cluster preparation::a_warm_up_longer run::quickstart:: \
  life::a_slowed_server life::a_suite_measures_each_run_once life::a_claim_about life::a_suite_reports_a_quota \
  run::confirm:: verdict::evidence:: memory::memory_is_reported faults::edited_results:: \
  external::a_datastore_addressed_as_external turns::a_run_that_waits_for_client_nodes identity::a_reserved_server

.PHONY: test-long
test-long: ## Run what takes too long for every change: long end-to-end tests, faults on nodes and between operator and API server, random specifications, the model of turns, the operator's figures, and each parser fuzzed for FUZZ_SECONDS
	$(MAKE) install
	testbed/cluster images
	@$(call run_e2e,$(E2E_LONG))
	rm -f $(WORKLOAD_FAULTS).long
	$(MAKE) test-faults RUNS=50 WORKLOAD_FAULTS=$(WORKLOAD_FAULTS).long
	$(MAKE) test-proxy FAULT_OPTIONS='--sample 60 --seed 1'
	$(MAKE) test-specifications model bench-operator fuzz

.PHONY: test-unit test-rust test-node
test-unit: test-rules test-rust test-node ## Run unit and scenario tests
test-rust: redis-server promtool
	@# The load generator that the runner's tests start is built along with its own tests.
	DRAGSTRIP_LOADGEN_IS_BUILT=1 cargo test $(DEV)
test-node: redis-server promtool bullmq-modules dashboard-modules proof-modules
	cd bench-jobs/bullmq && npm test --silent
	cd dashboards && npm test --silent
	cd dashboards/proof && npm test --silent

REPORT_PAGES := $(DRAGSTRIP_CACHE)/report-pages

.PHONY: test-guards
test-guards: redis-server ## Remove each guard of docs/security.md in turn, and check that its test fails (GUARDS selects some; those of the admission policies need KUBECONFIG)
	testbed/test-guards $(GUARDS)

.PHONY: report-pages
report-pages: report/page-test/node_modules/.package-lock.json
	@command -v chromium >/dev/null || { echo "==> installing chromium"; $(APT) update -qq && $(APT) install -y -qq chromium >/dev/null; }
	cargo build --quiet $(DEV) --example page
	$(DEV_PROGRAMS)/examples/page $(REPORT_PAGES)

.PHONY: test-report-page
test-report-page: report-pages ## Test the report's page in a browser: wide, narrow, light, dark (20 seconds)
	cd report/page-test && PAGES=$(REPORT_PAGES) npm --silent test

.PHONY: report-pictures
report-pictures: report-pages ## Take the report's pictures for docs/images
	cd report/page-test && PAGES=$(REPORT_PAGES) npm --silent run pictures -- $(CURDIR)/docs/images

.PHONY: test-eks
test-eks: cluster build ## Check deploy/eks with a real API server, and the flagship example with nodes like those of EKS (a minute)
	cargo test --quiet $(DEV) --test eks --no-run
	$(CLUSTER_ENV); DRAGSTRIP_OPERATOR=$(DIST)/operator/dragstrip-operator \
	  testbed/without-kubelets cargo test $(DEV) --test eks

.PHONY: test-chart
test-chart: ## Install the chart on a real API server over what others left behind, and apply it twice (a minute)
	testbed/without-kubelets charts/test-install

SPECS ?= 400
SEED ?= 1
MANIFESTS ?=

.PHONY: test-specifications
test-specifications: ## Try SPECS random specifications of a SEED on a real API server with the operator (MANIFESTS=FILE: its objects instead; some minutes)
	cargo build --quiet $(DEV) --bin dragstrip-operator --bin dragstrip-specifications --example crdgen
	testbed/without-kubelets $(DEV_PROGRAMS)/dragstrip-specifications --operator $(DEV_PROGRAMS)/dragstrip-operator \
	  --log $(DRAGSTRIP_CACHE)/specifications.log $(if $(MANIFESTS),--manifests $(MANIFESTS),--specs $(SPECS) --seed $(SEED))

.PHONY: test-rules
test-rules: promtool ## Check the chart's alert rules and try them
	promtool check rules charts/dragstrip/rules/alerts.yaml
	promtool test rules charts/dragstrip/rules/alerts_test.yaml

# A test needs a thread while it waits, and a test that is to be alone waits for all others: see e2e/src/turns.rs.
E2E_THREADS ?= 48
E2E_FAILURES := $(DRAGSTRIP_CACHE)/e2e-failures
# run_e2e ARGUMENTS: ends with a line for each failure. The frames of a test that waits show only its runtime.
run_e2e = : >$(E2E_FAILURES); $(CLUSTER_ENV); export E2E_FAILURES=$(E2E_FAILURES) RUST_LIB_BACKTRACE=0; \
  cargo test $(DEV) --test e2e -- --test-threads=$(E2E_THREADS) $(1) || { \
    echo "==> failed end-to-end tests:"; cat $(E2E_FAILURES); exit 1; }

.PHONY: test-e2e
test-e2e: install ## Run the end-to-end tests on the cluster
	testbed/cluster images
	@echo "==> make test-long runs these: $(E2E_LONG)"
	$(CLUSTER_ENV); cd dashboards && npm run --silent test:chart
	@$(call run_e2e,$(addprefix --skip ,$(E2E_LONG)))

RUNS ?= 1000
SEED ?= 1
WORKLOAD_FAULTS ?= $(DRAGSTRIP_CACHE)/workload-faults.jsonl
WORKLOAD_FAULT_OPTIONS ?=

.PHONY: test-faults
test-faults: install-operator ## Inject RUNS faults from SEED on into runs on the local cluster, and judge what the runs show; goes on where it was stopped (10 s a run, two at a time)
	testbed/cluster images redis-7.0
	@# With an example, so that dependencies are not compiled once more.
	cargo build --quiet $(DEV) --bin dragstrip-workload-faults --example page
	$(CLUSTER_ENV); $(DEV_PROGRAMS)/dragstrip-workload-faults --runs $(RUNS) --seed $(SEED) --file $(WORKLOAD_FAULTS) $(WORKLOAD_FAULT_OPTIONS)

HOURS ?= 1

.PHONY: soak
soak: install-operator ## Measure runs of all kinds back to back for HOURS, and fail if what the operator uses rises
	testbed/cluster images redis-7.0
	cargo build --quiet $(DEV) --bin dragstrip-soak --example page
	$(CLUSTER_ENV); $(DEV_PROGRAMS)/dragstrip-soak --hours $(HOURS)

.PHONY: test-dashboards
test-dashboards: install proof-modules ## Test every panel of the dashboards with a Prometheus that scrapes real runs (4 minutes)
	testbed/cluster images $(DEMO_IMAGES)
	$(CLUSTER_ENV); dashboards/proof/with-runs npm --silent --prefix dashboards/proof run proof

.PHONY: dashboards-preview
dashboards-preview: proof-modules ## Draw the dashboards with Grafana's components into docs/images (PROMETHEUS_URL: with its data; otherwise with new runs)
ifdef PROMETHEUS_URL
	cd dashboards/proof && npm run --silent preview -- --prometheus $(PROMETHEUS_URL) --pictures ../../docs/images
else
	$(MAKE) install
	testbed/cluster images $(DEMO_IMAGES)
	$(CLUSTER_ENV); dashboards/proof/with-runs npm --silent --prefix dashboards/proof run preview -- --pictures ../../docs/images
endif

FAULTS := $(DRAGSTRIP_CACHE)/faults
# Such as --scenario run, --fault kill, --only 'POST leases', --sample 40, --seed 2, --resume.
FAULT_OPTIONS ?=

.PHONY: test-proxy
test-proxy: ## Inject every fault at every request between the operator and the API server (FAULT_OPTIONS selects some and sets a seed)
	cargo build --quiet $(DEV) --example crdgen --bin dragstrip-operator --bin dragstrip-faults
	testbed/without-kubelets $(DEV_PROGRAMS)/dragstrip-faults --operator $(DEV_PROGRAMS)/dragstrip-operator \
	  --directory $(FAULTS) $(FAULT_OPTIONS)

.PHONY: bench-loadgen
bench-loadgen: redis-server ## Measure the load generator against a bare loop, redis-benchmark (and memtier if on the PATH)
	bench-jobs/loadgen/bench/bench-loadgen

.PHONY: bench-scrapes
bench-scrapes: redis-server ## Measure what live scraping costs a run (9 minutes)
	bench-jobs/runner/bench/bench-scrapes

.PHONY: bench-bullmq
bench-bullmq: redis-server bullmq-modules ## Measure the BullMQ job against the published tool's loop
	cd bench-jobs/bullmq && npm run --silent bench

.PHONY: bench-operator
bench-operator: small-operator ## Compare the operator's memory, calls, and speed with goals, beside 10,000 runs (5 minutes)
	cargo build --profile yardstick --locked -p dragstrip-bench-operator
	rm -f $(DRAGSTRIP_CACHE)/bench-operator.log
	testbed/without-kubelets $(BUILT)/yardstick/dragstrip-bench-operator --operator $(BUILT)/small/dragstrip-operator \
	  --log $(DRAGSTRIP_CACHE)/bench-operator.log

##### Releasing

RELEASE := $(DIST)/release
RELEASE_PROGRAMS := $(DIST)/release-programs
# A release is built on an amd64 machine.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER ?= aarch64-linux-gnu-gcc
PROGRAMS_FOR = $(MAKE) build build-bullmq PROFILE=release SMALL_OPERATOR=yes DIST=$(RELEASE_PROGRAMS)/$(1) BUILD_TARGET=$(2)-unknown-linux-gnu \
  NPM_PLATFORM="--os=linux --cpu=$(3) --libc=glibc"

.PHONY: release-build
release-build: release-tools ## Build a complete release for amd64 and arm64 into the cache's dist/release
	$(call PROGRAMS_FOR,amd64,x86_64,x64)
	$(call PROGRAMS_FOR,arm64,aarch64,arm64)
	release/test-programs $(RELEASE_PROGRAMS) amd64
	release/test-programs $(RELEASE_PROGRAMS) arm64
	release/build $(RELEASE_PROGRAMS) $(RELEASE)
	release/test-files $(RELEASE)
	release/test-local $(RELEASE)

.PHONY: release-dry-run
release-dry-run: release-build ## Build a release, start its programs, and print what a hosted run would push and sign
	release/publish --dry-run $(RELEASE)

.PHONY: test-release
test-release: cluster ## Install the built release into the cluster as a new user does, run the quickstart, remove it (replaces what is installed)
	testbed/cluster images $(DEMO_IMAGES)
	$(CLUSTER_ENV); release/test-install $(RELEASE)

.PHONY: release-tools
release-tools: redis-server $(TOOLS)/bin/cargo-cyclonedx
	$(call installed,aarch64-linux-gnu-gcc,gcc-aarch64-linux-gnu)
	$(call installed,qemu-aarch64-static,qemu-user-static)
# rustup may be set to install nothing by itself.
	! command -v rustup >/dev/null || rustup target add aarch64-unknown-linux-gnu x86_64-unknown-linux-gnu

##### Fuzzing

FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_DIR := $(DRAGSTRIP_CACHE)/fuzz
FUZZ_PROGRAMS := $(FUZZ_DIR)/target/$(HOST_TARGET)/release
# The coverage that libFuzzer steers by, as cargo-fuzz asks for it, but without
# its sanitizer: that needs a nightly compiler, and there is no unsafe code to watch.
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module \
  $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)

.PHONY: fuzz
fuzz: fuzz-build ## Fuzz every parser for FUZZ_SECONDS (FUZZ_TARGETS selects some); findings go to the cache
	$(DEV_PROGRAMS)/fuzz-seeds $(FUZZ_DIR)/corpus >/dev/null
	fuzz/run $(FUZZ_PROGRAMS) $(FUZZ_DIR) $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# From the fixtures alone and with one seed: the same inputs every time.
.PHONY: fuzz-briefly
fuzz-briefly: fuzz-build ## Fuzz every parser for some seconds, with the same inputs every time
	rm -rf $(FUZZ_DIR)/briefly
	$(DEV_PROGRAMS)/fuzz-seeds $(FUZZ_DIR)/briefly/corpus >/dev/null
	fuzz/run $(FUZZ_PROGRAMS) $(FUZZ_DIR)/briefly 5 $(FUZZ_TARGETS) -- -seed=1 -runs=20000

.PHONY: fuzz-build
fuzz-build:
	cargo build --quiet $(DEV) --bin fuzz-seeds --example page
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" CARGO_TARGET_DIR=$(FUZZ_DIR)/target \
	  cargo build --quiet --locked --release --target $(HOST_TARGET)
