package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/driver-container/driver-container/ci/testkit/makeself"
)

// archive is a .run file of a driver and the matrix that names the file.
type archive struct{ file, matrix string }

// archive makes the archive of a driver from Debian's packages, once per driver: it builds an image of the
// driver for the driver's home system, and the image's layers become members of the archive.
func (l *laboratory) archive(ctx context.Context, d driver) (a archive, err error) {
	if a, ok := l.archives[d.version]; ok {
		return a, nil
	}
	dir := filepath.Join(l.work, "archives")
	a.file = filepath.Join(dir, "NVIDIA-Linux-x86_64-"+d.version+".run")
	if _, err := os.Stat(a.file); errors.Is(err, fs.ErrNotExist) {
		l.say("making an archive of %s from the packages of %s", d.version, d.home)
		if err := errors.Join(os.MkdirAll(dir, 0o755), l.makeArchive(ctx, d, a.file)); err != nil {
			return a, fmt.Errorf("make an archive of %s: %w", d.version, err)
		}
	}
	if a.matrix, err = l.archiveMatrix(d, a.file); err != nil {
		return a, err
	}
	if l.archives == nil {
		l.archives = map[string]archive{}
	}
	l.archives[d.version] = a
	return a, nil
}

func (l *laboratory) makeArchive(ctx context.Context, d driver, file string) (err error) {
	dir, err := os.MkdirTemp(l.work, "tree-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	names, err := l.minimalMatrix(d)
	if err != nil {
		return err
	}
	base, err := l.base(ctx, d.home)
	if err != nil {
		return err
	}
	image, tree := filepath.Join(dir, "oci"), filepath.Join(dir, "tree")
	out, err := l.driverBuild(ctx, "--os", d.home, "--driver", d.version, "--matrix", names, "--base", base, "--allow-incompatible", "--no-fabric", "--no-patches", "--progress", "plain", "--output", "oci:"+image)
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(out.stderr))
	}
	_, digest, _ := strings.Cut(strings.TrimSpace(out.stdout), "@")
	if err := errors.Join(os.Mkdir(tree, 0o755), unpackDriver(ctx, image, digest, tree)); err != nil {
		return err
	}
	made, _, err := makeself.FromTree(os.DirFS(tree), d.version, "x86_64") // FromTree leaves out copyright files
	if err != nil {
		return err
	}
	made.Compression, made.Fast = "zstd", true
	if err := made.WriteFile(ctx, file+".new"); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// unpackDriver unpacks the layers with the driver of an image in a layout.
func unpackDriver(ctx context.Context, dir, digest, to string) error {
	hash, err := v1.NewHash(digest)
	if err != nil {
		return fmt.Errorf("driver-build printed no digest: %w", err)
	}
	p, err := layout.FromPath(dir)
	if err != nil {
		return err
	}
	image, err := p.Image(hash)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	found := 0
	for i, h := range config.History {
		if strings.HasSuffix(h.CreatedBy, ": user-mode driver") || strings.HasSuffix(h.CreatedBy, ": kernel sources") {
			found++
			blob := filepath.Join(dir, "blobs/sha256", manifest.Layers[i].Digest.Hex)
			if out, err := command(ctx, "tar", "-xzf", blob, "-C", to); err != nil {
				return fmt.Errorf("layer %s: %w: %s", h.CreatedBy, err, out.stderr)
			}
		}
	}
	if found != 2 {
		return fmt.Errorf("the image has %d of the 2 layers with the driver: %+v", found, config.History)
	}
	return nil
}

// sum returns the sha256 and the size of a file.
func sum(file string) (digest string, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}
