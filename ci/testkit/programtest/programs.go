// Package programtest makes stand-ins for the programs of ours that go into images.
package programtest

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/recipe"
)

// Make gives the stand-ins of one version.
func Make(t *testing.T, version string) func(arch string) ([]recipe.Binary, error) {
	t.Helper()
	dir := t.TempDir()
	all := map[string][]recipe.Binary{}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, name := range []string{recipe.EntrypointName, recipe.ProbeName} {
			data := imagetest.ELF{Arch: arch, Static: true, Note: name + version}.Bytes()
			path := testfile.WriteMode(t, filepath.Join(dir, name+arch), string(data), 0o700)
			digest := fmt.Sprintf("%x", sha256.Sum256(data))
			all[arch] = append(all[arch], recipe.Binary{Name: name, SHA256: digest, Path: path})
		}
	}
	return func(arch string) ([]recipe.Binary, error) { return all[arch], nil }
}
