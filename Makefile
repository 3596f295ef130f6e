# Alioth: tenant VPCs for Kubernetes. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO    ?= go
NODES ?= 2
# Further image archives that `make up` loads on every node, separated by spaces.
IMAGES ?=
# Minor versions that `make up` brings up instead of the default ones, for example 1.35.
KUBERNETES ?=
KUBELET    ?=
CONTAINERD ?=
# Tools have a module of their own, so that their dependencies never touch the product's.
TOOL  := $(GO) tool -modfile=test/tools/go.mod
# Fewer collections of garbage save a sixth of what the compiler takes in a cold run.
LAB   := GOGC=$${GOGC:-400} $(GO) run ./test/cluster/cmd/lab
RELEASE := $(GO) run ./test/release/cmd/release
# Packages by the step that tests them; a test of any other package is one of test-unit, but for
# those below EXCEPT_test-unit, which need a step of their own: test/one compares both with the
# tree. The tests of the whole operator need nothing of the kernel and much of the processors. Go
# begins with the packages that are named first: the longest.
PACKAGES_test-operator := ./operator ./cmd/alioth-operator
PACKAGES_test-api      := ./test/api/chart ./test/api/rights ./test/api/scale ./test/api/...
PACKAGES_test-scenes   := ./test/e2e ./test/e2e/hostile ./test/reports
PACKAGES_test-faults   := ./test/e2e/nodeipam ./test/e2e/faults ./test/e2e/lifecycle
PACKAGES_test-upgrade  := ./test/e2e/upgrade
PACKAGES_test-updown   := ./test/cluster/updown
PACKAGES_test-roles    := ./test/e2e/roles
PACKAGES_test-hardware := ./test/e2e/hardware
PACKAGES_test-demo     := ./test/demo
PACKAGES_test-unit     := ./cnid ./test/model ./...
EXCEPT_test-unit       := ./test/api/... ./test/e2e/...
# Of all packages those of test-unit, for a recipe of the shell. The tests that need no lab of the
# demo and of reports about other networks are among them.
UNIT = others=$$($(GO) list $(PACKAGES_test-operator) $(EXCEPT_test-unit)); packages=$$($(GO) list $(PACKAGES_test-unit) | grep -vxF "$$others")

# golangci-lint has govet among its linters, so tests do not vet again.
# Collections of garbage are a fifth to a third of what tests compute.
RUN_TESTS := GOGC=300 GOMEMLIMIT=4GiB $(GO) test -vet=off $(TESTFLAGS)
# The limits of time (-timeout) end a test that hangs: a machine may be five times slower than
# another, also because other steps run beside a step.
# Packages wait for servers, daemons and the kernel as long as they compute, so more of them
# run at once than there are processors.
AT_ONCE   := -p 4
# What a step tests: packages of its own, or for `make repeat` one test of one package. The
# shell expands the names, because make would expand the $ of an expression.
TESTS = $(if $(filter $@,$(REPEATED)),-count=1 -run "$$TEST" "$$PACKAGE",$(1))
RUN_VMS   := $(GO) run ./test/vm/cmd/vm $(if $(filter -json,$(TESTFLAGS)),--json)
# Runs packages of end-to-end tests one after the other on one lab. Their tests
# wait more than they work, so more of them run at once than there are processors.
define on-one-lab
	failed=0; ALIOTH_E2E=1 ALIOTH_E2E_KEEP=1 $(RUN_TESTS) -count=1 -p 1 -parallel 4 -timeout 40m $(call TESTS,$(1)) || failed=$$?; \
	$(LEAVE_LAB); exit $$failed
endef
# A lab that others go on with stays up where KEEP_LAB is set.
LEAVE_LAB := $(if $(KEEP_LAB),true,$(LAB) down)

