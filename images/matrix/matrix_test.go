package matrix

import (
	"slices"
	"strings"
	"testing"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// embedded returns the matrix that the module embeds.
func embedded(t *testing.T) *Matrix {
	t.Helper()
	m, err := Parse("matrix.yaml", drivercontainer.Matrix)
	if err != nil {
		t.Fatalf("Parse(matrix.yaml):\n%v", err)
	}
	return m
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	if m.Defaults.Profile != "full" { // TestEmbeddedPairs has the systems and drivers
		t.Errorf("profile %q", m.Defaults.Profile)
	}
	unknown := []string{"ol10", "fedora45", "azurelinux3.0", "flatcar", "gardenlinux1877", "gardenlinux2150"}
	for _, system := range m.Systems {
		_, known := system.EndOfLife.Advisory()
		assert.Equalf(t, slices.Contains(unknown, system.ID), !known, "end of life of %s", system.ID)
	}
	for _, d := range m.Drivers {
		if len(d.Archives) == 0 || d.Kernel.Max == "" || d.Kernel.Min == "" {
			t.Errorf("driver %s is incomplete: %+v", d.Version, d)
		}
		for arch, a := range d.Archives {
			name := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
			redist := map[string]string{"amd64": "linux-x86_64", "arm64": "linux-sbsa"}[arch] + "-" + d.Version + redistEnding
			if !strings.HasSuffix(a.URL, "/NVIDIA-Linux-"+name+"-"+d.Version+".run") && !strings.HasSuffix(a.URL, "/nvidia_driver-"+redist) {
				t.Errorf("driver %s %s has the URL %s", d.Version, arch, a.URL)
			}
		}
	}
}

// The whole table as users see it: which pairs can be built, and which rule forbids the others.
func TestEmbeddedPairs(t *testing.T) {
	t.Parallel()
	m := embedded(t)
	targets := require.Value(m.Select(Selection{All: true, Archs: knownArchs}))(t)
	var b strings.Builder
	for _, target := range targets {
		b.WriteString(target.Tag() + " " + target.Arch + " " + strings.Join(target.Flavours, ",") + "\n")
	}
	b.WriteString("\n")
	for _, e := range m.Impossible(Selection{Archs: knownArchs}) {
		b.WriteString(e.Error() + "\n")
	}
	goldentest.Compare(t, "testdata/pairs.golden", b.String())
}
