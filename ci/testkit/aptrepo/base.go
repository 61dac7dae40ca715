package aptrepo

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/driver-container/driver-container/ci/testkit/rpmrepo"
)

const osRelease = `PRETTY_NAME="Ubuntu 24.04.1 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.1 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=noble
LOGO=ubuntu-logo
`

const sources = `Types: deb
URIs: http://` + archiveHost + `/ubuntu/
Suites: noble noble-updates noble-backports
Components: main universe restricted multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg

Types: deb
URIs: http://` + securityHost + `/ubuntu/
Suites: noble-security
Components: main universe restricted multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
`

// ubuntu returns the files that turn Debian's base into Ubuntu's.
func ubuntu(key string) map[string]string {
	return map[string]string{
		"usr/lib/os-release":                            osRelease,
		"etc/apt/sources.list.d/.wh..wh..opq":           "",
		"etc/apt/sources.list.d/ubuntu.sources":         sources,
		"etc/apt/trusted.gpg.d/.wh..wh..opq":            "",
		"usr/share/keyrings/ubuntu-archive-keyring.gpg": key,
	}
}

// OpenBase opens the one image of an OCI layout.
func OpenBase(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images, want one", dir, len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// statusOf reads the list of installed packages from an image.
func statusOf(image v1.Image) ([]byte, error) {
	flat := mutate.Extract(image)
	defer flat.Close()
	for r := tar.NewReader(flat); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the Debian base has no var/lib/dpkg/status")
		}
		if err != nil {
			return nil, err
		}
		if path.Clean(h.Name) == "var/lib/dpkg/status" {
			return io.ReadAll(r)
		}
	}
}

// WriteBase adds a layer with files, path -> text, to an image, and writes the result into a new OCI layout.
func WriteBase(image v1.Image, files map[string]string, dir, tag string) error {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return err
	}
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return err
	}
	return rpmrepo.WriteLayout(image, dir, tag)
}
