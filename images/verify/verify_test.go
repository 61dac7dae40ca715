package verify

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"pgregory.net/rapid"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestCheckSet: a module that the kernel of its set refuses is found.
func TestCheckSet(t *testing.T) {
	t.Parallel()
	const driver, kernel = "535.261.03", "6.1.0-56-amd64"
	uvm := imagetest.LinkedModule("nvidia_uvm", driver, kernel, nil, []string{"nvUvmInterfaceRegisterGpu", "kmalloc"})
	core := imagetest.LinkedModule("nvidia", driver, kernel, []string{"nvUvmInterfaceRegisterGpu"}, []string{"kmalloc"})
	for what, c := range map[string]struct {
		modules map[string][]byte
		want    []string
	}{
		"good":         {map[string][]byte{"nvidia": core, "nvidia-uvm": uvm}, nil},
		"other kernel": {map[string][]byte{"nvidia": imagetest.Module("nvidia", driver, "6.1.0-9-amd64"), "nvidia-uvm": imagetest.Module("nvidia_uvm", driver, kernel)}, []string{`is for kernel "6.1.0-9-amd64" (vermagic)`}},
		"other driver": {map[string][]byte{"nvidia": core, "nvidia-uvm": imagetest.Module("nvidia_uvm", "550.54.14", kernel)}, []string{"is of driver 550.54.14"}},
		"companion":    {map[string][]byte{"nvidia": core, "nvidia-uvm": uvm, "nvidia-fs": imagetest.Module("nvidia_fs", "2.13.5", kernel)}, nil},
		"companion of another kernel": {map[string][]byte{"nvidia": core, "nvidia-uvm": uvm, "nvidia-fs": imagetest.Module("nvidia_fs", "2.13.5", "6.1.0-9-amd64")},
			[]string{`is for kernel "6.1.0-9-amd64" (vermagic)`}},
		"other module":   {map[string][]byte{"nvidia": core, "nvidia-uvm": imagetest.Module("nvidia_drm", driver, kernel)}, []string{"is the module nvidia_drm"}},
		"one is missing": {map[string][]byte{"nvidia": core}, []string{"has no module nvidia_uvm"}},
		"symbol":         {map[string][]byte{"nvidia": imagetest.Module("nvidia", driver, kernel), "nvidia-uvm": uvm}, []string{"needs nvUvmInterfaceRegisterGpu, which no module of its set has"}},
		"no module":      {map[string][]byte{"nvidia": core, "nvidia-uvm": []byte("text")}, []string{"not a kernel module"}},
	} {
		set := ModuleSet{Folder: "x", Kernel: kernel}
		for name, data := range c.modules {
			f := ModuleInfo{Name: name}
			f.damage = f.read(name+".ko", bytes.NewReader(data), int64(len(data)))
			set.Modules = append(set.Modules, f)
		}
		var got []string
		s := &subject{version: driver}
		s.checkSet(set)
		for _, f := range s.findings {
			got = append(got, f.Message)
		}
		if len(got) != len(c.want) || len(got) > 0 && !strings.Contains(got[0], c.want[0]) {
			t.Errorf("%s: %s", what, cmp.Diff(c.want, got))
		}
	}
}

func TestSummarizeBase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, digest, want string }{
		{"docker.io/library/debian:12-slim", "sha256:1", "docker.io/library/debian:12-slim@sha256:1"},
		{"", "sha256:1", "sha256:1"},
		{"", "", ""},
	} {
		img := require.Value(mutate.Config(empty.Image, v1.Config{Labels: map[string]string{recipe.OCIPrefix + "base.name": c.name, recipe.OCIPrefix + "base.digest": c.digest}}))(t)
		assert.Equalf(t, c.want, require.Value(Summarize(img))(t).Base, "base %q %q", c.name, c.digest)
	}
}

// TestOneLine: whatever an image calls its files, a finding is one line, and its path in JSON is the file's name.
func TestOneLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringOf(rapid.SampledFrom([]rune("ab/\n\r\x1b\u2028\u202e"))).Draw(rt, "name")
		s := subject{rule: "files"}
		s.fail(name, "leads to %s", name)
		found := s.findings[0]
		assert.Equalf(rt, 1, len(strings.Split(found.String(), "\n")), "lines of %q", found.String())
		assert.Equal(rt, -1, strings.IndexFunc(found.String(), func(r rune) bool { return !unicode.IsPrint(r) }))
		assert.Equal(rt, name, found.Path)
	})
}
