package images

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
)

// Binaries finds the programs of an architecture in a folder, as make build leaves them there:
// driver-entrypoint-linux-arm64, driver-probe-linux-arm64, driver-evict-linux-arm64. entrypoint, if not
// empty, is the file to take as the first. Each is checked, without running it, to be a program of this
// project, for that architecture and of that version. With partial, the optional programs that are missing or
// wrong are left out.
func Binaries(dir, entrypoint, version string, partial bool) func(arch string) ([]recipe.Binary, error) {
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
		for _, p := range recipe.OptionalPrograms() {
			bin, err := program(p.Name, filepath.Join(dir, p.Name+"-linux-"+arch), arch, version)
			switch {
			case err == nil:
				all = append(all, bin)
			case !partial:
				return nil, fmt.Errorf("%s for %s: %w (run make build, or give --allow-missing-programs: without it, %s)", p.Name, arch, err, p.Without)
			}
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
