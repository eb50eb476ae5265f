# make help lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS     := -s -w -X main.version=$(VERSION)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Tests with real parts are heavy: two packages at once keep a small machine responsive.
PACKAGES    ?= ./...
GOTEST      := go test -race -p 2 -timeout 40m
# Each shared part is started once for all packages; the rest, each test starts for itself.
UP          := go run ./internal/testkit/parts up
COUNT       := go run ./internal/testkit/testcount
FUZZTIME    ?= 60s
# Where the benchmarks of single functions are.
BENCHMARKS  := ./internal/ledger ./internal/httpapi ./internal/podspec ./internal/nodeports ./internal/cluster
STORMTIME   ?= 2m

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/config-server, static
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags='$(LDFLAGS)' -o bin/config-server ./cmd/config-server

.PHONY: demo
demo: build ## the whole journey on stand-ins: no root, no services
	./bin/config-server demo

.PHONY: demo-serve
demo-serve: build ## the same stand-ins, staying up on :8000
	./bin/config-server demo --serve

.PHONY: deps
deps: ## install the Debian packages that the tests need (root)
	@./internal/testkit/install-debian

.PHONY: parts
parts: ## build etcd, kube-apiserver, kube-scheduler, kwok, helm and kubectl once into the cache
	@./deploy/lab/parts/build.sh etcd kube-apiserver kube-scheduler kwok helm kubectl prometheus-operator-crds

.PHONY: test
test: deps parts ## all tests with -race on real parts (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json $(PACKAGES)

.PHONY: test-unit
test-unit: ## the tests that need neither root nor services
	@go test -short -race -p 2 -timeout 10m $(PACKAGES)
	@go test -C deploy/lab -short ./...
	@go test -C deploy/image -short ./...

.PHONY: golden
golden: deps parts ## replay the recorded answers against the binary on real parts (root)
	@$(UP) $(COUNT) -quiet -- $(GOTEST) -json -count=1 -run '^TestGolden' ./internal/app/...

.PHONY: chart-test
chart-test: deps parts ## the Helm chart alone: lint, golden files, dry run, upgrade, least rights (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 ./deploy/helm/...

.PHONY: gpuoptions
gpuoptions: deps parts ## the GPU options alone: discovery, choice, placement by a real scheduler, rights (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 -run '^TestGPUOptions' ./internal/gpuoptions ./internal/farm ./internal/podspec ./internal/cluster ./internal/workspaces ./internal/httpapi ./internal/app

.PHONY: projects
projects: deps parts ## projects alone: definitions, namespaces, nodes, quota, groups, dry run, two instances, the chart (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 -run '^TestProjects' ./internal/projects/... ./deploy/helm

.PHONY: queue-contract
queue-contract: deps parts ## the labels and annotations from which queues are made, line by line (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 -run '^TestQueueContract' ./internal/projects/...

.PHONY: rights
rights: deps parts ## what members of projects may do, asked as real users, and what the controller lacks (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 -run '^TestRights' ./internal/projects/... ./deploy/helm

.PHONY: templates
templates: deps parts ## the layers of the pod alone, and how long a pod is waited for (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 -run '^Test(Templates|Budgets)' ./internal/templates ./internal/cluster ./internal/workspaces ./internal/httpapi ./internal/app

.PHONY: storage
storage: deps parts ## homes on a volume of the service's own pod alone: rules, pods, rights, chart (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 -run '^TestStorage' ./internal/selfvolumes ./internal/config ./internal/podspec ./internal/cluster ./internal/workspaces ./internal/app ./deploy/helm

.PHONY: assignment
assignment: deps parts ## the assignment of GPU device files alone: choice, races, recovery, mending (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 -run '^TestAssignment' ./internal/farm ./internal/gpuload ./internal/gpuassign ./internal/podspec ./internal/cluster ./internal/workspaces ./internal/reconciler ./internal/audit ./internal/operations ./internal/obs ./internal/app

.PHONY: check
check: deps parts ## why a project's queue has no nodes: rules, reading, HTTP, command line, isolation (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 -run '^TestCheck' ./internal/projects/... ./internal/workspaces ./internal/httpapi ./internal/app ./cmd/config-server

.PHONY: images
images: deps parts ## the images alone: registries, logins, pins, exports, rights (root)
	@$(UP) $(COUNT) -- $(GOTEST) -json -count=1 -run '^TestImages' ./internal/registry ./internal/pins ./internal/catalog ./internal/farm ./internal/podspec ./internal/httpapi ./internal/app ./cmd/config-server

.PHONY: ui-test
ui-test: deps parts ## look at the pages in a real Chromium; screenshots in bin/ui (root)
	@$(UP) $(COUNT) -quiet -- $(GOTEST) -json -count=1 ./internal/app/uitest

