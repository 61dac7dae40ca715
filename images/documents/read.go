package documents

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

	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// maxLicence bounds the text of a licence that a document repeats, in bytes. NVIDIA's has 25 kB, with those
// of Debian's packages 60 kB.
const maxLicence = 1 << 20

// ReadImage returns what an image itself tells: its labels, its package database, its files. It is fast if the
// cache has the digests of the image's layers, as after a build or a former Read.
func ReadImage(ctx context.Context, cache layer.Cache, name string, img v1.Image) (_ *Image, err error) {
	step := cache.Observe.Begin(name, "sbom")
	defer func() { _ = step.End(false, err) }() // the error goes to the caller as well
	spool, err := rootfs.NewSpool(cache.Store.Dir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the image's configuration: %w", err)
	}
	tree, err := readTree(ctx, cache, img, spool, step)
	if err != nil {
		return nil, err
	}
	inspected, err := verify.Examiner{Store: cache.Store, Observe: cache.Observe}.InspectTree(ctx, img, tree)
	if err != nil {
		return nil, err
	}
	i := &Image{Inspection: *inspected, Created: config.Created.UTC()}
	i.Base = recipe.Base{Name: i.Labels[recipe.OCIPrefix+"base.name"], Digest: i.Labels[recipe.OCIPrefix+"base.digest"]}
	// An image without os-release has packages of no known system.
	i.SystemID, i.SystemVersion, _ = osrelease.Read(tree.OpenFS())
	for _, flavour := range i.Flavours {
		i.Sources = append(i.Sources, Source{flavour, "/" + recipe.KernelDir(i.Driver, flavour)})
	}
	if i.Licence, err = licence(tree, recipe.LicenceFile); err != nil {
		return nil, err
	}
	i.ComponentLicences = map[string]string{}
	for _, name := range matrix.ComponentNames {
		if i.ComponentLicences[name], err = licence(tree, recipe.ComponentLicence(name)); err != nil {
			return nil, err
		}
	}
	if err := i.readCopyrights(tree); err != nil {
		return nil, err
	}
	if i.OwnPrograms, err = programs(tree); err != nil {
		return nil, err
	}
	if err := i.addFiles(ctx, tree); err != nil {
		return nil, err
	}
	i.addLinks(tree)
	return i, nil
}

// licence returns the text of a file, "" where the image has none.
func licence(tree *rootfs.Tree, name string) (string, error) {
	e, err := tree.Stat(name)
	if err != nil || e.Kind != rootfs.File || e.ContentOmitted || e.Size > maxLicence {
		return "", nil //nolint:nilerr // verify says what is wrong with the licence; here it is not known
	}
	text, err := tree.ReadFile(e.Path)
	if err != nil {
		return "", fmt.Errorf("read the licence %s: %w", name, err)
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}

// addFiles computes the digests of the driver's files, on all cores.
func (i *Image) addFiles(ctx context.Context, tree *rootfs.Tree) error {
	var sets []string
	for _, s := range i.Modules {
		for _, m := range s.Modules {
			sets = append(sets, "/"+path.Join(recipe.ModulesDir, s.Folder, m.Name+".ko"))
		}
	}
	var others []string
	for _, e := range tree.All() {
		if e.Kind == rootfs.File && i.isOther("/"+e.Path) {
			others = append(others, "/"+e.Path)
		}
	}
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.SetLimit(runtime.GOMAXPROCS(0))
	for _, list := range []struct {
		paths []string
		to    *[]File
	}{{i.Libraries, &i.LibraryFiles}, {i.Firmware, &i.FirmwareFiles}, {i.Programs, &i.ToolFiles}, {sets, &i.ModuleFiles}, {others,
		&i.OtherFiles}} {
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

// isOther says that a file is one of the driver's by its name, and in none of the other lists: scripts such as
// nvidia-bug-report.sh, profiles, descriptions for loaders. Sources and records of packages are not listed by file.
func (i *Image) isOther(p string) bool {
	inside := []string{"/" + recipe.ShareDir + "/", "/usr/src/", "/usr/share/doc/", "/var/", "/licenses/"}
	return i.Driver != "" && strings.Contains(p, "nvidia") && !slices.ContainsFunc(inside,
		func(dir string) bool { return strings.HasPrefix(p, dir) }) &&
		!isProgram(strings.TrimPrefix(p, "/")) && !slices.Contains(i.Libraries, p) && !slices.Contains(i.Firmware,
		p) && !slices.Contains(i.Programs, p)
}

// file is a file with its digest.
func file(tree *rootfs.Tree, p string) (f File, err error) {
	f.Path = p
	e, err := tree.Stat(strings.TrimPrefix(p, "/"))
	if err == nil {
		f.SHA256, err = e.SHA256()
	}
	if err != nil {
		return f, fmt.Errorf("digest of %s: %w", p, err)
	}
	return f, nil
}

// addLinks adds to each library the links in its folder that lead to it, which programs ask for.
func (i *Image) addLinks(tree *rootfs.Tree) {
	libraries := map[string]*File{}
	for n := range i.LibraryFiles {
		libraries[strings.TrimPrefix(i.LibraryFiles[n].Path, "/")] = &i.LibraryFiles[n]
	}
	for _, e := range tree.All() {
		if e.Kind != rootfs.Link || !strings.Contains(path.Base(e.Path), ".so") {
			continue
		}
		at, err := tree.Stat(e.Path)
		if err != nil {
			continue // verify says which links lead nowhere
		}
		if f := libraries[at.Path]; f != nil && path.Dir(at.Path) == path.Dir(e.Path) {
			f.Links = append(f.Links, path.Base(e.Path))
		}
	}
}
