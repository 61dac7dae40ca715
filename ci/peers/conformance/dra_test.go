package conformance

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// claimed is a claim as the scheduler leaves it. The kubelet of this node has to prepare it.
const (
	ownNode = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node1"}}`
	claimed = `{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "one"},
"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}}`
	allocated = `{"status": {"allocation": {"devices": {"results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node1", "device": "gpu-1"}]}}}}`
)

// NVIDIA's driver for Dynamic Resource Allocation finds GPUs and version through the library in the root that the
// entrypoint serves, publishes them to a real API server, and prepares a claim; all paths of the CDI specification
// are below that root. Its plugin for compute domains publishes a channel and a daemon.
func TestMockNVMLClaims(t *testing.T) {
	plane := control.Start(t, control.Config{})
	ctx := private(t)
	m := newMocked(t)
	programs := draDriver.programs(t)
	m.served(ctx)
	apply := func(text string) {
		t.Helper()
		require.Value(plane.KubectlInput(text, "apply", "-f", "-"))(t)
	}
	apply(ownNode)
	plane.Kubectl("apply", "-f", programs)
	// the kernel's list of character devices, as NVIDIA's driver extends it
	t.Setenv("ALT_PROC_DEVICES_PATH", testfile.Write(t, filepath.Join(m.dir, "devices"), "Character devices:\n234 nvidia-caps-imex-channels\n235 nvidia-caps\n\nBlock devices:\n"))
	common := []string{
		"--node-name=node1", "--kubeconfig=" + plane.Config, "--nvidia-driver-root=" + driverRoot,
		"--container-driver-root=" + pluginRoot, "--nvidia-cdi-hook-path=" + hookPath, "--cdi-root=/run/cdi-dra",
	}
	require.NoError(t, os.MkdirAll("/var/lib/kubelet/plugins_registry", 0o755))
	// devices returns what a driver has published.
	devices := func(name string, log *tool.Buffer) (text string) {
		plane.Wait(time.Minute, name+" publishes devices", func() (err error) {
			text, err = plane.TryKubectl("get", "resourceslices", "--field-selector=spec.driver="+name, "-o", "json")
			if err == nil && !strings.Contains(text, `"devices"`) {
				err = errors.New(log.String())
			}
			return err
		})
		return text
	}
	m.with(ctx, func(log *tool.Buffer) {
		text := devices("gpu.nvidia.com", log)
		for _, part := range []string{`"name": "gpu-0"`, `"name": "gpu-1"`, `"string": "GPU-01000100-0000-0000-0000-000000000001"`, `"version": "535.261.3"`} {
			assert.Contains(t, text, part)
		}
		apply(claimed)
		plane.Kubectl("patch", "resourceclaim", "one", "--subresource=status", "--type=merge", "-p", allocated)
		uid := plane.Kubectl("get", "resourceclaim", "one", "-o", "jsonpath={.metadata.uid}")
		said, err := tool.Run(ctx, "", nil, filepath.Join(programs, "claimant"), "/var/lib/kubelet/plugins/gpu.nvidia.com/dra.sock", "default", "one", uid, "/run/cdi-dra")
		require.NoErrorf(t, err, "%s", log.String())
		assert.Contains(t, said, `"device_name":"gpu-1"`)
		inRoot(t, said)
	}, filepath.Join(programs, "gpu-kubelet-plugin"), append(common, "--image-name=none")...)
	m.control("set", "--gpu", "all", "fabric.state=completed") // else it refuses to start
	m.with(ctx, func(log *tool.Buffer) {
		text := devices("compute-domain.nvidia.com", log)
		assert.Contains(t, text, `"name": "channel-0"`)
		assert.Contains(t, text, `"name": "daemon-0"`)
	}, filepath.Join(programs, "compute-domain-kubelet-plugin"), append(common, "--feature-gates=IMEXDaemonsWithDNSNames=false,ComputeDomainCliques=false")...) // they need 570.158.01
}
