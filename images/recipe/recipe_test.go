package recipe

import (
	"errors"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
)

func TestPreferred(t *testing.T) {
	t.Parallel()
	both := []string{"open", "proprietary"}
	for driver, want := range map[string]string{"535.261.03": "proprietary open", "560.28.03": "open proprietary", "x": "proprietary open"} {
		assert.Equalf(t, want, strings.Join(PreferredFlavours(both, driver), " "), "%s", driver)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"gzip", "zstd", "GZIP"} {
		if _, err := ParseCompression(s); err != nil {
			t.Error(err)
		}
	}
	_, err := ParseCompression("lz4")
	assert.ErrorContains(t, err, "lz4", "gzip or zstd")
	_, err = ParseProfile("tiny")
	assert.ErrorContains(t, err, "tiny", "full, compute, cuda, cuda-tu10x, cuda-ga10x or modules")
	secret := Recipe{Source: Source{Runfile: &fetch.File{URL: "https://user:secret@example.com/x.run"}}}
	assert.Equal(t, "https://example.com/x.run", secret.Public().Source.Runfile.URL)
	secret = Recipe{Source: Source{Redist: &fetch.File{URL: "https://user:secret@example.com/x"}},
		Fabric: []Component{{File: fetch.File{URL: "https://user:secret@example.com/fm"}}}}
	for _, f := range secret.Public().Files() {
		if strings.Contains(f.URL, "secret") {
			t.Error(f.URL)
		}
	}
	assert.Equalf(t, 2, len(secret.Files()), "downloads")
	assert.Containsf(t, secret.Fabric[0].File.URL, "secret", "the recipe itself keeps its credentials")
}

func TestNewKernel(t *testing.T) {
	t.Parallel()
	for system, want := range map[string]string{"flatcar": "headers of flatcar come with the host",
		"debian12": "is no release of a kernel of debian12"} {
		target := matrix.Target{System: matrix.System{ID: system}, Driver: matrix.Driver{Version: "535.261.03", Branch: "R535"}, Arch: "amd64",
			Flavours: []string{"open"}}
		distro, err := distros.Lookup(system)
		require.NoError(t, err)
		target.Distro = distro
		_, err = New(target, Options{Kernels: []string{"not a kernel"}})
		if !errors.Is(err, ErrKernel) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", system, err)
		}
	}
}

// TestDefaultCompression: zstd, unless the system's runtimes or KMM do not read it; what is asked for is done.
func TestDefaultCompression(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		system string
		o      Options
		want   Compression
	}{
		{"debian12", Options{}, Zstd}, {"debian12", Options{KMM: true}, Gzip}, {"debian12", Options{Compression: Gzip}, Gzip},
		{"ubuntu16.04", Options{}, Gzip}, {"ubuntu16.04", Options{KMM: true, Compression: Zstd}, Zstd},
	} {
		assert.Equalf(t, c.want, c.o.compression(require.Value(distros.Lookup(c.system))(t)), "%s %+v", c.system, c.o)
	}
}