.PHONY: bench
bench: deps parts ## measure everything that has a target, on real parts; writes docs/performance.md (root; BENCH_RUNS=5)
	@$(UP) $(COUNT) -quiet -- go test -tags bench -json -count=1 -timeout 90m -run '^TestBench' ./internal/testkit/bench -update
	@go test -run '^$$' -short -bench . -benchtime 200ms -p 1 $(BENCHMARKS)

.PHONY: scale
scale: deps parts ## a farm of 1,000 nodes and 1,300 workspaces, 10,000 cycles; writes docs/scale.md (root; SCALE_CYCLES=10000)
	@$(UP) $(COUNT) -quiet -- go test -tags bench -json -count=1 -timeout 180m -run '^TestScale' ./internal/testkit/bench -update

.PHONY: crash
crash: deps parts ## kill the service at every step and look at what is left (root)
	@CRASH_ALL=1 $(UP) $(COUNT) -quiet -- $(GOTEST) -json -count=1 -run '^TestCrash' ./internal/app/...

.PHONY: faults
faults: deps parts ## every step failing in every way (root)
	@FAULTS_ALL=1 $(UP) $(COUNT) -quiet -- $(GOTEST) -json -count=1 -run '^TestFaults' ./internal/app/...

.PHONY: storm
storm: deps parts ## random operations, kills and restarts against a model (root; STORMTIME=2m)
	@STORMTIME=$(STORMTIME) $(UP) $(COUNT) -quiet -- go test -race -json -count=1 -timeout 0 -run '^TestStorm' ./internal/app/...

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (60s)
	@./internal/testkit/fuzz-all $(FUZZTIME)

IMAGE       := bin/image/build -version $(VERSION)

.PHONY: image-build
image-build: # the builder of images alone
	@mkdir -p bin/image
	@go build -C deploy/image -trimpath -buildvcs=false -o ../../bin/image/build .

.PHONY: image
image: image-build ## build the container images without Docker, with their SBOM and licences, into bin/image
	@command -v mmdebstrap >/dev/null || { apt-get update -q && apt-get install -q -y --no-install-recommends mmdebstrap; }
	@$(IMAGE)

.PHONY: image-test
image-test: image ## test the builder, and build the images once more from nothing: the digests have to be the same
	@go test -C deploy/image -timeout 20m ./...
	@rm -rf bin/image/again && $(IMAGE) -out bin/image/again
	@cmp bin/image/config-server-plain.json bin/image/again/config-server-plain.json
	@cmp bin/image/config-server-tools.json bin/image/again/config-server-tools.json
	@rm -rf bin/image/again && echo "image: both builds have the same digests"

LAB         := bin/lab/lab
LABFLAGS    ?=

.PHONY: lab-build
lab-build: build # the lab's own programs and the parts that Debian does not have
	@./deploy/lab/parts/build.sh etcd kube-apiserver kube-controller-manager kubelet kube-proxy kwok helm
	@mkdir -p bin/lab
	@go build -C deploy/lab -o ../../bin/lab/ . ./pause ./e2e
	@$(MAKE) --no-print-directory image-build
	@$(IMAGE) -variants plain -platforms linux/$$(go env GOARCH)

.PHONY: lab
lab: ## raise a whole farm on this machine, real kubelets included (root; docs/lab.md)
	@./deploy/lab/install-debian
	@$(MAKE) --no-print-directory lab-build
	@$(LAB) up $(LABFLAGS)

.PHONY: lab-status
lab-status: ## tell address and health of each part of the lab
	@[ -x $(LAB) ] || { echo 'lab: there is none; raise it first with "make lab"' >&2; exit 1; }
	@$(LAB) status $(LABFLAGS)

.PHONY: e2e
e2e: ## walk the raised lab as users and operators would (root)
	@[ -x bin/lab/e2e ] || { echo 'e2e: there is no lab; raise it first with "make lab"' >&2; exit 1; }
	@bin/lab/e2e $(LABFLAGS)

.PHONY: lab-down
lab-down: ## end the lab and compare the machine with what it was before (root)
	@mkdir -p bin/lab && go build -C deploy/lab -o ../../bin/lab/ .
	@$(LAB) down $(LABFLAGS)

.PHONY: lint
lint: ## gofmt, vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi
	go vet ./...
	go vet -tags bench,profiling ./internal/testkit/bench ./cmd/config-server
	go run $(STATICCHECK) ./...
	cd deploy/lab && go vet ./... && go run $(STATICCHECK) ./...
	cd deploy/image && go vet ./... && go run $(STATICCHECK) ./...

.PHONY: generate
generate: ## write docs/CODES.md and the definitions of projects anew
	go generate ./internal/farm/... ./internal/projects/...

.PHONY: clean
clean: ## remove what was built here; the cache of built parts stays
	rm -rf bin coverage.out
