# Alioth: tenant VPCs for Kubernetes. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO    ?= go
NODES ?= 2
# Further image archives that `make up` loads on every node, separated by spaces.
IMAGES ?=
# Tools have a module of their own, so that their dependencies never touch the product's.
TOOL  := $(GO) tool -modfile=test/tools/go.mod
# Fewer collections of garbage save a sixth of what the compiler takes in a cold run.
LAB   := GOGC=$${GOGC:-400} $(GO) run ./test/cluster/cmd/lab
# The tests of the whole operator need nothing of the kernel and much of the processors.
OPERATOR := ./operator ./cmd/alioth-operator
# Packages that need no cluster. Go begins with those that are named first: the longest.
UNIT  := ./cnid ./test/model ./api/... ./cmd/... ./cnid/... ./ebpf/... ./operator/... ./store/... ./test/bench/... ./test/cluster/... ./test/demo/... ./test/freeport/... ./test/images/... ./test/lanes/... ./test/model/... ./test/reports/... ./test/soak/... ./test/testtool/... ./test/texts/... ./test/vm/... ./test/waits/...

# golangci-lint has govet among its linters, so tests do not vet again.
# Collections of garbage are a fifth to a third of what tests compute.
RUN_TESTS := GOGC=300 GOMEMLIMIT=4GiB $(GO) test -vet=off $(TESTFLAGS)
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
# The tests that are larger or longer where ALIOTH_SOAK=1 is set (test/soak): those of
# random steps with their packages, those that need a virtual machine's kernel or network
# hardware, and those that need a lab.
SEEDED := TestAnythingMayHappen|TestNoFailureOfAnyWriteLosesOrLeaksAnything|TestOperatorsAreKilledAtAnyMoment|TestLeadersAreKilledInTheMiddleOfAChangeOfMembers|TestDaemonsAreKilledAtAnyMoment|TestChoicesEqualThoseOfANaiveModel|TestAPlannerPlansLikeBuild|TestChangingFrontendsIsLikeApplyingThem|TestReplacingTheProgramsLosesNoPacket|TestReplacingAFilterLosesNoPacket|TestRandomStatesAreReachedAndRestored|TestRandomHostsComeBack|TestNothingMakesAClientUseWhatIsNotPromised|TestClientsGetLeasesOnACableThatLosesAThird|TestNoRowStopsOrChangesThePlanOfOthers|TestPoliciesReachAllNodesAFewAtATime|TestCyclesOfRequestsAndReleasesLeaveNothing|TestNoAddressIsReservedForOneAndHeldByAnother|TestRandomWorldsKeepBudgetsPausesAndNoOldRows|TestAFloodOfMisses|TestPodsOfOneNetworkGetAsManyAddresses
SEEDED_PACKAGES := ./operator ./operator/ipam ./cmd/alioth-operator ./cnid ./cnid/netfilter ./cnid/nmstate/dhcp/v4 ./cnid/nmstate/dhcp/v6 ./cnid/nmstate/dhcp/client ./cnid/nmstate/plan ./cnid/nmstate/snapshot ./cnid/nmstate/transaction ./cnid/plan ./ebpf/datapath ./cnid/nodeipam ./cnid/lookup ./cnid/lookup/cache ./test/api/rights
SOAKED_HARDWARE := IsKilledAtAnyMoment
SOAKED := TestTheDemoRunsTwiceAndItsThingsToTryWork|TestReports|TestANodeHasManyServices|TestPodsEndWithoutAPIServerAndNothingElseHappens|TestAWaveOfPodsStartsAndEndsWhileEverythingIsKilledInTurn

# The steps of `make test` that run tests, which `make repeat` runs one by one.
REPEATABLE := test-unit test-operator test-api test-scenes test-faults test-updown test-roles
comma := ,

export CGO_ENABLED ?= 0
# What the compiler and the linter keep then serves every folder with the same sources.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

# An older Go fails with errors that do not name the cause, so make looks first.
ifneq ($(filter-out help,$(MAKECMDGOALS)),)
GO_MISSING := $(shell GO="$(GO)" test/cluster/host/check.sh go 2>&1)
ifneq ($(GO_MISSING),)
$(error $(GO_MISSING))
endif
endif

##@ Use

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## Show it: two tenants with the same address range on a real two-node Kubernetes
	GOGC=$${GOGC:-400} $(GO) run ./test/demo

up: setup ## Bring up the lab: NODES=2 nodes with Alioth installed; IMAGES="a.tar b.tar" loads more images; ALIOTH_LAB=1 to 9 for one beside others
	$(LAB) up --nodes $(NODES) --images "$(IMAGES)"

down: ## Take the lab down; leaves nothing behind
	$(LAB) down

