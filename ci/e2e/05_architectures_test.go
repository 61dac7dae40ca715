package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/driver-container/driver-container/ci/require"
)

// One index for both architectures, built on one of them; the other's programs start under qemu.
func Test05Architectures(t *testing.T) {
	root := journey(t)
	i := image{dir: filepath.Join(scratch(t), "dist"), tag: "535.261.03-debian12"}
	i.digest = build(t, "--os", "debian12", "--driver", "535.261.03", "--arch", "amd64", "--arch", "arm64",
		"--allow-missing-programs", // driver-probe needs a C compiler for the other architecture
		"--matrix", filepath.Join(root, "matrix.yaml"), "--base", "oci:"+bothBases(t), "--output", "oci:"+i.dir)
	var index v1.IndexManifest
	raw := sh(t, "skopeo", "--insecure-policy", "inspect", "--raw", i.ref())
	require.NoError(t, json.Unmarshal([]byte(raw), &index))
	var archs []string
	for _, m := range index.Manifests {
		if m.Platform != nil {
			archs = append(archs, m.Platform.OS+"/"+m.Platform.Architecture)
		}
	}
	slices.Sort(archs)
	if !slices.Equal(archs, []string{"linux/amd64", "linux/arm64"}) {
		t.Fatalf("want linux/amd64 and linux/arm64:\n%s", raw)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		command{args: []string{program(t), "verify", "--arch", arch, i.ref()}}.want(t, 0)
	}
	arm := image{dir: filepath.Join(scratch(t), "arm64"), tag: i.tag}
	sh(t, "skopeo", "--insecure-policy", "--override-arch", "arm64", "copy", i.ref(), arm.ref())
	system := arm.unpack(t)
	qemu := func(program string, args ...string) command {
		return command{args: append([]string{"qemu-aarch64-static", "-L", system, filepath.Join(system, program)}, args...)}
	}
	qemu("usr/local/bin/driver-entrypoint", "version").want(t, 0)
	if smi := qemu("usr/bin/nvidia-smi").want(t, 9); !strings.Contains(smi.stdout, "couldn't communicate with the NVIDIA driver") {
		t.Errorf("nvidia-smi says something else\n%s", smi)
	}
	if gcc := qemu("usr/bin/gcc-12", "--version").want(t, 0); !strings.Contains(gcc.stdout, "Free Software Foundation") {
		t.Errorf("gcc does not answer\n%s", gcc)
	}
	qemu("usr/bin/make", "--version").want(t, 0)
}

// bothBases returns one layout with an index of the bases of both architectures.
func bothBases(t *testing.T) string {
	t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, arch := range []string{"amd64", "arm64"} {
		one := require.Value(layout.ImageIndexFromPath(strings.TrimPrefix(base(t, "debian12", arch), "oci:")))(t)
		manifest := require.Value(one.IndexManifest())(t)
		img := require.Value(one.Image(manifest.Manifests[0].Digest))(t)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir := filepath.Join(scratch(t), "bases")
	p := require.Value(layout.Write(dir, empty.Index))(t)
	require.NoError(t, p.AppendIndex(index))
	return dir
}
