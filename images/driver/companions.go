package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
)

// CompanionsLayout is part of the cache key of the layer with the sources of companions. Raise it
// when the same archives are to give other files.
const CompanionsLayout = 1

// companionFiles says where a companion's files are in the archive of its project, below the
// archive's own folder, and what the compile needs.
var companionFiles = map[string]struct {
	keep  []string // folders that are taken
	strip string   // that the image does not have
	needs []string // in the image, below the folder of the sources
}{
	driverinfo.NvidiaFS: {
		[]string{"src"},
		"src/",
		[]string{"Makefile", "configure", "GDS_VERSION"},
	},
	driverinfo.GDRDrv: {
		[]string{"src/gdrdrv", "scripts"},
		"",
		[]string{"src/gdrdrv/Makefile", "src/gdrdrv/gdrdrv.c"},
	},
}

// ReadCompanions reads the sources of the companions of a recipe from their archives and packages.
// Their files are in the spool.
func ReadCompanions(
	ctx context.Context,
	env packages.Env,
	r *recipe.Recipe,
	spool *rootfs.Spool,
	step *progress.Step,
) (*rootfs.Tree, error) {
	tree := rootfs.New(spool, nil)
	for _, c := range r.Companions {
		if err := readCompanion(ctx, env, c, tree, spool, step); err != nil {
			return nil, fmt.Errorf("companion %s %s: %w", c.Name, c.Version, err)
		}
		for _, name := range companionFiles[c.Name].needs {
			if e, ok := tree.Lstat(companionDir(c) + name); !ok || e.Kind != rootfs.File {
				return nil, fmt.Errorf(
					"companion %s %s: %w: it has no %s: is this the archive of its sources?",
					c.Name,
					c.Version,
					ErrContent,
					name,
				)
			}
		}
	}
	return tree, nil
}

func readCompanion(
	ctx context.Context,
	env packages.Env,
	c recipe.Companion,
	tree *rootfs.Tree,
	spool *rootfs.Spool,
	step *progress.Step,
) error {
	if c.Package != nil {
		debs, err := packages.DebReader(env).Unpack(ctx, []distros.Package{*c.Package}, spool, step)
		if err != nil {
			return err
		}
		return takeCompanionPackage(c, debs[0].Tree, tree)
	}
	file, err := CompanionFile(ctx, env.Fetch, c, step.File("download "+c.Name))
	if err != nil {
		return err
	}
	err = fetch.Pinned(ctx, file, *c.File, func(in io.Reader) error {
		return takeCompanionArchive(in, env.XZ.Open(ctx), c, tree)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.File.URL, err)
	}
	return nil
}

// CompanionFile downloads the archive of a companion. If it cannot be reached, the error says which
// file is needed, and how to do without.
func CompanionFile(
	ctx context.Context,
	client *fetch.Client,
	c recipe.Companion,
	progress func(done, total int64),
) (string, error) {
	return download(
		ctx,
		client,
		*c.File,
		progress,
		"the archive of companion "+c.Name+" "+c.Version,
		"leave it out of --companions",
	)
}

// download downloads a file. what it is and how to do without it are for the error that it cannot
// be reached.
func download(
	ctx context.Context,
	client *fetch.Client,
	f fetch.File,
	progress fetch.Progress,
	what, without string,
) (string, error) {
	file, _, err := client.Get(ctx, f, progress)
	switch {
	case errors.Is(err, fetch.ErrUnreachable) || errors.Is(err, fetch.ErrOffline):
		err = fmt.Errorf(
			"%s is missing: it is the file %s with sha256 %s: run driver-build fetch where it can be downloaded and "+
				"bring its cache here, or %s: %w",
			what,
			f.URL,
			f.SHA256,
			without,
			err,
		)
	case err != nil:
		err = fmt.Errorf("%s: %w", what, err)
	}
	return file, err
}

// companionDir is the folder in the image with the sources of a companion, with a slash at its end.
func companionDir(c recipe.Companion) string {
	return strings.TrimPrefix(driverinfo.CompanionSources(c.Name, c.Version), "/") + "/"
}

// takeCompanionPackage takes usr/src/<folder>/... of a package for dkms, which has the files of the
// module alone, and its copyright.
func takeCompanionPackage(c recipe.Companion, from, tree *rootfs.Tree) error {
	for _, e := range from.All() {
		if e.Kind != rootfs.File {
			continue
		}
		name := ""
		parts := strings.SplitN(e.Path, "/", 4)
		switch {
		case path.Base(e.Path) == "copyright":
			name = recipe.ComponentLicence(c.Name)
		case len(parts) == 4 && parts[0] == "usr" && parts[1] == "src":
			name = companionDir(c) + parts[3]
		default:
			continue
		}
		if err := tree.Move(e, name); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	return nil
}

// takeCompanionArchive unpacks a .tar.gz or .tar.xz of a project. Nothing of it leaves the folder
// of the sources.
func takeCompanionArchive(
	in io.Reader,
	xz compression.OpenXZ,
	c recipe.Companion,
	tree *rootfs.Tree,
) error {
	known := companionFiles[c.Name]
	return runfile.Unpack(in, xz, true, func(m runfile.Member, content io.Reader) error {
		_, inside, _ := strings.Cut(m.Name, "/")
		to := ""
		for _, dir := range known.keep {
			if strings.HasPrefix(inside, dir+"/") {
				to = companionDir(c) + strings.TrimPrefix(inside, known.strip)
			}
		}
		if inside == "LICENSE" {
			to = recipe.ComponentLicence(c.Name)
		}
		switch {
		case to == "":
			return nil
		case m.Link != "":
			return fmt.Errorf("%w: it is neither a file nor a folder", ErrContent)
		case tree.Exists(to):
			return fmt.Errorf("%w: it is there twice", ErrContent)
		}
		return tree.AddFile(to, 0o644|m.Mode&0o111, m.Size, content)
	})
}
