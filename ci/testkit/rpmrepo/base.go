package rpmrepo

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// install makes the root of a base: rpm unpacks its packages and keeps its database, in the only format that
// Debian's rpm writes.
func install(ctx context.Context, sys system, catalogue []software, key []byte, packages, root string) error {
	var files []string
	names := []string{"filesystem", "setup", sys.release}
	for _, s := range catalogue {
		if s.base {
			names = append(names, s.nameIn(sys))
		}
	}
	for _, name := range names {
		found, err := filepath.Glob(filepath.Join(packages, "part-*", name+"-[0-9]*.rpm"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("the base needs one package %s, there are %v", name, found)
		}
		files = append(files, found[0])
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	public := filepath.Join(filepath.Dir(root), "key.asc")
	if err := os.WriteFile(public, key, 0o644); err != nil {
		return err
	}
	rpm := []string{"--root", root, "--dbpath", sys.dbPath}
	if _, err := Run(ctx, "", "rpm", append(rpm, "--import", public)...); err != nil {
		return fmt.Errorf("import the key into the base: %w", err)
	}
	if _, err := Run(ctx, "", "rpm", append(append(rpm, "--install", "--define", "_pkgverify_level all"), files...)...); err != nil {
		return fmt.Errorf("install the base of %s: %w", sys.id, err)
	}
	if _, err := Run(ctx, "", "ldconfig", "-r", root); err != nil { // the script of its package would run it
		return err
	}
	if err := os.RemoveAll(filepath.Join(root, "root/.rpmdb")); err != nil { // Debian's rpm keeps a lock in it
		return err
	}
	if sys.dbPath != "/var/lib/rpm" {
		return os.Symlink(strings.Repeat("../", 2)+strings.TrimPrefix(sys.dbPath, "/"), filepath.Join(root, "var/lib/rpm"))
	}
	return nil
}

// makeBase installs the base into dir/root and puts it, with the system's own format of database, into the
// OCI layout dir/base.
func makeBase(ctx context.Context, sys system, catalogue []software, key []byte, packages, dir string) (err error) {
	root := filepath.Join(dir, "root")
	if err := install(ctx, sys, catalogue, key, packages, root); err != nil {
		return err
	}
	from := root
	if sys.database != sqlite {
		from = filepath.Join(dir, "own")
		if _, err := Run(ctx, "", "cp", "-a", root, from); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(from)) }()
		if err := convert(ctx, sys, from); err != nil {
			return err
		}
	}
	archive := filepath.Join(dir, "root.tar")
	defer func() { err = errors.Join(err, os.Remove(archive)) }()
	if _, err := Run(ctx, "", "tar", "--sort=name", "--numeric-owner", "--xattrs", "-C", from, "-cf", archive, "."); err != nil {
		return err
	}
	return writeImage(archive, filepath.Join(dir, "base"), sys.id)
}

// writeImage writes an image of one layer.
func writeImage(archive, dir, tag string) error {
	layer, err := tarball.LayerFromFile(archive, tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return err
	}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), &v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: v1.Config{
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Cmd: []string{"/bin/bash"},
	}})
	if err != nil {
		return err
	}
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return err
	}
	return WriteLayout(image, dir, tag)
}

// WriteLayout writes an image into a new OCI layout.
func WriteLayout(image v1.Image, dir, tag string) error {
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return p.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag}),
		layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
}
