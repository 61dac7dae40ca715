package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/recipe"
)

// fresh is another machine: a user of the same world with an empty cache and folder.
func (u *user) fresh(t *testing.T) *user {
	t.Helper()
	other := *u.User
	other.Dir, other.Cache = t.TempDir(), t.TempDir()
	return &user{&other}
}

// downloads are the requests for packages and archives of drivers, and for blobs.
func (u *user) downloads() int { return u.Requests(".deb") + u.Requests(".run") }

// TestLayersOfOtherImages: the layers that images share are found by their keys, in a repository of images
// and in one that only is a cache. The rest is made, and the digest is that of a build without them.
func TestLayersOfOtherImages(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Run(t, "--os", "ubuntu16.04", "--driver", newDriver, "--push", "--repository", u.Host+"/team/driver").Want(t, 0)
	target := []string{"--os", "ubuntu18.04", "--driver", newDriver}
	plain := u.fresh(t).Run(t, append(target, "--output", "oci:"+u.Path("plain"))...).Want(t, 0)
	before := u.Requests(".run")
	r := u.fresh(t).Run(t, append(target, "--push", "--repository", u.Host+"/team/driver")...).Want(t, 0)
	assert.Equalf(t, plain.Digest(t), r.Digest(t), "the digest is that of a build without a cache")
	assert.Equalf(t, before, u.Requests(".run"), "the driver's layers are those of the other system\n%s", r.Stderr)

	// With an output on this machine the layers are fetched, and nothing is pushed but to the cache.
	kept := u.fresh(t)
	r = kept.Run(t, append(target, "--output", "oci:"+kept.Path("dist"), "--cache-from", u.Host+"/team/driver", "--cache-to", u.Host+"/team/cache")...)
	r.Want(t, 0)
	assert.Equal(t, plain.Digest(t), r.Digest(t))
	kept.Run(t, "verify", "oci:"+kept.Path("dist")).Want(t, 0)
	files := u.downloads()
	third := u.fresh(t)
	r = third.Run(t, append(target, "--output", "oci:"+third.Path("dist"), "--cache-from", u.Host+"/team/cache")...).Want(t, 0)
	assert.Equal(t, plain.Digest(t), r.Digest(t))
	assert.Equalf(t, files, u.downloads(), "%s", r.Stderr)
	third.Run(t, "verify", "oci:"+third.Path("dist")).Want(t, 0)
}

// TestSigningBuildTakesSignedLayers: a build that signs takes no layer from an image that its key did not
// sign, so that nobody else can have a layer signed.
func TestSigningBuildTakesSignedLayers(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	key, public := u.imageKey(t, "site")
	other, _ := u.imageKey(t, "other")
	repository := u.Host + "/team/driver"
	args := []string{"--os", "debian12", "--driver", newDriver, "--repository", repository}
	unsigned := u.Run(t, append(args, "--push")...).Want(t, 0)
	build := func(more ...string) (r result, madeHere bool) {
		before, m := u.downloads(), u.fresh(t)
		r = m.Run(t, slices.Concat(args, more, []string{"--output", "oci:" + m.Path("dist"), "--cache-from", repository})...).Want(t, 0)
		assert.Equalf(t, unsigned.Digest(t), r.Digest(t), "%s", r.Stderr)
		return r, u.downloads() > before
	}
	for _, signer := range []string{"", other} {
		if signer != "" { // another key is not trusted either
			u.Run(t, append(args, "--push", "--image-key", signer, "--cache-from", "none")...).Want(t, 0)
		}
		r, madeHere := build("--image-key", key)
		assert.Containsf(t, r.Stderr, "its layers are not used", "signer %q", signer)
		assert.Equalf(t, true, madeHere, "signer %q: the driver is unpacked here\n%s", signer, r.Stderr)
	}
	u.Run(t, append(args, "--push", "--image-key", key)...).Want(t, 0)
	for _, more := range [][]string{{"--image-key", key}, {"--cache-key", public}, {"--image-key", other, "--cache-key", public}} {
		r, madeHere := build(more...)
		assert.Equalf(t, true, !madeHere, "%s\n%s", more, r.Stderr)
	}
}

