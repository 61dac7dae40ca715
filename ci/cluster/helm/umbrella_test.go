package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// umbrella makes a chart that has this one twice: once by its name, with a tag, and once as `second`. Both have a condition.
func umbrella(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	own := require.Value(filepath.Abs(chart))(t)
	files := map[string]string{
		"Chart.yaml": fmt.Sprintf(`apiVersion: v2
name: platform
version: 1.0.0
dependencies:
  - {name: nvidia-driver, version: ">=0.1.0", repository: "file://%[1]s", condition: nvidia-driver.enabled, tags: [gpu]}
  - {name: nvidia-driver, version: ">=0.1.0", repository: "file://%[1]s", condition: "second.enabled,global.second", alias: second}
`, own),
		"values.yaml": `global: {second: false, team: ml}
nvidia-driver: {image: {repository: registry.example.com/driver, tag: 535.261.03-debian12}}
second: {image: {repository: registry.example.com/driver, tag: 550.163.01-debian12}}
`,
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.Value(control.Helm(t, "dependency", "build", dir))(t)
	return dir
}

// setNames returns the names of DaemonSets, sorted.
func setNames(sets []apps.DaemonSet) (all []string) {
	for _, set := range sets {
		all = append(all, set.Name)
	}
	slices.Sort(all)
	return all
}

// A parent chart decides by condition, tags and alias whether it has this chart, and gives it `global`.
func TestUmbrella(t *testing.T) {
	control.Gate(t)
	dir := umbrella(t)
	for name, tc := range map[string]struct{ values, want []string }{
		"nothing said":             {nil, []string{"platform-nvidia-driver"}},
		"on":                       {[]string{"nvidia-driver.enabled=true"}, []string{"platform-nvidia-driver"}},
		"off":                      {[]string{"nvidia-driver.enabled=false"}, nil},
		"without a value":          {[]string{"nvidia-driver.enabled=null"}, []string{"platform-nvidia-driver"}},
		"keys without values":      {[]string{"nvidia-driver.nfd=null", "nvidia-driver.precompiled.enabled=null", "nvidia-driver.tolerations=null", "global.imageRegistry=null"}, []string{"platform-nvidia-driver"}},
		"tag off":                  {[]string{"tags.gpu=false"}, nil},
		"tag off, condition on":    {[]string{"tags.gpu=false", "nvidia-driver.enabled=true"}, []string{"platform-nvidia-driver"}},
		"both":                     {[]string{"second.enabled=true"}, []string{"platform-nvidia-driver", "platform-second"}},
		"the alias alone":          {[]string{"nvidia-driver.enabled=false", "second.enabled=true"}, []string{"platform-second"}},
		"on by global":             {[]string{"global.second=true"}, []string{"platform-nvidia-driver", "platform-second"}},
		"the condition goes first": {[]string{"global.second=true", "second.enabled=false"}, []string{"platform-nvidia-driver"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"template", "platform", dir, "--kube-version", kubeVersion}, setFlags(tc.values...)...)
			rendered := require.Value(control.Helm(t, args...))(t)
			assert.Samef(t, tc.want, setNames(daemonSets(t, rendered)), "DaemonSets (-want +got)")
		})
	}
}

// A parent chart's registry has all images, and its secrets are those of all pods.
func TestGlobal(t *testing.T) {
	control.Gate(t)
	for name, tc := range map[string]struct{ repository, registry, want string }{
		"another registry":      {"registry.example.com/gpu/driver", "mirror.example.com", "mirror.example.com/gpu/driver"},
		"a path, and ports":     {"registry.example.com:5000/driver", "mirror.example.com:5000/proxy/", "mirror.example.com:5000/proxy/driver"},
		"a path only":           {"gpu/driver", "mirror.example.com", "mirror.example.com/gpu/driver"},
		"a name only":           {"driver", "mirror.example.com", "mirror.example.com/driver"},
		"this machine":          {"localhost/driver", "mirror.example.com", "mirror.example.com/driver"},
		"without a registry":    {"registry.example.com/driver", "", "registry.example.com/driver"},
		"null, as some have it": {"registry.example.com/driver", "null", "registry.example.com/driver"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendered := require.Value(template(t, minimal("image.repository="+tc.repository, "global.imageRegistry="+tc.registry, "preflight.enabled=true")...))(t)
			var images []string
			for _, found := range regexp.MustCompile(`(?m)^ *image: (.*)$`).FindAllStringSubmatch(rendered, -1) {
				images = append(images, strings.Trim(found[1], `"`))
			}
			assert.Samef(t, []string{tc.want + ":535.261.03-debian12"}, slices.Compact(images), "images (-want +got)")
		})
	}
	rendered := require.Value(template(t, minimal("global.imageRegistry=mirror.example.com", "moduleImages={registry.example.com/driver:a-modules}",
		"prePull.images={registry.example.com/driver:535.261.03-debian12}", "preflight.enabled=true",
		"image.pullSecrets={own}", "global.imagePullSecrets[0].name=a", "global.imagePullSecrets[1]=b")...))(t)
	assert.Equalf(t, 0, strings.Count(rendered, "registry.example.com"), "images of the registry that is replaced")
	assert.Containsf(t, rendered, "reference: \"mirror.example.com/driver:a-modules\"", "a set of modules")
	pods := strings.Count(rendered, "imagePullSecrets:")
	for _, name := range []string{"own", "a", "b"} {
		assert.Equalf(t, pods, strings.Count(rendered, "- name: "+name+"\n"), "pods with the secret %s", name)
	}
}

// The API server takes a release of a parent chart, and an upgrade that turns this chart off removes it.
func TestUmbrellaRelease(t *testing.T) {
	p := control.Start(t, control.Config{})
	dir := umbrella(t)
	namespace(t, p, "gpu")
	p.Helm(append([]string{"install", "platform", dir, "-n", "gpu"}, setFlags("nvidia-driver.enabled=true", "second.enabled=true")...)...)
	assert.Samef(t, []string{"platform-nvidia-driver", "platform-second"}, installed(t, p), "DaemonSets after the installation")
	p.Helm("upgrade", "platform", dir, "-n", "gpu", "--reuse-values", "--set", "nvidia-driver.enabled=false")
	assert.Samef(t, []string{"platform-second"}, installed(t, p), "DaemonSets after the upgrade")
}

// installed returns the names of the DaemonSets in the namespace gpu.
func installed(t *testing.T, p *control.Plane) []string {
	t.Helper()
	return setNames(get[apps.DaemonSetList](t, p, "daemonsets", "-n", "gpu").Items)
}
