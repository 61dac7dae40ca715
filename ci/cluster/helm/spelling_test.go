package helm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// written renders values that are written as YAML, over an image that is given.
func written(t *testing.T, values string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	return template(t, append(setFlags("image.repository=registry.example.com/driver", "os=ubuntu22.04"), "--values", file)...)
}

// What people write in another form than this chart does, as other charts take it, means the same.
func TestOtherSpellings(t *testing.T) {
	control.Gate(t)
	for name, tc := range map[string]struct{ own, other string }{
		"a list of exceptions":   {`proxies: {noProxy: "10.0.0.0/8,.svc"}`, `proxies: {noProxy: [10.0.0.0/8, .svc]}`},
		"secrets as objects":     {`image: {pullSecrets: [a, b]}`, `image: {pullSecrets: [{name: a}, b]}`},
		"CUDA without quotes":    {`requires: {cuda: "12.8"}`, `requires: {cuda: 12.8}`},
		"CUDA as a whole number": {`requires: {cuda: "12.0"}`, `requires: {cuda: 12.0}`},
		"CUDA of a pool":         {`pools: [{name: a, requires: {cuda: "13.0"}}]`, `pools: [{name: a, requires: {cuda: 13.0}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const driver = "driver: 580.178.04\n"
			own := require.Value(written(t, driver+tc.own))(t)
			other := require.Value(written(t, driver+tc.other))(t)
			assert.Samef(t, own, other, "(-as this chart writes it +as others do)")
		})
	}
}

// A value of another type than Kubernetes has is refused before the API server sees it, at its place.
func TestMisspelt(t *testing.T) {
	control.Gate(t)
	for name, tc := range map[string]struct{ values, want string }{
		"a value that is true":         {`tolerations: [{key: a, operator: Equal, value: true}]`, "at '/tolerations/0/value': got boolean, want string"},
		"small letters":                {`tolerations: [{key: a, operator: exists}]`, "at '/tolerations/0/operator': value must be one of '', 'Exists', 'Equal'"},
		"an effect in small letters":   {`tolerations: [{key: a, effect: noSchedule}]`, "at '/tolerations/0/effect': value must be one of '', 'NoSchedule'"},
		"an operator misspelt":         {`tolerations: [{key: a, operater: Exists}]`, "additional properties 'operater' not allowed"},
		"seconds as a text":            {`tolerations: [{key: a, effect: NoExecute, tolerationSeconds: "300"}]`, "at '/tolerations/0/tolerationSeconds': got string, want integer"},
		"a value for any":              {`tolerations: [{key: a, operator: Exists, value: b}]`, "tolerations[0]: operator Exists takes no value"},
		"equal to what":                {`tolerations: [{key: a}, {value: b}]`, "tolerations[1]: key is missing"},
		"seconds without an effect":    {`tolerations: [{key: a, tolerationSeconds: 300}]`, "tolerations[0]: tolerationSeconds needs effect NoExecute"},
		"affinity to true":             {`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: In, values: [true]}]}]}}}`, "/matchExpressions/0/values/0': got boolean, want string"},
		"an operator of affinity":      {`affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: in}]}]}}}`, "/matchExpressions/0/operator': value must be one of 'In'"},
		"affinity to pods of no place": {`affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}`, "missing property 'topologyKey'"},
		"a driver without quotes":      {`driver: 410.10`, "driver: 410.1 is a number, and YAML leaves out a 0 at the end of one: put the version in quotes"},
		"the operator's version":       {`driver: {version: 410.10}`, "driver.version: 410.1 is a number"},
		"a tag without quotes":         {`image: {tag: 535.10}`, "image.tag: 535.1 is a number"},
		"a pool's driver":              {`{driver: 580.178.04, pools: [{name: a, driver: 410.10}]}`, `pool "a": driver: 410.1 is a number`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.ErrorContainsf(t, assert.Err(written(t, tc.values)), tc.want, "%s", tc.values)
		})
	}
}