down-hardware: ## Take the lab of test-hardware down, if a run was interrupted
	$(LAB) --hardware down

##@ Build

build: ## Build the binaries into bin/
	$(GO) build -o bin/ ./cmd/...

images: ## Build the container images as archives, without a container engine
	$(LAB) images

chart: ## Package the Helm chart into bin/
	$(LAB) build helm
	$$($(LAB) path helm) package helm/alioth --destination bin/

generate: ## Regenerate what is generated: deep copies, CRDs, BPF objects, the OpenAPI document
	$(LAB) setup --generate
	$(GO) generate ./api/... ./ebpf/... ./helm/... ./cnid/nodeipam/...

trust: ## Write docs/security/trust.md again: what the product reads, who may write it, what is believed
	$(LAB) build kubernetes helm
	$(RUN_TESTS) -count=1 -run TestTheInventoryIsAsComputed ./test/api/trust -update

##@ Test

test: setup ## Everything that must pass: what computes, then what needs a lab, then failed tests again; ends with a table of durations
	@mkdir -p bin; $(GO) build -o bin/lanes ./test/lanes
	KEEP_LAB=1 exec bin/lanes --after lab=down --low beside --wait lab=test-unit --wait beside=test-scenes --repeat $(subst $() ,$(comma),$(REPEATABLE)) \
		compute=verify,lint,test-unit lab=test-scenes,test-faults,down,test-updown,test-roles beside=test-api,test-operator

repeat: ## Run one test of a step alone, as the step runs it: STEP=test-unit PACKAGE=./cnid TEST=TestA/subtest
	@test -n "$(filter $(REPEATABLE),$(STEP))" && test -n "$$PACKAGE" && test -n "$$TEST" || { echo "set PACKAGE, TEST, and STEP to one of: $(REPEATABLE)" >&2; exit 2; }
	@$(MAKE) --no-print-directory REPEATED=$(STEP) $(STEP)

soak: setup ## What is longer by nature, before an issue is resolved: MUTATE=10m, EPISODES=600, 5,000 Services, long outages, all kernels
	@mkdir -p bin; $(GO) build -o bin/lanes ./test/lanes
	failed=0; bin/lanes --low compute --after lab=down compute=fuzz,soak-seeds lab=soak-scenes,down,soak-vm || failed=$$?; \
	$(MAKE) --no-print-directory soak-busy || failed=$$?; exit $$failed

test-unit: ## Unit, kernel, API-server and namespace tests (root), but for those of test-operator
	$(LAB) build kubernetes helm
	operator=$$($(GO) list $(OPERATOR)); packages=$$($(GO) list $(UNIT) | grep -vxF "$$operator"); \
	ALIOTH_MUTATE=10s $(RUN_TESTS) $(AT_ONCE) -timeout 20m $(call TESTS,$$packages)

test-operator: ## The whole operator, against a fake and a real API server
	$(LAB) build kubernetes
	$(RUN_TESTS) -timeout 20m $(call TESTS,$(OPERATOR))

fuzz: ## Run mutated frames through the BPF programs; MUTATE=10m, SEED=n repeats what a failed run has printed
	ALIOTH_MUTATE=$(MUTATE) ALIOTH_MUTATE_SEED=$(SEED) $(RUN_TESTS) -count=1 -timeout 24h -run TestMutatedFramesKeepTheRules -v ./ebpf/datapath/test/verdicts

soak-seeds: ## Of soak the part alone with many random steps and kills; EPISODES=600 of what may happen to operators
	$(LAB) build kubernetes helm
	ALIOTH_SOAK=1 ALIOTH_EPISODES=$(EPISODES) $(RUN_TESTS) -count=1 -p 1 -timeout 24h -run '$(SEEDED)' -v $(SEEDED_PACKAGES)

soak-busy: ## Of soak the part alone that takes the whole machine: the leader among operators on a busy one
	$(LAB) build kubernetes
	ALIOTH_SOAK=1 $(RUN_TESTS) -count=1 -timeout 1h -run TestABusyMachineCostsNoLeader -v ./cmd/alioth-operator

soak-vm: setup ## Of soak the part alone with all tests that depend on the kernel, on every kernel of test-vm
	$(RUN_VMS) --everything
	ALIOTH_SOAK=1 $(RUN_VMS) --kernels 6.12 --run '$(SOAKED_HARDWARE)' ./cnid/attach/sriov ./cnid/attach/ipvlan ./cnid/nodeipam/plugin/delegated

soak-scenes: setup ## Of soak the part alone that needs a lab
	failed=0; ALIOTH_SOAK=1 ALIOTH_E2E=1 ALIOTH_E2E_KEEP=1 $(RUN_TESTS) -count=1 -p 1 -timeout 2h -v -run '$(SOAKED)' ./test/demo ./test/e2e ./test/e2e/faults ./test/reports || failed=$$?; \
	$(LAB) down; for part in test-roles test-updown test-hardware; do ALIOTH_SOAK=1 $(MAKE) --no-print-directory $$part || failed=$$?; done; exit $$failed

