package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/oci"
)

func TestBasePullsOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	img := imagetest.RandomImage(t, "amd64", 5000, "one", "two", "three")
	ref := f.host() + "/library/debian:12"
	mustPush(t, ref, img)
	f.forget()

	var mu sync.Mutex
	states := map[State]int{}
	c := client(t, func(o *Options) {
		o.Progress = func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			states[e.State]++
		}
	})
	pulled := require.Value(base(t, c, ref, "amd64"))(t)
	if pulled.Name != ref || pulled.Digest != imagetest.Digest(t, img) {
		t.Errorf("Base = %s %s; want %s %s", pulled.Name, pulled.Digest, ref, imagetest.Digest(t, img))
	}
	imagetest.SameLayers(t, pulled.Image, img)
	assert.Equalf(t, 4, states[Done], "blobs were reported as pulled")
	if n := f.count("GET", "/blobs/"); n != 4 {
		t.Errorf("the first pull got %d blobs; want 4", n)
	}
	f.forget()
	require.Value(base(t, c, ref, "amd64"))(t)
	assert.Samef(t, []string{"HEAD /v2/library/debian/manifests/12"}, f.log, "requests of the second pull (-want +got)")
	assert.Equalf(t, 4, states[Exists], "blobs were reported as there")
	f.forget()
	pinned, err := base(t, c, ref+"@"+pulled.Digest.String(), "amd64")
	if err != nil || pinned.Name != ref || len(f.log) != 0 {
		t.Errorf("pull by a known digest: %+v, %v, requests %v; want none", pinned, err, f.log)
	}
}

func TestBaseOffline(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	img := imagetest.RandomImage(t, "amd64", 100, "one")
	ref := f.host() + "/x:1"
	mustPush(t, ref, imagetest.Index(t, img, imagetest.RandomImage(t, "arm64", 100, "one")))
	c := client(t)
	require.Value(base(t, c, ref, "amd64"))(t)
	want := &oci.PlatformError{Ref: ref, Want: "linux/riscv64", Have: []string{"linux/amd64", "linux/arm64"}}
	assert.Same(t, want, require.ErrorAs[*oci.PlatformError](t, assert.Err(base(t, c, ref, "riscv64"))))
	f.forget()
	offline := client(t, func(o *Options) { o.Offline, o.Store = true, c.opts.Store })
	for _, r := range []string{ref, f.host() + "/x@" + imagetest.Digest(t, img).String()} {
		got := require.Value(base(t, offline, r, "amd64"))(t)
		imagetest.SameLayers(t, got.Image, img)
	}
	for _, r := range []string{f.host() + "/x:2", f.host() + "/x@sha256:" + strings.Repeat("1", 64)} {
		if _, err := base(t, offline, r, "amd64"); !errors.Is(err, fetch.ErrOffline) || errors.Is(err, fetch.ErrUnreachable) {
			t.Errorf("Base(%s) offline = %v; want ErrOffline", r, err)
		}
	}
	// A blob is missing: the pull fails although the rest is there.
	m := require.Value(img.Manifest())(t)
	require.NoError(t, os.Remove(c.opts.Store.Path(m.Layers[0].Digest.Hex)))
	assert.ErrorIsf(t, assert.Err(base(t, offline, ref, "amd64")), fetch.ErrOffline, "Base offline without a layer")
	assert.ErrorIsf(t, assert.Err(offline.Attachments(t.Context(), ref)), fetch.ErrOffline, "attachments")
	assert.Equalf(t, 0, len(f.log), "requests while offline: %v", f.log)
}

