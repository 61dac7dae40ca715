package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/unxz"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
)

// readArchive reads a driver from NVIDIA's .run archive or its archive of the redist folder: downloaded and
// verified as a whole, unpacked in one pass, installed as its .manifest says.
func readArchive(ctx context.Context, env packages.Env, r *recipe.Recipe, spool *rootfs.Spool, step *progress.Step) (*Driver, error) {
	archive, unpack := r.Source.Archive(), unpackRunfile
	if r.Source.Runfile == nil {
		unpack = unpackRedist
	}
	file, _, err := env.Fetch.Get(ctx, *archive, func(done, total int64) { step.Progress("download", done, total) })
	if err != nil {
		return nil, err
	}
	raw, err := unpack(ctx, env.XZ, file, r, spool, step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive.URL, err)
	}
	return installRunfile(raw, r, spool)
}

// unpackRunfile reads all members into the spool. The archive's own sums are checked besides the matrix's: an
// archive that contradicts itself is broken however it was pinned.
func unpackRunfile(ctx context.Context, xz unxz.Program, file string, r *recipe.Recipe, spool *rootfs.Spool, step *progress.Step) (raw *rootfs.Tree, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	run, err := runfile.Open(f)
	if err != nil {
		return nil, err
	}
	run.XZ = xz.Open(ctx)
	arch, _ := distros.LookupArch(r.Arch) // complete refuses an unknown one
	if h := run.Header(); h.Version != r.Driver || h.TargetArch != arch.Kernel {
		return nil, fmt.Errorf("%w: the archive is driver %s for %s, not %s for %s: correct its URL in the matrix", ErrContent, h.Version, h.TargetArch, r.Driver, arch.Kernel)
	}
	raw = rootfs.New(spool, nil)
	var done int64
	sums, err := run.Extract(ctx, func(name string, mode fs.FileMode, size int64, content io.Reader) error {
		done += size
		step.Work("unpack", done, 0)
		return raw.AddFile(name, mode, size, content)
	})
	if err != nil {
		return nil, err
	}
	if sums.SHA256 != r.Source.Runfile.SHA256 {
		return nil, &fetch.MismatchError{URL: r.Source.Runfile.URL, Want: r.Source.Runfile.SHA256, Got: sums.SHA256}
	}
	return raw, nil
}

// installRunfile distributes the members as the manifest says.
func installRunfile(raw *rootfs.Tree, r *recipe.Recipe, spool *rootfs.Spool) (*Driver, error) {
	text, err := raw.ReadFile(".manifest")
	if err != nil {
		return nil, fmt.Errorf("%w: the archive has no .manifest: %w", ErrContent, err)
	}
	m, err := runfile.ParseManifest(".manifest", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if m.Version != r.Driver {
		return nil, fmt.Errorf("%w: .manifest is of driver %s, the head of the archive says %s", ErrContent, m.Version, r.Driver)
	}
	layout := runfile.Layout{LibDir: r.LibDir, LibDir32: r.LibDir32, FirmwareDir: recipe.FirmwareDir}
	if r.Source.Redist != nil && !has32(raw) {
		layout.LibDir32 = ""
	}
	files, err := m.Install(layout)
	if err != nil {
		return nil, err
	}
	d := &Driver{User: rootfs.New(spool, nil), Kernel: rootfs.New(spool, nil), raw: raw}
	for _, f := range files {
		tree := d.User
		if strings.HasPrefix(f.Path, "usr/src/") {
			if tree = d.Kernel; !slices.ContainsFunc(r.Flavours, func(fl string) bool { return recipe.InFolder(f.Path, recipe.KernelDir(r.Driver, fl)) }) {
				continue
			}
		}
		if err := takeRunfile(tree, raw, f); err != nil {
			return nil, fmt.Errorf(".manifest:%d: %s: %w", f.Line, f.Path, err)
		}
	}
	return d, takeDocuments(d, raw)
}

func takeRunfile(tree, raw *rootfs.Tree, f runfile.File) error {
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
		return fmt.Errorf("%w: the template %s has %d bytes, more than %d", ErrContent, f.Source, e.Size, maxTemplate)
	}
	data, err := raw.ReadFile(f.Source)
	if err != nil {
		return err
	}
	return tree.AddBytes(f.Path, f.Mode, f.Rewrite(data))
}

// takeDocuments brings the licence and the list of GPUs to where every image has them, readable by everyone
// whatever their modes in the archive are. Drivers before R450 have no list.
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