report: ## Begin a case of a public report: NAME=udp-after-restart writes test/reports/udpafterrestart_test.go
	@[[ "$(NAME)" =~ ^[a-z0-9]+(-[a-z0-9]+)*$$ ]] || { echo "set NAME to lower-case words with dashes between them" >&2; exit 2; }
	@file=test/reports/$(subst -,,$(NAME))_test.go; test ! -e $$file || { echo "$$file is there" >&2; exit 2; }; \
	sed 's/CASE/$(NAME)/' test/reports/template.txt > $$file; echo "$$file: write the case, see test/reports/README.md"

test-vm: setup ## The tests that depend on the kernel on Linux 6.1 and 6.12, in virtual machines
	$(RUN_VMS)

# Its lab has names, addresses and a folder of its own, so it may run beside the other one.
test-hardware: setup ## What needs network hardware, on a lab whose second node is a virtual machine with it
	failed=0; ALIOTH_E2E=1 ALIOTH_E2E_KEEP=1 $(RUN_TESTS) -count=1 -timeout 30m ./test/e2e/hardware || failed=$$?; \
	$(LAB) --hardware down; exit $$failed

test-api: ## CRDs, admission policies and the chart against the real API server
	$(LAB) build kubernetes helm
	$(RUN_TESTS) -p 3 -timeout 20m $(call TESTS,./test/api/chart ./test/api/rights ./test/api/scale ./test/api/...)

test-e2e: ## The whole product on a real cluster, which is then broken in every way that it has to survive
	scenes=0; $(MAKE) --no-print-directory test-scenes KEEP_LAB=1 || scenes=$$?; $(MAKE) --no-print-directory test-faults && exit $$scenes

test-scenes: setup ## Of test-e2e the part alone that leaves the cluster whole, attacks among it
	$(call on-one-lab,./test/e2e ./test/e2e/hostile ./test/reports)

test-faults: setup ## Of test-e2e the part alone that breaks clusters, installs and removes
	$(call on-one-lab,./test/e2e/nodeipam ./test/e2e/faults ./test/e2e/lifecycle)

test-roles: setup ## Bouncers and dividers, on a lab of four nodes of their own
	failed=0; ALIOTH_E2E=1 ALIOTH_E2E_KEEP=1 $(RUN_TESTS) -count=1 -parallel 4 -timeout 20m $(call TESTS,./test/e2e/roles) || failed=$$?; \
	$(LAB) down; exit $$failed

test-updown: setup ## That labs come up, and leave nothing behind however far they came
	ALIOTH_TEST_LAB=1 $(RUN_TESTS) -count=1 -timeout 20m $(call TESTS,./test/cluster/updown)

verify: ## Regenerate in a copy of the work tree, and fail if that changes anything
	$(LAB) setup --generate
	@copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read -T - | tar -x -C "$$copy"; \
	(cd "$$copy" && $(GO) generate ./api/... ./ebpf/... ./helm/... ./cnid/nodeipam/...); \
	for dir in api ebpf helm docs/reference/node-ipam-api.openapi.yaml; do git diff --no-index --exit-code "$$dir" "$$copy/$$dir" || { echo "$$dir is not as generated: run: make generate" >&2; exit 1; }; done
	@test -z "$$(git status --porcelain -- api ebpf helm docs/reference/node-ipam-api.openapi.yaml)" || { git status --short -- api ebpf helm docs/reference/node-ipam-api.openapi.yaml; echo "generated files are not committed: commit them" >&2; exit 1; }

lint: ## golangci-lint, which vets too, with the layering as depguard rules
	GOGC=300 GOMEMLIMIT=6GiB $(TOOL) golangci-lint run --allow-parallel-runners

bench: setup ## Measure, as ratios against references in the same run
	$(GO) run ./test/bench

bench-scale: setup ## Measure the control plane over 10, 100 and 1,000 nodes without kernels; curves in docs/operate/scale
	$(GO) run ./test/bench/scalelab --curves docs/operate/scale

##@ Set-up

setup: ## Install what a fresh Debian-like machine lacks, and check its kernel
	@GO="$(GO)" test/cluster/host/check.sh machine
	$(LAB) setup

.PHONY: report help demo up down down-hardware build images chart generate trust test repeat soak soak-seeds soak-busy soak-vm soak-scenes test-unit test-vm test-hardware fuzz test-api test-operator test-e2e test-scenes test-faults test-roles test-updown verify lint bench bench-scale setup
