package main

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// TestManifestsLie: whatever the manifest of an image in the cache says of its layers, a build that writes to
// this machine has the image of a build without cache. So has one that pushes and verifies signatures.
func TestManifestsLie(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	key, _ := u.imageKey(t, "site")
	target, tag := []string{"--os", "ubuntu18.04", "--driver", newDriver}, "535.261.03-ubuntu18.04"
	want := u.Run(t, append(target, "--output", "oci:"+u.Path("plain"), "--cache-to", u.Host+"/team/cache")...).Want(t, 0)
	u.Run(t, "--os", "ubuntu16.04", "--driver", oldDriver, "--output", "oci:"+u.Path("other"), "--cache-to", u.Host+"/team/cache").Want(t, 0)
	var good, other v1.Manifest
	u.get(t, "team/cache/manifests/"+tag, &good)
	u.get(t, "team/cache/manifests/418.87.01-ubuntu16.04", &other)
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--arch", "arm64", "--output", "oci:"+u.Path("arm64"), "--cache-to", u.Host+"/team/arm64").Want(t, 0)
	var arm64 v1.Manifest
	u.get(t, "team/arm64/manifests/535.261.03-debian12", &arm64)
	keyed := func(m *v1.Manifest, change func(d *v1.Descriptor)) {
		for i := range m.Layers {
			if m.Layers[i].Annotations[recipe.LabelKey] != "" {
				change(&m.Layers[i])
			}
		}
	}
	nowhere := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	for name, lie := range map[string]func(m *v1.Manifest){
		"wrong-digest": func(m *v1.Manifest) { keyed(m, func(d *v1.Descriptor) { d.Digest = nowhere }) },
		"larger":       func(m *v1.Manifest) { keyed(m, func(d *v1.Descriptor) { d.Size++ }) },
		"huge":         func(m *v1.Manifest) { keyed(m, func(d *v1.Descriptor) { d.Size = 1 << 60 }) },
		"zero":         func(m *v1.Manifest) { keyed(m, func(d *v1.Descriptor) { d.Size = 0 }) },
		"wrong-key":    func(m *v1.Manifest) { keyed(m, func(d *v1.Descriptor) { d.Annotations[recipe.LabelKey] = "x" }) },
		"rotated-keys": func(m *v1.Manifest) {
			last := m.Layers[len(m.Layers)-1].Annotations[recipe.LabelKey]
			keyed(m, func(d *v1.Descriptor) { last, d.Annotations[recipe.LabelKey] = d.Annotations[recipe.LabelKey], last })
		},
		"another-type": func(m *v1.Manifest) {
			keyed(m, func(d *v1.Descriptor) { d.MediaType = "application/vnd.oci.image.layer.v1.tar+zstd" })
		},
		"one-layer-for-all": func(m *v1.Manifest) {
			keyed(m, func(d *v1.Descriptor) { d.Digest, d.Size = m.Layers[0].Digest, m.Layers[0].Size })
		},
		"another-architecture": func(m *v1.Manifest) { *m = arm64 },
		"another-config":       func(m *v1.Manifest) { m.Config = other.Config },
		"no-config":            func(m *v1.Manifest) { m.Config.Digest = nowhere },
		"wrong-list": func(m *v1.Manifest) {
			keyed(m, func(d *v1.Descriptor) { d.Annotations[recipe.LabelFiles] = nowhere.String() })
		},
		"wrong-outline": func(m *v1.Manifest) {
			keyed(m, func(d *v1.Descriptor) { d.Annotations[recipe.LabelOutline] = nowhere.String() + " 100" })
		},
		"garbage-outline": func(m *v1.Manifest) { keyed(m, func(d *v1.Descriptor) { d.Annotations[recipe.LabelOutline] = "\x00" }) },
		"no-layers":       func(m *v1.Manifest) { m.Layers = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, repository := u.fresh(t), "lies/"+name
			var m v1.Manifest
			require.NoError(t, json.Unmarshal(require.Value(json.Marshal(good))(t), &m))
			lie(&m)
			raw := require.Value(json.Marshal(m))(t)
			u.put(t, repository+"/manifests/"+tag, string(m.MediaType), raw)
			for _, l := range append(good.Layers, m.Layers...) {
				if key := l.Annotations[recipe.LabelKey]; len(key) == 64 {
					u.put(t, repository+"/manifests/layer-"+key, string(m.MediaType), raw)
				}
			}
			from := []string{"--cache-from", u.Host + "/" + repository}
			for range 2 { // the second time with what the first one left in the cache
				r := u.Run(t, append(append(target, "--output", "oci:"+u.Path("dist")), from...)...).Want(t, 0)
				assert.Equalf(t, want.Digest(t), r.Digest(t), "%s", r.Stderr)
				u.Run(t, "verify", "oci:"+u.Path("dist")).Want(t, 0)
			}
			r := u.fresh(t).Run(t, append(append(target, "--push", "--repository", u.Host+"/signed/"+name, "--image-key", key), from...)...)
			r.Want(t, 0)
			assert.Equalf(t, want.Digest(t), r.Digest(t), "%s", r.Stderr)
		})
	}
}