# How long, and with which random numbers, `make fuzz` runs, and how many episodes
# `make soak` plays of what may happen to operators.
MUTATE ?= 10m
SEED ?=
EPISODES ?= 600
# The steps of the tests with a lab. `make soak` runs the marked tests of LAB_STEPS on one lab, and
# WHOLE_STEPS as they are.
LAB_STEPS   := test-demo test-scenes test-faults test-upgrade
WHOLE_STEPS := test-roles test-updown test-hardware
LAB_PACKAGES   := $(foreach step,$(LAB_STEPS),$(PACKAGES_$(step)))
WHOLE_PACKAGES := $(foreach step,$(WHOLE_STEPS),$(PACKAGES_$(step)))
# Prints the arguments of go test for tests that are larger or longer where ALIOTH_SOAK=1 is set:
# those that call a function of test/soak, which marks them.
MARKED := $(GO) run ./test/soak/cmd/marked

# The steps that run tests, which `make repeat` runs one by one. For a package of two steps
# `make test-one` takes the first.
REPEATABLE := test-operator test-api test-scenes test-faults test-upgrade test-updown test-roles test-hardware test-demo test-unit
# Builds what tests need before them. For one test alone the test builds what it needs itself.
PREBUILD := $(if $(ONE),true,$(LAB) build)
comma := ,

export CGO_ENABLED ?= 0
# API servers of tests have the version KUBERNETES too.
export ALIOTH_KUBERNETES ?= $(KUBERNETES)
# What the compiler and the linter keep then serves every folder with the same sources.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

# What the machine lacks.
CHECK := test/cluster/host/check.sh

# An older Go fails with errors that do not name the cause, so make looks first.
ifneq ($(filter-out help,$(MAKECMDGOALS)),)
GO_MISSING := $(shell GO="$(GO)" $(CHECK) go 2>&1)
ifneq ($(GO_MISSING),)
$(error $(GO_MISSING))
endif
endif

##@ Use

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## Show it: two tenants with the same address range on a real two-node Kubernetes
	GOGC=$${GOGC:-400} $(GO) run ./test/demo

up: setup ## Bring up the lab: NODES=2 nodes with Alioth installed; IMAGES="a.tar b.tar" loads more images; ALIOTH_LAB=1 to 9 for one beside others; KUBERNETES=1.35 KUBELET=1.34 CONTAINERD=1.7
	$(LAB) up --nodes $(NODES) --images "$(IMAGES)" --kubernetes "$(KUBERNETES)" --kubelet "$(KUBELET)" --containerd "$(CONTAINERD)"

down: ## Take the lab down; leaves nothing behind
	$(LAB) down

down-hardware: ## Take the lab of test-hardware down, if a run was interrupted
	$(LAB) --hardware down

##@ Build

# The stamp comes from test/release/stamp, because the go command has none in a work tree of
# `git worktree`.
build: ## Build the binaries into bin/, stamped with their commit
	flags=$$($(RELEASE) flags); $(GO) build -buildvcs=false -ldflags "$$flags" -o bin/ ./cmd/...

release: ## Build everything of a release into bin/release/: binaries, image, chart, manifests, SBOMs, notes; the same from each folder
	$(RELEASE) build

images: setup ## Build the container images of the lab as archives, tag dev, without a container engine
	$(LAB) images

chart: ## Package the Helm chart into bin/
	$(LAB) build helm
	$$($(LAB) path helm) package helm/alioth --destination bin/

generate: ## Regenerate what is generated: deep copies, CRDs, BPF objects
	$(LAB) setup --generate
	$(GO) generate ./api/... ./ebpf/... ./helm/...

