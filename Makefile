# make            build, lint what needs no download, fast tests
# make help       every target

OS      ?= debian12
DRIVER  ?= 535.261.03
ARCH    ?= amd64
OUTPUT  ?= oci:dist

# One place for the versions of the tools that check the code.
GOLANGCI_LINT_VERSION = v2.12.2
ACTIONLINT_VERSION    = v1.7.12

export CGO_CFLAGS += -O2 -Wno-deprecated-declarations
# The same flags for everything, so that what `make image` compiled serves `make test`, the linters and the
# tests that build programs.
export GOFLAGS := $(shell cat ci/goflags) $(GOFLAGS)
GO_BUILD = go build -buildvcs=auto -ldflags=-s\ -w
ARCHS    = amd64 arm64
PROGRAMS = $(ARCHS:%=programs-%)

.PHONY: all help build driver-build driver-guest $(PROGRAMS) image test race e2e e2e-full lab gpu buildkitd compat upstream gpulist bench fuzz lint vet docs pictures golden release clean
all: build vet test ## build, vet, fast tests

help: ## this text
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

build: driver-build driver-guest $(PROGRAMS) ## bin/driver-build, the programs of an image for both architectures, and that of a guest

driver-build:
	$(GO_BUILD) -o bin/driver-build ./cmd/driver-build

driver-guest:
	CGO_ENABLED=0 GOOS=linux GOARCH=amd64 $(GO_BUILD) -tags=netgo,osusergo -o bin/driver-guest-linux-amd64 ./cmd/driver-guest

# Without inlining driver-entrypoint is a twelfth smaller, and with functions at multiples of 16 bytes instead of
# 32 another hundredth; it asks by HTTP/1.1, as HTTP/2 is a 25th. images/programs makes it the same way.
$(PROGRAMS): programs-%:
	CGO_ENABLED=0 GOOS=linux GOARCH=$* $(GO_BUILD) -tags=netgo,osusergo,nethttpomithttp2 -gcflags=all=-l -ldflags='-s -w -funcalign=16' -o bin/driver-entrypoint-linux-$* ./cmd/driver-entrypoint
	ci/build-probe $*

image: driver-build programs-$(ARCH) ## the image of OS and DRIVER for ARCH, into OUTPUT; builds only what this image needs
	ci/image --os $(OS) --driver $(DRIVER) --arch $(ARCH) --output $(OUTPUT)

# Half of what the tests of driver-build did was to collect garbage.
test race: export GOGC = 400
test race: export GOMEMLIMIT = 3GiB
test race: export TMPDIR := $(shell ci/tmpdir)

# Go keeps the results of tests, unless their order is shuffled: race does that.
test: ## the fast tier: Go and a C compiler, under two minutes, and seconds after a change of one package; `make vet` and `make race` look at the same code in other ways
	go test -vet=off -ldflags=-w ./...

# ci/lint looks that no package is missing which starts goroutines or has locks.
race: ## the fast tests of packages that do several things at once, with the race detector: they are compiled once more for it
	go test -vet=off -ldflags=-w -race -shuffle=on ./cmd/driver-build/flags ./cmd/driver-build/session ./cmd/driver-entrypoint ./cmd/driver-guest \
		./distros/apt ./distros/fetch ./distros/rpm ./kmod ./kmod/kbuild \
		./images/bundle ./images/layer ./images/matrix ./images/oci ./images/outfile ./images/programs ./images/registry ./images/rehearse/gpu \
		./images/rehearse/guest ./images/rehearse/kernel ./images/releases ./images/rootfs ./images/runner ./images/runner/buildkit ./images/signature ./images/status \
		./node ./node/cli ./node/daemons ./node/driverroot ./node/fabric ./node/host ./node/kubernetes ./node/metrics ./node/probe ./node/status ./node/support
	go test -vet=off -ldflags=-w -race -run '^(TestMany.*|TestCancel.*|TestSignal.*|TestDoctor.*|Test(CompiledOnce|Combine|ModulesFound|Fabric|FabricRefused|RPMImage|Patches|RedistSameLayers|PatchFromURL))$$' ./cmd/driver-build ./images

e2e: build ## what CI runs of the tests that need root, the network, guests: one proof of each promise; see docs/develop.md
	ci/e2e/run

e2e-full: build ## all of these tests, tier by tier; TIER=lab-secureboot for one, TIER=cluster for all cluster-*
	ci/e2e/run $(or $(TIER),-all)

lab: build ## scenarios of driver-entrypoint in QEMU guests; SCENARIO=06 for some of them
	@go test -list '$(SCENARIO)' ./ci/lab/scenarios | grep -q ^Test || { echo "make lab: no scenario matches SCENARIO=$(SCENARIO)" >&2; exit 2; }
	DRIVER_E2E=1 go test -v -count=1 -timeout 180m -parallel 2 -run '$(SCENARIO)' ./ci/lab/scenarios

buildkitd: ## a BuildKit daemon of the tested version, for --builder buildkit; needs root and runc
	ci/buildkitd start

release: ## the files of a release, of the commit that is checked out, into dist/release; needs Git and both C compilers
	go run ./ci/release -out dist/release

compat: build ## every driver and kernel that Debian's packages allow, compiled; writes docs/compat.md; an hour and more
	ci/tables/compat/run

upstream: ## what differs between the tables and public sources: NVIDIA's open modules, Gentoo, nixpkgs, the redist folder
	ci/tables/upstream/differences

gpulist: ## the list of GPUs per branch, images/gpus/gpus.tsv, from the drivers in Debian's packages
	ci/tables/upstream/gpus

gpu: ## questions to GPUs whose driver is loaded, against nvidia-smi, as a table; changes nothing; bin/gpu can be carried to such a machine
	ci/peers/gpu/build
	bin/gpu/gpu-check

bench: build ## speed, memory and size against alternatives, as a table of goals (docs/benchmarks.md); refuses a busy machine; PART=runner for one part, SHORT=1 to see that it works
	ci/bench/run

fuzz: ## every fuzz target for FUZZTIME (default 30s)
	ci/fuzz

vet: ## gofmt and go vet
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	ci/lint/vet-clients

lint: ## golangci-lint (with staticcheck, go vet, gofmt), actionlint, shellcheck; go install brings what is missing
	GOLANGCI_LINT_VERSION=$(GOLANGCI_LINT_VERSION) ACTIONLINT_VERSION=$(ACTIONLINT_VERSION) ci/lint/run

docs: dist/docs/node_modules/.package-lock.json ## the site of the documents, into dist/site; needs Node.js. python3 -m http.server -d dist/site shows it
	cp -r docs/site/.vitepress dist/docs
	go run ./ci/generate -site dist/docs/reference
	cd dist/docs && npm run --silent build

dist/docs/node_modules/.package-lock.json: docs/site/package-lock.json
	mkdir -p dist/docs && cp docs/site/package.json docs/site/package-lock.json docs/site/.npmrc dist/docs
	cd dist/docs && npm install --no-save --ignore-scripts --no-audit --no-fund # not npm ci, which wants the lock to have rollup for every platform

pictures: driver-build programs-amd64 ## the pictures of the README from real runs, into docs/pictures; PICTURE=report for one
	ci/pictures/run $(PICTURE)

golden: ## rewrite the golden files, the schemas, the generated files of the chart and parts of the pages in docs
	go test ./cmd/driver-build ./cmd/driver-entrypoint ./images ./images/matrix ./images/status ./images/runfile ./node/preflight ./node/status ./ci/tables/compat -update
	go run ./ci/generate

clean: ## remove what was built; the cache stays
	rm -rf bin dist
