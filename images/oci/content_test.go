package oci

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:` + strings.Repeat("a", 64) + `","platform":{"os":"linux","architecture":"amd64"}}]}`))
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:` + strings.Repeat("a", 64) + `"},"layers":[]}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = ChooseManifest("x", "amd64", b, func(v1.Descriptor) ([]byte, error) { return b, nil })
		_, _ = ParseManifest(b)
	})
}
