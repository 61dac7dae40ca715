package sbom

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// maxLicence bounds the text of a licence that a document repeats, in bytes. NVIDIA's has 25 kB, with those
// of Debian's packages 60 kB.
const maxLicence = 1 << 20

// Read returns what an image itself tells: its labels, its package database, its files. The spool of the
// examiner's store needs room for the driver's libraries.
func Read(ctx context.Context, e verify.Examiner, name string, img v1.Image) (_ *Image, err error) {
	step := e.Observe.Begin(name, "sbom")
	defer func() { _ = step.End(false, err) }() // the error goes to the caller as well
	spool, err := rootfs.NewSpool(e.Store.Dir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	tree, err := layer.Flatten(ctx, img, spool, isRead, step)
	if err != nil {
		return nil, err
	}
	inspected, err := e.InspectTree(ctx, img, tree)
	if err != nil {
		return nil, err
	}
	i := &Image{Inspection: *inspected, Created: config.Created.UTC()}
	i.Base = recipe.Base{Name: i.Labels[recipe.OCIPrefix+"base.name"], Digest: i.Labels[recipe.OCIPrefix+"base.digest"]}
	// An image without os-release has packages of no known system.
	i.SystemID, i.SystemVersion, _ = distros.ReadOSRelease(tree.OpenFS())
	for _, flavour := range i.Flavours {
		i.Sources = append(i.Sources, Source{flavour, "/" + recipe.KernelDir(i.Driver, flavour)})
	}
	if i.Licence, err = licence(tree); err != nil {
		return nil, err
	}
	if i.Programs, err = programs(tree); err != nil {
		return nil, err
	}
	return i, i.addFiles(ctx, tree)
}

func isRead(p string) bool {
	return verify.IsInspected(p) || p == recipe.LicenceFile || isProgram(p) || recipe.InFolder(p, recipe.FirmwareDir)
}

func licence(tree *rootfs.Tree) (string, error) {
	e, err := tree.Stat(recipe.LicenceFile)
	if err != nil || e.Kind != rootfs.File || e.Size > maxLicence {
		return "", nil //nolint:nilerr // verify says what is wrong with the licence; here it is not known
	}
	text, err := tree.ReadFile(e.Path)
	if err != nil {
		return "", fmt.Errorf("read the licence: %w", err)
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}

// addFiles computes the digests of the driver's files, on all cores.
func (i *Image) addFiles(ctx context.Context, tree *rootfs.Tree) error {
	var sets []string
	for _, s := range i.Inspection.Modules {
		for _, m := range s.Modules {
			sets = append(sets, "/"+path.Join(recipe.ModulesDir, s.Folder, m.Name+".ko"))
		}
	}
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.SetLimit(runtime.GOMAXPROCS(0))
	for _, list := range []struct {
		paths []string
		to    *[]File
	}{{i.Inspection.Libraries, &i.Libraries}, {i.Inspection.Firmware, &i.Firmware}, {i.Inspection.Programs, &i.Tools}, {sets, &i.Modules}} {
		paths := slices.Compact(slices.Sorted(slices.Values(list.paths)))
		files := make([]File, len(paths))
		*list.to = files
		for n, p := range paths {
			jobs.Go(func() (err error) {
				files[n], err = file(tree, p)
				return errors.Join(err, ctx.Err())
			})
		}
	}
	return jobs.Wait()
}

func file(tree *rootfs.Tree, p string) (f File, err error) {
	f.Path = p
	e, err := tree.Stat(strings.TrimPrefix(p, "/"))
	if err == nil {
		f.SHA256, err = e.SHA256()
	}
	if err != nil {
		return f, fmt.Errorf("digest of %s: %w", p, err)
	}
	if strings.Contains(path.Base(p), ".so") {
		if r, err := e.Open(); err == nil {
			if elf, err := elffile.Read(r, r.Size()); err == nil { // verify says what is wrong with a library that is none
				f.Soname = elf.Soname
			}
		}
	}
	return f, nil
}
