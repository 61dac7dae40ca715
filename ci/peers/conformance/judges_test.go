package conformance

import (
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// judge is a repository of NVIDIA's at one commit, with the commands that build its programs. They run in the
// checkout, whose folder vendor has all dependencies; $OUT is where they put programs. A machine that does
// not reach GitHub has a mirror in git's own configuration (url.MIRROR.insteadOf).
type judge struct{ repository, commit, build string }

// Mock of NVML with its control program, and two programs that play daemons (v0.3.0 and 49 commits, 2026-08-21).
var mockNVML = judge{"https://github.com/NVIDIA/k8s-test-infra", "3b2b865d91b1844baa9feeca2820d2fab65414c7", `
make -C pkg/gpu/mocknvml NO_PADDING=1 LIB_VERSION=` + driver + `
cp -P pkg/gpu/mocknvml/libnvidia-ml.so.1 pkg/gpu/mocknvml/libnvidia-ml.so.` + driver + ` $OUT
cp pkg/gpu/mocknvml/configs/mock-nvml-config-h100.yaml $OUT/h100.yaml
go build -o $OUT/nvml-mock-ctl ./cmd/nvml-mock-ctl
go build -o $OUT/nv-fabricmanager ./cmd/fake-fabricmanager/daemon
go build -o $OUT/nvidia-imex ./cmd/fake-imex/daemon
go build -o $OUT/nvidia-imex-ctl ./cmd/fake-imex/ctl`}

// NVIDIA's device plugin 0.20.0, built as its Makefile does, with the kubelet's end of its socket.
var devicePlugin = judge{"https://github.com/NVIDIA/k8s-device-plugin", "1b826acc6af3079d8923bac395c3124b8861a9a6", `
mkdir cmd/registrar
cp $TESTDATA/registrar.go cmd/registrar
go build -ldflags "-s -w '-extldflags=-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files'" -o $OUT ./cmd/nvidia-device-plugin ./cmd/registrar`}

// NVIDIA's driver for Dynamic Resource Allocation (after v0.5.0, 2026-08), with a kubelet's call for a claim.
var draDriver = judge{"https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu", "95932046683719c43b6a0dd9613c2e5aad5d6703", `
mkdir cmd/claimant
cp $TESTDATA/claimant.go cmd/claimant
cp deployments/helm/dra-driver-nvidia-gpu/crds/*.yaml $OUT
go build -ldflags "-s -w '-extldflags=-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files'" -o $OUT ./cmd/gpu-kubelet-plugin ./cmd/compute-domain-kubelet-plugin ./cmd/claimant`}

// programs returns the folder with what the judge's commands made, once for all runs.
func (j judge) programs(t *testing.T) string {
	t.Helper()
	tool.Real(t, "it builds programs of NVIDIA's from GitHub, which takes minutes")
	testdata := require.Value(filepath.Abs("testdata"))(t)
	return tool.Cached(t, cacheDir(t), "judge-"+filepath.Base(j.repository)+"-", func(partial string) error {
		source := t.TempDir()
		for _, step := range [][]string{
			{"mkdir", partial},
			{"git", "init", "--quiet"},
			{"git", "fetch", "--quiet", "--depth=1", j.repository, j.commit},
			{"git", "checkout", "--quiet", "FETCH_HEAD"},
			{"sh", "-euc", j.build},
		} {
			_, err := tool.Run(t.Context(), source, []string{"OUT=" + partial, "TESTDATA=" + testdata, "GOFLAGS=-mod=vendor -trimpath -buildvcs=false"}, step...)
			if err != nil {
				return err
			}
		}
		return nil
	}, []string{j.repository, j.commit, j.build}, testdata)
}
