package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/makeself"
	"github.com/driver-container/driver-container/images/matrix"
)

// source decides where the sources come from: Debian's packages if the system has them; else an
// archive made from those packages. flags are flags of driver-build.
func (l *laboratory) source(
	ctx context.Context,
	c *cell,
) (source string, flags []string, err error) {
	has := func(d matrix.Driver) bool {
		_, _, ok := d.Debian.Wants(c.System, arch)
		return ok && d.Version == c.Driver.version
	}
	if c.System == c.Driver.home || slices.ContainsFunc(l.matrix.Drivers, has) {
		file, err := l.writeMatrix(c.Driver, "")
		return "packages", []string{"--matrix", file}, err
	}
	run := filepath.Join(l.work, "archives", "NVIDIA-Linux-x86_64-"+c.Driver.version+".run")
	if _, err := os.Stat(run); errors.Is(err, fs.ErrNotExist) {
		if err := l.makeArchive(ctx, c.Driver, run); err != nil {
			return "", nil, fmt.Errorf("make an archive of %s: %w", c.Driver.version, err)
		}
	}
	file, err := l.writeMatrix(c.Driver, run)
	return "archive", []string{"--matrix", file, "--source", run}, err
}

// mapping is a mapping of a matrix, whose values stay as they are written.
type mapping = map[string]yaml.Node

// writeMatrix writes a matrix with one driver alone, with a .run archive if there is one and else
// with Debian's packages, and no companion.
func (l *laboratory) writeMatrix(d driver, run string) (string, error) {
	text, err := os.ReadFile(l.matrixFile)
	if err != nil {
		return "", err
	}
	var all struct {
		Systems    yaml.Node
		Drivers    []mapping
		Interfaces yaml.Node
	}
	if err := yaml.Unmarshal(text, &all); err != nil {
		return "", err
	}
	all.Drivers = slices.DeleteFunc(
		all.Drivers,
		func(m mapping) bool { return m["version"].Value != d.version },
	)
	if len(all.Drivers) != 1 {
		return "", fmt.Errorf("%s has no driver %s", l.matrixFile, d.version)
	}
	if err := sourceOf(all.Drivers[0], d, run); err != nil {
		return "", err
	}
	for _, known := range l.matrix.Drivers {
		for _, p := range known.Patches {
			if err := write(filepath.Join(l.work, p.File), p.Text); err != nil {
				return "", err
			}
		}
	}
	text, err = yaml.Marshal(all)
	file := filepath.Join(l.work, "matrix.yaml")
	return file, errors.Join(err, write(file, string(text)))
}

// sourceOf changes the row of a driver: it has this archive, or else Debian's packages.
func sourceOf(row mapping, d driver, run string) error {
	key := "debian"
	text := d.debian
	if run != "" {
		data, err := os.ReadFile(run)
		if err != nil {
			return err
		}
		delete(row, key)
		key = "archives"
		text = fmt.Sprintf("%s: {url: 'https://archive.invalid/%s', sha256: %x, size: %d}",
			arch, filepath.Base(run), sha256.Sum256(data), len(data))
	}
	if text == "" {
		return nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return err
	}
	row[key] = *document.Content[0]
	return nil
}

// makeArchive makes the archive of a driver from Debian's packages: it builds an image of the
// driver for the driver's home system, and the image's layers become members of the archive.
func (l *laboratory) makeArchive(ctx context.Context, d driver, run string) (err error) {
	fmt.Fprintf(l.log, "making an archive of %s from the packages of %s\n", d.version, d.home)
	dir, err := os.MkdirTemp(l.work, "tree-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file, err := l.writeMatrix(d, "")
	if err != nil {
		return err
	}
	image := filepath.Join(dir, "oci")
	tree := filepath.Join(dir, "tree")
	out, _, err := command(
		ctx,
		l.program,
		"--os",
		d.home,
		"--driver",
		d.version,
		"--matrix",
		file,
		"--base",
		l.bases[d.home],
		"--allow-incompatible",
		"--no-fabric",
		"--no-patches",
		"--progress",
		"plain",
		"--output",
		"oci:"+image,
	)
	if err != nil {
		return err
	}
	_, digest, _ := strings.Cut(strings.TrimSpace(out), "@")
	if err := errors.Join(os.MkdirAll(filepath.Dir(run), 0o755), os.Mkdir(tree, 0o755), unpackDriver(ctx, image, digest, tree)); err != nil {
		return err
	}
	// FromTree leaves out copyright files
	made, _, err := makeself.FromTree(os.DirFS(tree), d.version, "x86_64")
	if err != nil {
		return err
	}
	made.Compression = "zstd"
	return made.WriteFile(ctx, run)
}

// unpackDriver unpacks the layers with the driver of an image in a layout.
func unpackDriver(ctx context.Context, dir, digest, to string) error {
	hash, err := v1.NewHash(digest)
	if err != nil {
		return fmt.Errorf("driver-build printed no digest: %w", err)
	}
	image, err := layout.Path(dir).Image(hash)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	found := 0
	for i, h := range config.History {
		if !strings.HasSuffix(h.CreatedBy, ": user-mode driver") &&
			!strings.HasSuffix(h.CreatedBy, ": kernel sources") {
			continue
		}
		found++
		content, err := layers[i].Uncompressed()
		if err != nil {
			return err
		}
		unpack := exec.CommandContext(ctx, "tar", "-xf-", "-C", to)
		unpack.Stdin = content
		err = errors.Join(unpack.Run(), content.Close())
		if err != nil {
			return err
		}
	}
	if found != 2 {
		return fmt.Errorf("the image has %d of the 2 layers with the driver: %+v", found, config.History)
	}
	return nil
}
