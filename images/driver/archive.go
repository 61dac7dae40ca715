package driver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
)

// readArchive reads a driver from NVIDIA's .run archive or its archive of the redist folder:
// downloaded and verified as a whole, unpacked in one pass, installed as its .manifest says.
func readArchive(
	ctx context.Context,
	env packages.Env,
	r *recipe.Recipe,
	spool *rootfs.Spool,
	step *progress.Step,
) (*Driver, error) {
	archive := r.Source.Archive()
	unpack := unpackRunfile
	if r.Source.Runfile == nil {
		unpack = unpackRedist
	}
	file, _, err := env.Fetch.Get(ctx, *archive, step.File("download"))
	if err != nil {
		return nil, err
	}
	raw := rootfs.New(spool, nil)
	var done int64
	err = fetch.Pinned(ctx, file, *archive, func(in io.Reader) error {
		return unpack(in, env.XZ.Open(ctx), r, func(m runfile.Member, content io.Reader) error {
			done += m.Size
			step.Work("unpack", done, 0)
			if _, taken := raw.Lstat(m.Name); taken {
				return fmt.Errorf("%w: two members would be %s of the .run archive", ErrContent, m.Name)
			}
			return raw.AddFile(m.Name, m.Mode, m.Size, content)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive.URL, err)
	}
	return install(raw, r, spool)
}

type takeMember = func(m runfile.Member, content io.Reader) error

func unpackRunfile(in io.Reader, xz compression.OpenXZ, r *recipe.Recipe, take takeMember) error {
	run, err := runfile.Open(in)
	if err != nil {
		return err
	}
	arch, _ := distros.LookupArch(r.Arch) // complete refuses an unknown one
	if run.Version != r.Driver || run.TargetArch != arch.Kernel {
		return fmt.Errorf(
			"%w: the archive is driver %s for %s, not %s for %s: correct its URL in the matrix",
			ErrContent,
			run.Version,
			run.TargetArch,
			r.Driver,
			arch.Kernel,
		)
	}
	return run.Extract(xz, take)
}

// unpackRedist takes the files of an archive of NVIDIA's redist folder under the names that they
// have in the .run archive, so that the same manifest says what is installed where. Links are
// passed over: the manifest has them all.
func unpackRedist(in io.Reader, xz compression.OpenXZ, r *recipe.Recipe, take takeMember) error {
	return extractRedist(
		in,
		xz,
		[]string{redistDriver},
		r.Driver,
		r.Arch,
		func(m runfile.Member, content io.Reader) error {
			if m.Link != "" {
				return nil
			}
			m.Name = runName(m.Name)
			return take(m, content)
		},
	)
}

// install distributes the members as the manifest says.
func install(raw *rootfs.Tree, r *recipe.Recipe, spool *rootfs.Spool) (*Driver, error) {
	text, err := raw.ReadFile(".manifest")
	if err != nil {
		return nil, fmt.Errorf("%w: the archive has no .manifest: %w", ErrContent, err)
	}
	m, err := runfile.ParseManifest(".manifest", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if m.Version != r.Driver {
		return nil, fmt.Errorf(
			"%w: .manifest is of driver %s, the archive should be %s",
			ErrContent,
			m.Version,
			r.Driver,
		)
	}
	layout := runfile.Layout{
		LibDir:      r.LibDir,
		LibDir32:    r.LibDir32,
		FirmwareDir: recipe.FirmwareDir,
	}
	// the manifest of the redist folder's archive lists 32-bit libraries all the same
	if r.Source.Redist != nil && !raw.Exists("32") {
		layout.LibDir32 = ""
	}
	files, err := m.Install(layout)
	if err != nil {
		return nil, err
	}
	d := &Driver{User: rootfs.New(spool, nil), Kernel: rootfs.New(spool, nil)}
	for _, f := range files {
		tree := d.User
		if strings.HasPrefix(f.Path, "usr/src/") {
			tree = d.Kernel
			isOf := func(flavour string) bool { return recipe.InFolder(f.Path, recipe.KernelDir(r.Driver, flavour)) }
			if !slices.ContainsFunc(r.Flavours, isOf) {
				continue
			}
		}
		if err := takeFile(tree, raw, f); err != nil {
			return nil, fmt.Errorf(".manifest:%d: %s: %w", f.Line, f.Path, err)
		}
	}
	return d, takeDocuments(d, raw)
}

func takeFile(tree, raw *rootfs.Tree, f runfile.File) error {
	if f.Link != "" {
		return tree.AddLink(f.Path, f.Link)
	}
	e, ok := raw.Lstat(f.Source)
	if !ok || e.Kind != rootfs.File {
		return fmt.Errorf("%w: the archive has no member %s", ErrContent, f.Source)
	}
	installed := *e
	installed.Mode = f.Mode
	if f.Rewrite == nil {
		return tree.Move(&installed, f.Path)
	}
	if e.Size > maxTemplate {
		return fmt.Errorf(
			"%w: the template %s has %d bytes, more than %d",
			ErrContent,
			f.Source,
			e.Size,
			maxTemplate,
		)
	}
	data, err := raw.ReadFile(f.Source)
	if err != nil {
		return err
	}
	return tree.AddBytes(f.Path, f.Mode, f.Rewrite(data))
}

// takeDocuments brings the licence and the list of GPUs to where every image has them, readable by
// everyone whatever their modes in the archive are. Drivers before R450 have no list.
func takeDocuments(d *Driver, raw *rootfs.Tree) error {
	for _, f := range []struct {
		member, place string
		needed        bool
	}{{"LICENSE", recipe.LicenceFile, true}, {"supported-gpus/supported-gpus.json", recipe.SupportedGPUs, false}} {
		e, ok := raw.Lstat(f.member)
		if !ok && f.needed {
			return fmt.Errorf("%w: the archive has no %s", ErrContent, f.member)
		}
		if !ok {
			continue
		}
		document := *e
		document.Mode = 0o644
		if err := d.User.Move(&document, f.place); err != nil {
			return err
		}
	}
	return nil
}
