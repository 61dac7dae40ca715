// Package programtest makes stand-ins for the programs of ours that go into images.
package programtest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/images/recipe"
)

// Make gives the stand-ins of one version. Their files are written when they are first asked for:
// most calls of commands never do.
func Make(t *testing.T, version string) func(arch string) ([]recipe.Binary, error) {
	t.Helper()
	write := sync.OnceValues(func() (map[string][]recipe.Binary, error) {
		dir := t.TempDir()
		all := map[string][]recipe.Binary{}
		for _, arch := range []string{"amd64", "arm64"} {
			for _, name := range []string{recipe.EntrypointName, recipe.ProbeName} {
				data := imagetest.ELF{Arch: arch, Static: true, Note: name + version}.Bytes()
				path := filepath.Join(dir, name+arch)
				err := os.WriteFile(path, data, 0o700)
				if err != nil {
					return nil, err
				}
				digest := fmt.Sprintf("%x", sha256.Sum256(data))
				program := recipe.Binary{Name: name, SHA256: digest, Path: path}
				all[arch] = append(all[arch], program)
			}
		}
		return all, nil
	})
	return func(arch string) ([]recipe.Binary, error) {
		all, err := write()
		return all[arch], err
	}
}
