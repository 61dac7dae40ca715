package images

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
)

// Binaries finds the programs of an architecture in a folder, as make build leaves them there:
// driver-entrypoint-linux-arm64 or, for driver-build's own architecture, also plain driver-entrypoint. The
// entrypoint must be there; driver-probe may be missing (it needs a C compiler for the architecture): the
// entrypoint then asks nvidia-smi; so may driver-evict: the image then cannot evict pods. entrypoint, if not
// empty, is the file to take instead. Each is checked, without running it, to be a program of this project,
// for that architecture and of that version.
func Binaries(dir, entrypoint, version string) func(arch string) ([]recipe.Binary, error) {
	return func(arch string) ([]recipe.Binary, error) {
		path := entrypoint
		if path == "" {
			path = filepath.Join(dir, recipe.EntrypointName+"-linux-"+arch)
		}
		main, err := program(recipe.EntrypointName, path, arch, version)
		if err != nil {
			return nil, fmt.Errorf("the entrypoint for %s: %w (run make build, or give --entrypoint FILE)", arch, err)
		}
		all := []recipe.Binary{main}
		for _, name := range []string{recipe.ProbeName, recipe.EvictName} {
			bin, err := program(name, filepath.Join(dir, name+"-linux-"+arch), arch, version)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s for %s: %w (run make build)", name, arch, err)
			}
			all = append(all, bin)
		}
		return all, nil
	}
}

func program(name, path, arch, version string) (recipe.Binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return recipe.Binary{}, err
	}
	var goarch string
	for _, s := range info.Settings {
		if s.Key == "GOARCH" {
			goarch = s.Value
		}
	}
	switch {
	case !strings.HasSuffix(info.Path, "/cmd/"+name):
		return recipe.Binary{}, fmt.Errorf("%s is not %s but %s", path, name, info.Path)
	case goarch != arch:
		return recipe.Binary{}, fmt.Errorf("%s is a program for %s", path, goarch)
	case info.Main.Version != version:
		return recipe.Binary{}, fmt.Errorf("%s is of version %s, driver-build of %s", path, info.Main.Version, version)
	}
	sum, err := fileDigest(path)
	return recipe.Binary{Name: name, SHA256: sum, Path: path}, err
}

func fileDigest(path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
