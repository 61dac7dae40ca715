package helm

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// keyed are the values whose keys become labels or annotations of objects that have some already.
var keyed = []string{
	"commonLabels", "podLabels", "podAnnotations", "serviceAccount.annotations", "serviceMonitor.labels", "serviceMonitor.annotations",
	"prometheusRule.labels", "prometheusRule.annotations", "dashboard.labels", "dashboard.annotations",
}

// keys are keys of the chart's own labels and annotations, and others.
var keys = []string{
	"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component", "app.kubernetes.io/managed-by",
	"helm.sh/chart", "driver-container/pool", "nvidia.com/precompiled", "checksum/config", "kubectl.kubernetes.io/default-container",
	"example.com/team", "cost-centre",
}

// everything makes every object of the chart that has labels.
const everything = `
image: {repository: registry.example.com/driver, tag: 535.261.03-debian12}
acceptLicense: true
evictGPUPods: true
nodeCondition: true
rbac: {ownNodeOnly: true}
nodeReadinessRule: {enabled: true}
nfd: {gpuRules: true}
metrics: {service: true}
networkPolicy: {enabled: true}
preflight: {enabled: true}
prePull: {images: [registry.example.com/driver:550.163.01-debian12]}
moduleParameters: {nvidia: {NVreg_X: 1}}
repoConfig: {files: {a.list: deb http://example.com a b}}
fabric: {config: LOG_LEVEL=4}
serviceMonitor: {enabled: true}
prometheusRule: {enabled: true}
dashboard: {enabled: true}
`

// TestLabels renders random labels and annotations of a user, some with keys of the chart's own. No mapping has a key
// twice, no value of the chart is replaced, selectors match the pods, and commonLabels are on every object and pod.
func TestLabels(t *testing.T) {
	t.Parallel()
	control.Gate(t)
	plain := rendered(t, everything)
	file := filepath.Join(t.TempDir(), "values.yaml")
	rapid.Check(t, func(r *rapid.T) {
		values := everything
		common := map[string]string{}
		for _, path := range keyed {
			given := rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"", "x", "1", "true"}), 0, 4).Draw(r, path)
			if path == "commonLabels" {
				common = given
			}
			values = withValue(t, values, path, given)
		}
		require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
		text, err := template(t, "--values", file)
		if err != nil {
			r.Fatal(err)
		}
		objects, err := documents(text)
		if err != nil {
			r.Fatalf("%v\n%s", err, values)
		}
		if len(objects) != len(plain) {
			r.Fatalf("%d objects, without labels of a user %d", len(objects), len(plain))
		}
		for i, object := range objects {
			err := judgeLabels(object, plain[i], common)
			if err != nil {
				r.Fatalf("%s: %v\n%s", object.Kind, err, values)
			}
		}
	})
}

// labelled is what this test reads of an object.
type labelled struct {
	Kind     string
	Metadata metadata
	Spec     struct {
		Selector yaml.Node
		Template struct{ Metadata metadata }
	}
}

type metadata struct{ Labels, Annotations map[string]string }

// judgeLabels compares an object with the same one without labels of a user.
func judgeLabels(got, plain labelled, common map[string]string) error {
	for _, pair := range [][2]metadata{{got.Metadata, plain.Metadata}, {got.Spec.Template.Metadata, plain.Spec.Template.Metadata}} {
		err := kept(pair[0].Labels, pair[1].Labels)
		if err != nil || len(pair[1].Labels) == 0 {
			return err
		}
		for key := range common {
			_, there := pair[0].Labels[key]
			if !there {
				return fmt.Errorf("the label %s of commonLabels is missing", key)
			}
		}
	}
	sum := got.Spec.Template.Metadata.Annotations["checksum/config"]
	if sum != plain.Spec.Template.Metadata.Annotations["checksum/config"] {
		return fmt.Errorf("checksum/config is %q", sum)
	}
	var selector struct{ MatchLabels map[string]string }
	if got.Kind != "DaemonSet" {
		return nil
	}
	err := got.Spec.Selector.Decode(&selector)
	if err != nil {
		return err
	}
	return kept(got.Spec.Template.Metadata.Labels, selector.MatchLabels)
}

// kept fails if a mapping lacks something of another one.
func kept(got, want map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			return fmt.Errorf("%s is %q, not %q", key, got[key], want[key])
		}
	}
	return nil
}

// withValue returns values with a mapping at a path of one or two names.
func withValue(t *testing.T, values, path string, given map[string]string) string {
	t.Helper()
	var all map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(values), &all))
	at := all
	group, name, below := strings.Cut(path, ".")
	if below {
		found, ok := all[group].(map[string]any)
		if !ok {
			found = map[string]any{}
			all[group] = found
		}
		at = found
	} else {
		name = group
	}
	at[name] = given
	return string(require.Value(yaml.Marshal(all))(t))
}

// rendered returns the objects of the chart with these values.
func rendered(t *testing.T, values string) []labelled {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	return require.Value(documents(require.Value(template(t, "--values", file))(t)))(t)
}

// documents reads the objects of rendered YAML. A key that is twice in a mapping is an error.
func documents(text string) ([]labelled, error) {
	var found []labelled
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var whole yaml.Node
		err := d.Decode(&whole)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		var all map[string]any
		var object labelled
		err = errors.Join(err, whole.Decode(&all), whole.Decode(&object))
		if err != nil {
			return nil, err
		}
		found = append(found, object)
	}
}
