package helm

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
)

// kubeVersion is the version that helm assumes without a cluster. Without it the golden files would depend on
// helm's release.
const kubeVersion = "v1.36.0"

func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return control.Helm(t, append([]string{"template", "gpu", chart, "--namespace", "gpu-system", "--kube-version", kubeVersion}, args...)...)
}

func TestLint(t *testing.T) {
	for _, values := range glob(t, "testdata/values/*.yaml") {
		t.Run(base(values), func(t *testing.T) {
			t.Parallel()
			if out, err := control.Helm(t, "lint", "--strict", chart, "--values", values); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestGolden(t *testing.T) {
	for _, values := range glob(t, "testdata/values/*.yaml") {
		t.Run(base(values), func(t *testing.T) {
			t.Parallel()
			got := require.Value(template(t, "--values", values))(t)
			goldentest.Compare(t, filepath.Join("testdata/golden", filepath.Base(values)), got)
		})
	}
}

// TestWarnings sets values that work and deserve a warning. helm shows it before an installation (a comment
// in the output of `helm template`) and after it (the notes).
func TestWarnings(t *testing.T) {
	control.Gate(t)
	for name, tc := range map[string]struct {
		values []string
		want   string
	}{
		"a tag that does not parse": {[]string{"image.tag=latest"}, `# WARNING: image: the tag "latest" does not read as <driver>-<os> or <driver>-<kernel>-<os>`},
		"a system nobody knows":     {[]string{"image.tag=535.261.03-beos5"}, `the tag "535.261.03-beos5" does not read as`},
		"a kernel for all nodes":    {[]string{"image.tag=535.261.03-6.1.0-55-amd64-debian12"}, "is for kernel 6.1.0-55-amd64 only. With precompiled.enabled=true no other nodes get it"},
		"pools that may overlap": {
			[]string{"image.tag=535.261.03", "os=debian12", "pools[0].name=a", "pools[0].nodeSelector.a=b", "pools[1].name=b", "pools[1].nodeSelector.c=d"},
			`pools "a" and "b": a node with the labels of both would get two driver pods, one of which stays Pending`,
		},
		"none": {[]string{"image.tag=535.261.03-debian12"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := require.Value(template(t, setFlags(append([]string{"image.repository=registry.example.com/driver"}, tc.values...)...)...))(t)
			var warnings []string
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "# WARNING") {
					warnings = append(warnings, line)
				}
			}
			if all := strings.Join(warnings, ""); (all == "") != (tc.want == "") || !strings.Contains(all, tc.want) {
				t.Errorf("got %q; want %q", all, tc.want)
			}
		})
	}
}

// TestOpenShift renders for a cluster with security context constraints: the accounts of the privileged pods, and no
// others, may use the one that admits them. For other clusters nothing is rendered.
func TestOpenShift(t *testing.T) {
	control.Gate(t)
	const object = "name: system:openshift:scc:privileged}\nsubjects:\n"
	const account = "  - {kind: ServiceAccount, name: %s, namespace: gpu-system}\n"
	openshift := []string{"--api-versions", "security.openshift.io/v1/SecurityContextConstraints"}
	for values, want := range map[string][]string{
		"acceptLicense=true":          {"gpu-nvidia-driver"},
		"serviceAccount.create=false": {"default"},
		"preflight.enabled=true":      {"gpu-nvidia-driver", "default"},
		"rbac.create=false":           nil,
	} {
		text := require.Value(template(t, append(minimal(values), openshift...)...))(t)
		_, subjects, found := strings.Cut(text, object)
		assert.Equalf(t, len(want) > 0, found, "%s", values)
		subjects, _, _ = strings.Cut(subjects, "---\n")
		var expected strings.Builder
		for _, name := range want {
			fmt.Fprintf(&expected, account, name)
		}
		assert.Equalf(t, expected.String(), strings.ReplaceAll(subjects, "\n\n", "\n"), "%s", values)
		plain := require.Value(template(t, minimal(values)...))(t)
		assert.Equalf(t, false, strings.Contains(plain, "openshift"), "%s, another cluster", values)
	}
}

// TestFabricChanges changes the files about NVLink switches. They are mounted one by one, so that a running
// pod never sees the change: it needs new pods. FABRIC_MODE may be a number.
func TestFabricChanges(t *testing.T) {
	control.Gate(t)
	assert.Containsf(t, require.Value(template(t, minimal("fabric.mode=0")...))(t), "name: FABRIC_MODE\n              value: \"0\"", "a number")
	seen := map[string]string{}
	for _, values := range []string{"fabric.mode=1", "fabric.config=LOG_LEVEL=3", "fabric.config=LOG_LEVEL=4", "fabric.imexNodes={10.0.0.1}", "fabric.imexNodes={10.0.0.2}"} {
		_, after, found := strings.Cut(require.Value(template(t, minimal(values)...))(t), "checksum/config: ")
		sum, _, _ := strings.Cut(after, "\n")
		if other, twice := seen[sum]; !found || twice {
			t.Errorf("%s has the checksum %q, as has %q", values, sum, other)
		}
		seen[sum] = values
	}
}

// TestKernelTag compares the tags that the template makes of kernels' names with those of driver-build.
func TestKernelTag(t *testing.T) {
	control.Gate(t)
	for _, kernel := range []string{
		"6.1.0-55-amd64", "6.12.117+deb12-amd64", "6.1.85+", "5.14.0-503.el9.x86_64+rt", "4.4.0-210-generic", "6.6.0~rc1-custom_1", "6.1.0-", "6.1.0..-_",
	} {
		t.Run(kernel, func(t *testing.T) {
			t.Parallel()
			out := require.Value(template(t, minimal("image.tag=535.261.03", "os=debian12", "precompiled.enabled=true", "kernel="+kernel)...))(t)
			assert.Contains(t, out, fmt.Sprintf("image: %q", "registry.example.com/driver:535.261.03-"+distros.KernelTag(kernel)+"-debian12"))
		})
	}
}
