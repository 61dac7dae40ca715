package oci

import (
	"bytes"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/ocitest"
)

func FuzzArchive(f *testing.F) {
	f.Add([]byte("not a tar"))
	f.Add(ocitest.LayerTar(f, "x", 10))
	f.Add(bytes.Repeat([]byte{0}, 1024))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := indexArchive("x", bytes.NewReader(b))
		if err != nil {
			return
		}
		for n, m := range a.members {
			if m.offset < 0 || m.size < 0 {
				t.Errorf("%s at %d, %d bytes", n, m.offset, m.size)
			}
			_, _ = a.find(n)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:` + strings.Repeat("a", 64) + `","platform":{"os":"linux","architecture":"amd64"}}]}`))
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:` + strings.Repeat("a", 64) + `"},"layers":[]}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = ChooseManifest("x", "amd64", Manifest{Raw: b}, func(v1.Hash) (Manifest, error) { return Manifest{Raw: b}, nil })
		_, _ = ParseManifest(b)
	})
}