# The version of the compiler, so that everybody's format is the same.
CLANG_FORMAT := clang-format-19
BPF_C := $(wildcard ebpf/src/*.[ch])

format: ## Format the BPF C by .clang-format
	$(LAB) setup --generate
	$(CLANG_FORMAT) -i $(BPF_C)

docs-reference: ## Write the pages of docs/reference again that follow from the source: the API, the command lines
	$(RUN_TESTS) -count=1 -run TestReferencePage_ ./test/docs/reference ./cmd/aliothctl ./cmd/alioth-operator ./cmd/alioth-cnid -update

site: ## Build a site of README.md, ARCHITECTURE.md and docs/ into bin/site
	$(GO) run ./test/docs/site --out bin/site

trust: ## Write docs/security/trust.md again: what the product reads, who may write it, what is believed
	$(LAB) build kubernetes helm
	$(RUN_TESTS) -count=1 -run TestTrustInventory_Document_MatchesAPIServer ./test/api/trust -update

##@ Test

# These run for long, beside other programs, whose need of memory may be over in a moment. Their
# steps look at neither memory nor disk again.
test soak: export ALIOTH_ROOM := total

test: setup ## Everything that must pass: what computes, then what needs a lab, then failed tests again; ends with a table of durations
	@mkdir -p bin; $(GO) build -o bin/lanes ./test/lanes
	ALIOTH_ROOM=checked KEEP_LAB=1 exec bin/lanes --after lab=down --low beside --wait lab=test-unit --wait beside=test-scenes --repeat $(subst $() ,$(comma),$(REPEATABLE)) \
		compute=verify,lint,test-unit lab=test-scenes,test-faults,test-upgrade,down,test-updown,test-roles beside=test-api,test-operator

test-fast: ## What needs no root, no lab and no Kubernetes: the tests of the first edit; says what it leaves out
	@echo "tests run; failures are printed as they come, and the summary at the end" >&2
	@$(UNIT); ALIOTH_FAST=1 $(RUN_TESTS) -json $(AT_ONCE) -timeout 5m $$packages $(PACKAGES_test-operator) $(PACKAGES_test-api) | $(GO) run ./test/fast

test-one: ## Run one test wherever it belongs, with the lab it needs, which stays up: T=TestName or T='TestName/a subtest'
	@test -n "$${T:-}" || { echo "set T to the name of a test, such as T=TestAnything/sub" >&2; exit 2; }
	@$(GO) run ./test/one $(if $(PACKAGE),--package "$$PACKAGE") $(foreach step,$(REPEATABLE),--step "$(step)=$(PACKAGES_$(step))$(addprefix $() -,$(EXCEPT_$(step)))") "$$T"

repeat: ## Run one test of a step alone, as the step runs it: STEP=test-unit PACKAGE=./cnid TEST=TestA/subtest
	@test -n "$(filter $(REPEATABLE),$(STEP))" && test -n "$${PACKAGE:-}" && test -n "$${TEST:-}" || { echo "set PACKAGE, TEST, and STEP to one of: $(REPEATABLE)" >&2; exit 2; }
	@$(MAKE) --no-print-directory REPEATED=$(STEP) $(STEP)

soak: setup ## What is longer by nature, before an issue is resolved: MUTATE=10m, EPISODES=600, 5,000 Services, long outages, all kernels
	@mkdir -p bin; $(GO) build -o bin/lanes ./test/lanes
	export ALIOTH_ROOM=checked; failed=0; bin/lanes --low compute --after lab=down compute=fuzz,soak-seeds,soak-release,vulnerabilities lab=soak-scenes,down,test-versions,soak-vm || failed=$$?; \
	$(MAKE) --no-print-directory soak-busy || failed=$$?; exit $$failed

# One test alone says by itself what it needs, and most need no root.
test-unit: $(if $(ONE),,setup) ## Unit, kernel, API-server and namespace tests (root), but for those of test-operator
	$(PREBUILD) kubernetes helm
	$(UNIT); \
	ALIOTH_MUTATE=10s $(RUN_TESTS) $(AT_ONCE) -timeout 40m $(call TESTS,$$packages)

test-operator: ## The whole operator, against a fake and a real API server
	$(PREBUILD) kubernetes
	$(RUN_TESTS) -timeout 40m $(call TESTS,$(PACKAGES_$@))

fuzz: ## Run mutated frames through the BPF programs; MUTATE=10m, SEED=n repeats what a failed run has printed
	ALIOTH_MUTATE=$(MUTATE) ALIOTH_MUTATE_SEED=$(SEED) $(RUN_TESTS) -count=1 -timeout 24h -run TestPrograms_MutatedFrames_RulesHold -v ./ebpf/datapath/test/verdicts

soak-seeds: ## Of soak the part alone with many random steps and kills; EPISODES=600 of what may happen to operators
	$(LAB) build kubernetes helm
	tests=$$($(MARKED) --without "$(LAB_PACKAGES) $(WHOLE_PACKAGES)" ./...); \
	ALIOTH_SOAK=1 ALIOTH_EPISODES=$(EPISODES) $(RUN_TESTS) -count=1 -p 1 -timeout 24h -v $$tests

soak-release: ## Of soak the part alone that builds the release in two folders, which must be equal
	tests=$$($(MARKED) --part $@ ./...); ALIOTH_SOAK=1 $(RUN_TESTS) -count=1 -timeout 1h -v $$tests

soak-busy: ## Of soak the part alone that takes the whole machine: the leader among operators on a busy one
	$(LAB) build kubernetes
	tests=$$($(MARKED) --part $@ ./...); ALIOTH_SOAK=1 $(RUN_TESTS) -count=1 -timeout 1h -v $$tests

soak-vm: setup ## Of soak the part alone with all tests that depend on the kernel, on every kernel of test-vm
	$(RUN_VMS) --everything
	ALIOTH_SOAK=1 $(RUN_VMS) --kernels 6.12 --soaked

soak-scenes: setup ## Of soak the part alone that needs a lab
	tests=$$($(MARKED) $(LAB_PACKAGES)); \
	failed=0; ALIOTH_SOAK=1 ALIOTH_E2E=1 ALIOTH_E2E_KEEP=1 $(RUN_TESTS) -count=1 -p 1 -timeout 2h -v $$tests || failed=$$?; \
	$(LAB) down; for part in $(WHOLE_STEPS); do ALIOTH_SOAK=1 $(MAKE) --no-print-directory $$part || failed=$$?; done; exit $$failed

report: ## Begin a case of a public report: NAME=udp-after-restart writes test/reports/udpafterrestart_test.go
	@[[ "$(NAME)" =~ ^[a-z0-9]+(-[a-z0-9]+)*$$ ]] || { echo "set NAME to lower-case words with dashes between them" >&2; exit 2; }
	@file=test/reports/$(subst -,,$(NAME))_test.go; test ! -e $$file || { echo "$$file is there" >&2; exit 2; }; \
	sed 's/CASE/$(NAME)/' test/reports/template.txt > $$file; echo "$$file: write the case, see test/reports/README.md"

test-vm: setup ## The tests that depend on the kernel on Linux 6.1 and 6.12, in virtual machines
	$(RUN_VMS)

# Its lab has names, addresses and a folder of its own, so it may run beside the other one.
test-hardware: setup ## What needs network hardware, on a lab whose second node is a virtual machine with it
	failed=0; ALIOTH_E2E=1 ALIOTH_E2E_KEEP=1 $(RUN_TESTS) -count=1 -timeout 30m $(call TESTS,$(PACKAGES_$@)) || failed=$$?; \
	$(if $(KEEP_LAB),true,$(LAB) --hardware down); exit $$failed

test-api: ## CRDs, admission policies and the chart against the real API server
	$(PREBUILD) kubernetes helm
	$(RUN_TESTS) -p 3 -timeout 40m $(call TESTS,$(PACKAGES_$@))

test-e2e: ## The whole product on a real cluster, which is then broken in every way that it has to survive
	scenes=0; $(MAKE) --no-print-directory test-scenes KEEP_LAB=1 || scenes=$$?; $(MAKE) --no-print-directory test-faults && exit $$scenes

test-scenes: setup ## Of test-e2e the part alone that leaves the cluster whole, attacks among it
	$(call on-one-lab,$(PACKAGES_$@))

test-faults: setup ## Of test-e2e the part alone that breaks clusters, installs and removes
	$(call on-one-lab,$(PACKAGES_$@))

test-demo: setup ## A part of soak: the demo twice, and the commands that it proposes
	$(call on-one-lab,$(PACKAGES_$@))

test-roles: setup ## Bouncers and dividers, on a lab of four nodes of their own
	failed=0; ALIOTH_E2E=1 ALIOTH_E2E_KEEP=1 $(RUN_TESTS) -count=1 -parallel 4 -timeout 20m $(call TESTS,$(PACKAGES_$@)) || failed=$$?; \
	$(LEAVE_LAB); exit $$failed

test-versions: setup ## Other versions of Kubernetes, kubelet and containerd on labs, and the record in docs/install; COMBINATIONS="containerd-1.7" for some alone
	$(GO) run ./test/versions $(COMBINATIONS)

test-updown: setup ## That labs come up, and leave nothing behind however far they came
	ALIOTH_TEST_LAB=1 $(RUN_TESTS) -count=1 -timeout 30m $(call TESTS,$(PACKAGES_$@))

test-upgrade: setup ## Upgrade from the last release and back while traffic flows, on the lab that is up
	$(call on-one-lab,$(PACKAGES_$@))

verify: ## Regenerate in a copy of the work tree, and fail if that changes anything
	$(LAB) setup --generate
	@copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read -T - | tar -x -C "$$copy"; \
	(cd "$$copy" && $(GO) generate ./api/... ./ebpf/... ./helm/...); \
	for dir in api ebpf helm; do git diff --no-index --exit-code "$$dir" "$$copy/$$dir" || { echo "$$dir is not as generated: run: make generate" >&2; exit 1; }; done
	@test -z "$$(git status --porcelain -- api ebpf helm)" || { git status --short -- api ebpf helm; echo "generated files are not committed: commit them" >&2; exit 1; }

# Licences that the product may be linked with: none that asks for the source of the product.
ALLOWED_LICENCES := Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT,MPL-2.0

licenses: ## List the licences of the product's dependencies, from the module cache; fails for one that is unknown or not allowed
	@$(TOOL) go-licenses check --logtostderr=false --log_file=/dev/null --allowed_licenses=$(ALLOWED_LICENCES) ./cmd/...
	@$(TOOL) go-licenses report --logtostderr=false --log_file=/dev/null --template test/tree/licences.tmpl ./cmd/... | sort

vulnerabilities: ## Compare the code with the Go vulnerability database; needs the network, or GOVULNDB=file:///copy; VULNERABILITIES=skip leaves it out
ifeq ($(VULNERABILITIES),skip)
	@echo "vulnerabilities: NOT CHECKED, because of VULNERABILITIES=skip" >&2
else
	@out=$$(mktemp); trap 'rm -f "$$out"' EXIT; \
	$(TOOL) govulncheck $(if $(GOVULNDB),-db $(GOVULNDB)) ./... 2>&1 | tee "$$out" || { \
		if grep -q "fetching vulnerabilities" "$$out"; then echo "vulnerabilities: NOT CHECKED, the database can't be reached: use a machine with the network, or set GOVULNDB to a copy" >&2; \
		else echo "vulnerabilities: update the modules or the Go version that are named above" >&2; fi; exit 1; }
endif

lint: ## golangci-lint, which vets too, the layers of packages, the prose of comments and pages, the format of the BPF C
	$(GO) test -vet=off ./test/layers ./test/prose
	@if command -v $(CLANG_FORMAT) > /dev/null; then $(CLANG_FORMAT) --dry-run -Werror $(BPF_C) || { echo "run: make format" >&2; exit 1; }; \
	else echo "lint: the format of the BPF C is NOT CHECKED, because $(CLANG_FORMAT) is missing; make format installs it" >&2; fi
	GOGC=300 GOMEMLIMIT=6GiB $(TOOL) golangci-lint run --allow-parallel-runners

bpf-verify: ## Show the verifier's log for a BPF program (root): PROG=from_pod, LEVEL=stats, branches or instructions, REBUILD=1 compiles first; without PROG list the programs
	$(if $(REBUILD),$(LAB) setup --generate && $(GO) generate ./ebpf/...)
	@$(GO) run ./test/verifier $(if $(LEVEL),--level $(LEVEL)) $(PROG)

bench: setup ## Measure, as ratios against references in the same run
	$(GO) run ./test/bench

bench-scale: setup ## Measure the control plane over 10, 100 and 1,000 nodes without kernels; curves in docs/operate/scale
	$(GO) run ./test/bench/scalelab --curves docs/operate/scale

##@ Set-up

setup: ## Install what a fresh Debian-like machine lacks, and check its kernel
	@GO="$(GO)" $(CHECK) machine
	$(LAB) setup

.PHONY: docs-reference format site test-fast test-one bpf-verify licenses vulnerabilities report help demo up down down-hardware build images chart generate trust test repeat soak soak-seeds soak-busy soak-vm soak-scenes test-unit test-vm test-hardware fuzz test-api test-operator test-e2e test-scenes test-faults test-roles test-updown test-versions test-upgrade verify lint bench bench-scale setup
.PHONY: release soak-release test-demo
