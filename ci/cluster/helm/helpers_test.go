package helm

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const (
	repository = "../../.." // the project's folder
	chart      = repository + "/deploy/chart"
	selector   = "app.kubernetes.io/component=nvidia-driver"
)

// setFlags returns helm's flags that set values.
func setFlags(values ...string) []string {
	var flags []string
	for _, v := range values {
		flags = append(flags, "--set", v)
	}
	return flags
}

// minimal returns flags with the values that every release needs.
func minimal(more ...string) []string {
	return setFlags(append([]string{"image.repository=registry.example.com/driver", "image.tag=535.261.03-debian12"}, more...)...)
}

// namespace makes a namespace in which driver pods are allowed.
func namespace(t *testing.T, p *control.Plane, name string) {
	t.Helper()
	p.Kubectl("create", "namespace", name)
	p.Kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=privileged")
}

// apply creates an object from JSON or YAML; the test fails if the API server refuses it.
func apply(t *testing.T, p *control.Plane, object string) {
	t.Helper()
	require.NoErrorf(t, assert.Err(p.KubectlInput(object, "create", "-f", "-")), "%s", object)
}

// get decodes the output of kubectl get.
func get[T any](t *testing.T, p *control.Plane, args ...string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(p.Kubectl(append([]string{"get", "-o", "json"}, args...)...)), &v))
	return v
}

// monitoring installs the definitions of the Prometheus Operator's objects, from the operator's own release.
func monitoring(t *testing.T, p *control.Plane) {
	t.Helper()
	dir := moduleDir(t, "ci/cluster/tools/crds", "github.com/prometheus-operator/prometheus-operator")
	for _, kind := range []string{"servicemonitors", "podmonitors", "prometheusrules"} {
		p.Kubectl("create", "-f", filepath.Join(dir, "example/prometheus-operator-crd/monitoring.coreos.com_"+kind+".yaml"))
		p.Kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/"+kind+".monitoring.coreos.com")
	}
}

// nodeFeatures installs the definitions of Node Feature Discovery's objects, from its own release.
func nodeFeatures(t *testing.T, p *control.Plane) {
	t.Helper()
	dir := moduleDir(t, "ci/peers/nfd/testdata/labels", "sigs.k8s.io/node-feature-discovery")
	p.Kubectl("create", "-f", filepath.Join(dir, "deployment/base/nfd-crds/nfd-api-crds.yaml"))
	p.Kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/nodefeaturerules.nfd.k8s-sigs.io")
}

// readiness installs the definition of the Node Readiness Controller's rules.
func readiness(t *testing.T, p *control.Plane) {
	t.Helper()
	p.Kubectl("create", "-f", "testdata/nodereadinessrules.yaml")
	p.Kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/nodereadinessrules.readiness.node.x-k8s.io")
}

// moduleDir returns the folder of a module that another module of this project requires.
func moduleDir(t *testing.T, from, module string) string {
	t.Helper()
	out := require.Value(tool.Run(t.Context(), filepath.Join(repository, from), nil, "go", "mod", "download", "-json", module))(t)
	var found struct{ Dir string }
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	return found.Dir
}

// daemonSets returns the DaemonSets of rendered manifests.
func daemonSets(t *testing.T, rendered string) (all []appsv1.DaemonSet) {
	t.Helper()
	for text := range strings.SplitSeq(rendered, "\n---") {
		if !strings.Contains(text, "\nkind: DaemonSet\n") {
			continue
		}
		var object map[string]any
		require.NoError(t, yaml.Load([]byte(text), &object))
		var set appsv1.DaemonSet
		require.NoError(t, json.Unmarshal(require.Value(json.Marshal(object))(t), &set))
		all = append(all, set)
	}
	return all
}

// base returns a file's name without its extension.
func base(path string) string { return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) }

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("nothing is called %s (%v)", pattern, err)
	}
	return paths
}

// each runs work for every item, some at a time; any error ends the test.
func each[T any](t *testing.T, items []T, work func(context.Context, T) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for _, item := range items {
		group.Go(func() error { return work(ctx, item) })
	}
	require.NoError(t, group.Wait())
}