func TestMirrors(t *testing.T) {
	t.Parallel()
	img := imagetest.RandomImage(t, "amd64", 1000, "one", "two")
	lies := func(f *fake) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			fmt.Fprint(w, "something else")
			return true
		}
	}
	tests := []struct {
		name   string
		filled bool
		fault  func(f *fake) func(http.ResponseWriter, *http.Request) bool
		blobs  int // number that came from the registry itself
	}{
		{"has it", true, nil, 0},
		{"has nothing", false, nil, 3},
		{"broken", true, func(*fake) func(http.ResponseWriter, *http.Request) bool {
			return func(w http.ResponseWriter, _ *http.Request) bool { cut(w); return true }
		}, 3},
		{"lies", true, lies, 3},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			own, mirror := newFake(t), newFake(t)
			mustPush(t, own.host()+"/x:1", img)
			if tc.filled {
				mustPush(t, mirror.host()+"/cache/x:1", img)
			}
			if tc.fault != nil {
				mirror.failing(tc.fault(mirror))
			}
			own.forget()
			c := client(t, func(o *Options) {
				o.Mirrors = map[string][]string{own.host(): {"http://" + mirror.host() + "/cache"}}
			})
			b := require.Value(base(t, c, own.host()+"/x:1", "amd64"))(t)
			if b.Name != own.host()+"/x:1" {
				t.Errorf("name %s shows the mirror", b.Name)
			}
			imagetest.SameLayers(t, b.Image, img)
			assert.Equalf(t, tc.blobs, own.count("GET", "/blobs/"), "blobs came from the registry itself")
		})
	}
	t.Run("all fail", func(t *testing.T) {
		t.Parallel()
		own, mirror := newFake(t), newFake(t)
		c := client(t, func(o *Options) { o.Mirrors = map[string][]string{own.host(): {mirror.host()}} })
		_, err := base(t, c, own.host()+"/x:1", "amd64")
		if require.ErrorAs[*Error](t, err).Host != own.host() || !strings.Contains(err.Error(), mirror.host()) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v; want one of the registry that names the mirror too", err)
		}
	})
}

func TestManifestKinds(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	put(t, f, "x", "old", types.DockerManifestSchema1, []byte(`{"schemaVersion":1,"name":"x"}`))
	put(t, f, "x", "odd", types.OCIManifestSchema1, []byte(`{"schemaVersion":2}`))
	put(t, f, "x", "list", types.OCIManifestSchema1, []byte("[1]"))
	for name, want := range map[string]string{"old": "2015", "odd": "neither an image nor an index", "list": "malformed"} {
		assert.ErrorContainsf(t, assert.Err(base(t, client(t), f.host()+"/x:"+name, "amd64")), want, "%s", name)
	}
}

func describeImage(t *testing.T, c *Client, ref, arch string) (*Opened, error) {
	t.Helper()
	return c.Open(t.Context(), ref, OpenOptions{Arch: arch, Origin: true})
}

// TestOpenManifest: an image is found without its layers.
func TestOpenManifest(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := client(t)
	img, ok := mutate.Annotations(imagetest.RandomImage(t, "amd64", 100, "file"), map[string]string{"content": "x"}).(v1.Image)
	if !ok {
		t.Fatal("no image")
	}
	ref := f.host() + "/team/driver:one"
	digest, _, err := c.Push(t.Context(), ref, img)
	require.NoError(t, err)
	d, err := describeImage(t, client(t), ref, "amd64")
	if err != nil || d.Manifest.Annotations["content"] != "x" || d.Digest != digest || d.Top != digest || d.Manifest.Layers[0].Size < 50 {
		t.Errorf("%+v, %v", d, err)
	}
	var platform *oci.PlatformError
	if _, err := describeImage(t, c, ref, "arm64"); !errors.As(err, &platform) {
		t.Errorf("another architecture: %v", err)
	}
	for _, missing := range []string{f.host() + "/team/driver:two", f.host() + "/team/other:one"} {
		var remote *Error
		if _, err := describeImage(t, c, missing, "amd64"); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &remote) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	// A mirror may be outdated: an Origin is not asked of it.
	mirrored := client(t, func(o *Options) { o.Mirrors = map[string][]string{f.host(): {"http://localhost:1"}} })
	if _, err := describeImage(t, mirrored, ref, "amd64"); err != nil {
		t.Error(err)
	}
	off := client(t, func(o *Options) { o.Offline = true })
	assert.ErrorIsf(t, assert.Err(describeImage(t, off, ref, "amd64")), fetch.ErrOffline, "offline")
	assert.Errorf(t, assert.Err(describeImage(t, c, "UPPER/x", "amd64")), "not a reference, but taken")
}

