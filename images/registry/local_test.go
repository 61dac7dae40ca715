package registry

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/driver-container/driver-container/distros/fetch"
)

func TestBaseLocal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layout, oci, docker := filepath.Join(dir, "layout"), filepath.Join(dir, "oci.tar"), filepath.Join(dir, "docker.tar")
	amd, arm, other := makeImage(t, "amd64", 1000, "a", "b"), makeImage(t, "arm64", 1000, "a"), makeImage(t, "amd64", 10, "c")
	index := makeIndex(t, amd, arm)
	for _, err := range []error{
		WriteLayout(t.Context(), layout, "both", index),
		WriteLayout(t.Context(), layout, "docker.io/library/other:1", other),
		WriteOCIArchive(t.Context(), oci, "both", index),
		WriteDockerArchive(t.Context(), docker, "debian:12", amd),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := client(t, func(o *Options) { o.Offline = true })
	tests := []struct {
		ref, arch string
		want      v1.Image
	}{
		{"oci:" + layout + ":both", "amd64", amd},
		{"oci:" + layout + ":both", "arm64", arm},
		{"oci:" + layout + ":docker.io/library/other:1", "amd64", other},
		{"oci-archive:" + oci, "arm64", arm},
		{"oci-archive:" + oci + ":both", "amd64", amd},
		{"docker-archive:" + docker, "amd64", amd},
		{"docker-archive:" + docker + ":docker.io/library/debian:12", "amd64", amd},
	}
	for _, tc := range tests {
		b, err := c.Base(t.Context(), tc.ref, tc.arch)
		if err != nil {
			t.Errorf("Base(%s): %v", tc.ref, err)
			continue
		}
		if !IsLocal(tc.ref) || b.Digest != digestOf(t, b.Image) || !strings.HasPrefix(b.Name, dir) {
			t.Errorf("Base(%s) = %s %s; digest of the image %s", tc.ref, b.Name, b.Digest, digestOf(t, b.Image))
		}
		if h, err := c.Resolve(t.Context(), tc.ref, tc.arch); err != nil || h != b.Digest {
			t.Errorf("Resolve(%s) = %s, %v; want %s", tc.ref, h, err, b.Digest)
		}
		sameLayers(t, b.Image, tc.want)
		if !strings.HasPrefix(tc.ref, "docker") && b.Digest != digestOf(t, tc.want) {
			t.Errorf("Base(%s) = %s; want %s", tc.ref, b.Digest, digestOf(t, tc.want))
		}
	}
	for ref, want := range map[string]string{
		"oci:" + layout:                   "several images",
		"oci:" + layout + ":none":         "no image named none",
		"oci:" + dir:                      "not an OCI layout",
		"oci-archive:" + docker:           "not an OCI archive",
		"docker-archive:" + oci:           "not an archive of docker save",
		"docker-archive:" + docker + ":x": "no image x",
		"oci-archive:" + dir + "/none":    "no such file",
	} {
		if _, err := c.Base(t.Context(), ref, "amd64"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Base(%s) = %v; want %q", ref, err, want)
		}
	}
	var missing *PlatformError
	if _, err := c.Base(t.Context(), "docker-archive:"+docker, "arm64"); !errors.As(err, &missing) {
		t.Errorf("docker-archive of another architecture: %v", err)
	}
	// The archive's layers are in the store now.
	for _, f := range []string{oci, docker} {
		b, err := c.Base(t.Context(), strings.TrimSuffix(filepath.Base(f), ".tar")+"-archive:"+f, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
		sameLayers(t, b.Image, amd)
	}
}

// The content of a layout is read in place and verified.
func TestLayoutDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	img := makeImage(t, "amd64", 1000, "one")
	if err := WriteLayout(t.Context(), dir, "x", img); err != nil {
		t.Fatal(err)
	}
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	flip := func(h v1.Hash) {
		path := filepath.Join(dir, "blobs", "sha256", h.Hex)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flip(m.Layers[0].Digest)
	b, err := client(t).Base(t.Context(), "oci:"+dir, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := b.Image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = copyCtx(t.Context(), &bytes.Buffer{}, r)
	errorAs[*fetch.MismatchError](t, err)
	flip(m.Config.Digest)
	_, err = client(t).Base(t.Context(), "oci:"+dir, "amd64")
	errorAs[*fetch.MismatchError](t, err)
}

type tarEntry struct {
	name, link string
	content    []byte
}

func writeTestTar(t *testing.T, list ...tarEntry) string {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range list {
		h := &tar.Header{Name: e.name, Size: int64(len(e.content)), Mode: 0o644, Typeflag: tar.TypeReg}
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.tar")
	if err := os.WriteFile(file, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The format of old `docker save`: uncompressed layers, a repeated layer as a link.
func TestDockerArchiveOld(t *testing.T) {
	t.Parallel()
	one := layerTar(t, "one", 5000)
	config := fmt.Appendf(nil, `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[%q,%q]}}`, hashOf(one), hashOf(one))
	manifest, err := json.Marshal([]dockerEntry{{Config: "c.json", RepoTags: []string{"x:1"}, Layers: []string{"a/layer.tar", "b/layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	sound := []tarEntry{
		{name: "b/layer.tar", link: "../a/layer.tar"},
		{name: "a/layer.tar", content: one},
		{name: "./c.json", content: config},
		{name: "manifest.json", content: manifest},
	}
	c := client(t)
	b, err := c.Base(t.Context(), "docker-archive:"+writeTestTar(t, sound...), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.Image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if l := m.Layers[1]; l.Digest != hashOf(one) || l.MediaType != types.OCIUncompressedLayer || l.Size != int64(len(one)) {
		t.Errorf("layer %+v; want the uncompressed tar as it is", l)
	}
	layers, err := b.Image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(unpackedBytes(t, layers[0]), one) {
		t.Error("the layer's content changed")
	}

	replaced := func(i int, e tarEntry) []tarEntry {
		out := append([]tarEntry{}, sound...)
		out[i] = e
		return out
	}
	for name, list := range map[string][]tarEntry{
		"wrong layer":        replaced(1, tarEntry{name: "a/layer.tar", content: layerTar(t, "two", 5000)}),
		"wrong packed layer": replaced(1, tarEntry{name: "a/layer.tar", content: gzipped(t, layerTar(t, "two", 5000))}),
	} {
		_, err := client(t).Base(t.Context(), "docker-archive:"+writeTestTar(t, list...), "amd64")
		t.Log(name, err)
		errorAs[*fetch.MismatchError](t, err)
	}
	packed, err := client(t).Base(t.Context(), "docker-archive:"+writeTestTar(t, replaced(1, tarEntry{name: "a/layer.tar", content: gzipped(t, one)})...), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	sameLayers(t, packed.Image, b.Image)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if packed, err = client(t).Base(t.Context(), "docker-archive:"+writeTestTar(t, replaced(1, tarEntry{name: "a/layer.tar", content: z.EncodeAll(one, nil)})...), "amd64"); err != nil {
		t.Fatal(err)
	}
	sameLayers(t, packed.Image, b.Image)
	for name, list := range map[string][]tarEntry{
		"link to itself": replaced(0, tarEntry{name: "b/layer.tar", link: "layer.tar"}),
		"no layer":       sound[2:],
		"no manifest":    sound[:3],
	} {
		if _, err := client(t).Base(t.Context(), "docker-archive:"+writeTestTar(t, list...), "amd64"); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	_, err = openArchive(writeTestTar(t))
	if err != nil {
		t.Errorf("an empty tar: %v", err)
	}
	gz := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(gz, gzipped(t, one), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openArchive(gz); err == nil || !strings.Contains(err.Error(), "gunzip") {
		t.Errorf("a compressed archive: %v; want a hint", err)
	}
	if _, err := openArchive(os.DevNull); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file: %v", err)
	}
}