// TestUnsignedLayersTaintNoSignedBuild: what a build without keys makes of layers of a registry is not in the
// cache for a build on the same machine that signs.
func TestUnsignedLayersTaintNoSignedBuild(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	repository := u.Host + "/team/driver"
	u.Run(t, "--os", "ubuntu18.04", "--driver", newDriver, "--push", "--repository", repository).Want(t, 0)
	m := u.fresh(t)
	m.Run(t, "--os", "debian12", "--driver", newDriver, "--output", "oci:"+m.Path("a"), "--cache-from", repository).Want(t, 0)
	records := func(kind string) []string {
		return require.Value(filepath.Glob(filepath.Join(m.Cache, "keys", kind+"-*")))(t)
	}
	assert.Equalf(t, true, len(records("unverified")) > 0 && len(records("layer")) == 0, "%v", records("*"))
	key, _ := u.imageKey(t, "site")
	m.Run(t, "--os", "debian12", "--driver", newDriver, "--output", "oci:"+m.Path("b"), "--repository", repository, "--image-key", key).Want(t, 0)
	assert.Equalf(t, true, len(records("layer")) > 5, "every layer is made again: %v", records("*"))
}

// TestRegistryIsDown: a cache that does not answer costs one warning.
func TestRegistryIsDown(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Fault(refuse(503, "/v2/team/cache/"))
	r := u.Run(t, "--os", "debian12", "--driver", newDriver, "--output", "oci:"+u.Path("dist"), "--cache-from", u.Host+"/team/cache", "--cache-to", u.Host+"/team/cache")
	r.Want(t, 0, "the build goes on without", "later builds do not find the layers")
	assert.Equalf(t, 1, strings.Count(r.Stderr, "no layers are taken from"), "%s", r.Stderr)
	require.NoError(t, assert.Err(os.Stat(u.Path("dist/index.json"))))
}

// TestRegistryLies: whatever a registry serves, the image has the digest of a build without it, or the build
// says why not.
func TestRegistryLies(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	target := []string{"--os", "ubuntu18.04", "--driver", newDriver}
	want := u.Run(t, append(target, "--output", "oci:"+u.Path("plain"), "--cache-to", u.Host+"/team/cache")...).Want(t, 0)
	var m v1.Manifest
	u.get(t, "team/cache/manifests/535.261.03-ubuntu18.04", &m)
	blob := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v2/team/cache/blobs/") && !strings.HasSuffix(r.URL.Path, m.Config.Digest.String())
	}
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"gone": func(w http.ResponseWriter, r *http.Request) bool {
			if blob(r) {
				http.NotFound(w, r)
			}
			return blob(r)
		},
		"truncated": func(w http.ResponseWriter, r *http.Request) bool {
			if blob(r) {
				_, _ = w.Write([]byte("short"))
			}
			return blob(r)
		},
	} {
		u.Fault(fault)
		m := u.fresh(t)
		from := append(target, "--cache-from", u.Host+"/team/cache")
		r := m.Run(t, append(from, "--output", "oci:"+m.Path("dist"))...).Want(t, 0, "layer is made here, because the registry's copy cannot be used")
		assert.Equalf(t, want.Digest(t), r.Digest(t), "%s", name)
		// A push finds out when the blobs cannot be mounted.
		r = u.fresh(t).Run(t, append(from, "--push", "--repository", u.Host+"/"+name+"/driver")...).Want(t, 0)
		assert.Equalf(t, want.Digest(t), r.Digest(t), "%s", name)
		u.Fault(nil)
	}
	// Where the registry mounts nothing, layers are fetched from one repository and sent to the other.
	u.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("mount") != "" {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	before := u.downloads()
	r := u.fresh(t).Run(t, append(target, "--push", "--repository", u.Host+"/unmounted/driver", "--cache-from", u.Host+"/team/cache")...).Want(t, 0)
	assert.Equal(t, want.Digest(t), r.Digest(t))
	assert.Equalf(t, before, u.downloads(), "%s", r.Stderr)
}

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
		"no-layers":            func(m *v1.Manifest) { m.Layers = nil },
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
			r := u.fresh(t).Run(t, append(append(target, "--push", "--repository", u.Host+"/signed/"+name, "--image-key", key), from...)...).Want(t, 0)
			assert.Equalf(t, want.Digest(t), r.Digest(t), "%s", r.Stderr)
		})
	}
}