// TestLargeConfig: a config may be larger than a manifest.
func TestLargeConfig(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	text := strings.Repeat("x", oci.MaxManifest)
	mustPush(t, f.host()+"/x:one", imagetest.Image(t, "amd64", v1.Config{Labels: map[string]string{"x": text}}))
	opened := require.Value(client(t).Open(t.Context(), f.host()+"/x:one", OpenOptions{Arch: "amd64", Part: Config}))(t)
	assert.Equal(t, text, require.Value(opened.Image.ConfigFile())(t).Config.Labels["x"])
}

// TestLocal: images on this machine are opened, and pushed with the same digest, an index as a whole.
func TestLocal(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t), t.TempDir()
	layout, ociFile, docker := filepath.Join(dir, "layout"), filepath.Join(dir, "oci.tar"), filepath.Join(dir, "docker.tar")
	amd, arm, other := imagetest.RandomImage(t, "amd64", 1000, "a", "b"), imagetest.RandomImage(t, "arm64", 1000, "a"), imagetest.RandomImage(t, "amd64", 10, "c")
	index := imagetest.Index(t, amd, arm)
	for _, err := range []error{
		oci.WriteLayout(t.Context(), layout, "both", index),
		oci.WriteLayout(t.Context(), layout, "docker.io/library/other:1", other),
		oci.WriteOCIArchive(t.Context(), ociFile, "driver", "both", index),
		oci.WriteDockerArchive(t.Context(), docker, "debian:12", amd),
	} {
		require.NoError(t, err)
	}
	c := client(t, func(o *Options) { o.Offline = true })
	for _, tc := range []struct {
		ref  string
		want oci.Artifact
	}{
		{"oci:" + layout + ":both", index}, {"oci:" + layout + ":docker.io/library/other:1", other},
		{"oci-archive:" + ociFile, index}, {"oci-archive:" + ociFile + ":both", index},
		{"docker-archive:" + docker, nil}, {"docker-archive:" + docker + ":docker.io/library/debian:12", nil},
	} {
		b := require.Value(base(t, c, tc.ref, "amd64"))(t)
		if b.Digest != imagetest.Digest(t, b.Image) || !strings.HasPrefix(b.Name, dir) {
			t.Errorf("Base(%s) = %s %s; digest of the image %s", tc.ref, b.Name, b.Digest, imagetest.Digest(t, b.Image))
		}
		if tc.want != other {
			imagetest.SameLayers(t, b.Image, amd)
		}
		if tc.want != nil {
			got, _, err := c.Push(t.Context(), f.host()+"/x:1", require.Value(artifact(t, c, tc.ref))(t))
			require.NoError(t, err)
			assert.Equalf(t, imagetest.Digest(t, tc.want), got, "%s", tc.ref)
		}
	}
	for ref, want := range map[string]string{
		"oci:" + layout: "several images", "oci:" + layout + ":none": "no image named none", "oci:" + dir: "not an OCI layout",
		"oci-archive:" + docker: "not an OCI archive", "docker-archive:" + ociFile: "not an archive of docker save",
		"docker-archive:" + docker + ":x": "no image x", "oci-archive:" + dir + "/none": "there is no",
	} {
		assert.ErrorContainsf(t, assert.Err(base(t, c, ref, "amd64")), want, "Base(%s)", ref)
	}
	var missing *oci.PlatformError
	if _, err := base(t, c, "docker-archive:"+docker, "arm64"); !errors.As(err, &missing) {
		t.Errorf("docker-archive of another architecture: %v", err)
	}
}
