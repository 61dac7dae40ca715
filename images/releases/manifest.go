package releases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/redist"
)

// Statement is what one source says about a file.
type Statement struct {
	Source string
	SHA256 string
	Size   int64 // bytes; 0: it does not say
}

func (s Statement) String() string {
	if s.Size == 0 {
		return fmt.Sprintf("%s says sha256 %s", s.Source, s.SHA256)
	}
	return fmt.Sprintf("%s says sha256 %s and %d bytes", s.Source, s.SHA256, s.Size)
}

// agree refuses two statements about a file that cannot both be right. None of both is used.
func agree(file string, a, b Statement) error {
	if a.SHA256 != b.SHA256 || a.Size > 0 && b.Size > 0 && a.Size != b.Size {
		return failure.Errorf(failure.Content, "two sources disagree about %s: %s, %s: find out which one is right before "+
			"you use either", fileOf(file), a, b)
	}
	return nil
}

// fromManifest begins the name of a manifest as a source.
const fromManifest = "the manifest "

func (a Archive) statement() Statement {
	s := Statement{a.From, a.SHA256, a.Size}
	if !strings.HasPrefix(a.From, fromManifest) {
		s.Source = strings.ReplaceAll(a.From, ",", ", ") + " (table of driver-build)"
	}
	return s
}

// ReadManifest reads a manifest of NVIDIA's redist folder and adds its release to the table. version is that
// of the driver that it must be of; "" takes any. A file whose checksum the table has differently is an error.
func (t *Table) ReadManifest(ctx context.Context, m Source, version string) (fresh *Table, r Release, cuda string, err error) {
	text, err := m.Read(ctx, m.Address, redist.MaxManifest)
	if err != nil {
		return nil, r, "", fmt.Errorf("--redist %s: %w", m.Name, err)
	}
	parsed, err := redist.Parse(text)
	if err != nil {
		return nil, r, "", failure.Errorf(failure.Usage, "--redist %s: %w", m.Name, err)
	}
	if version != "" && parsed.Version != version {
		return nil, r, "", failure.Errorf(failure.Usage, "--redist %s is the manifest of driver %s, not of %s", m.Name, parsed.Version, version)
	}
	// The paths of a manifest are relative to its own folder; those of a file, to NVIDIA's.
	base := redist.Base
	if folder, file := path.Split(m.Address); file != "" && (strings.HasPrefix(m.Address, "https://") || strings.HasPrefix(m.Address, "http://")) {
		base = folder
	}
	r = Release{Version: parsed.Version, Date: parsed.Date}
	have, _ := t.Release(r.Version)
	for _, c := range parsed.Components {
		for _, f := range c.Files {
			a := Archive{
				Component: c.Name, Version: c.Version, Arch: f.Arch, URL: base + f.Path, SHA256: f.SHA256, Size: f.Size,
				From: fromManifest + Shown(m.Name),
			}
			r.Archives = append(r.Archives, a)
			if old, ok := have.Archive(c.Name, f.Arch); ok && fileOf(old.URL) == fileOf(a.URL) {
				err = errors.Join(err, agree(a.URL, old.statement(), a.statement()))
			}
		}
	}
	branch := Branch{Name: BranchOf(r.Version), Releases: []Release{r}}
	if b, _ := t.Branch(branch.Name); b.CUDA == "" {
		branch.CUDA = parsed.CUDA
	}
	return t.With(&Table{Branches: []Branch{branch}}), r, parsed.CUDA, err
}

// CheckMatrix compares what a manifest says with the matrix: a file of the same name must have the same
// checksum and size.
func (r Release) CheckMatrix(m *matrix.Matrix) error {
	var errs []error
	for _, d := range m.Drivers {
		if Compare(d.Version, r.Version) != 0 {
			continue
		}
		for _, f := range r.Archives {
			a := d.Archives[f.Arch]
			if name := componentNames[f.Component]; name != "" {
				a = d.Components[name][f.Arch]
			}
			if fileOf(a.URL) == fileOf(f.URL) {
				errs = append(errs, agree(f.URL, Statement{"the matrix", a.SHA256, a.Size}, f.statement()))
			}
		}
	}
	return errors.Join(errs...)
}

// loadManifest adds the manifest of the release: the one that the user named, or NVIDIA's own where nothing
// else knows an archive. Only the first must be there.
func (e *Entry) loadManifest(ctx context.Context) error {
	m := e.Manifest
	if m.Address == "" {
		known, _ := e.table.Release(e.Version)
		if m.None || e.Source.None || slices.ContainsFunc(known.Archives, func(a Archive) bool { return a.Component != "" }) {
			return nil
		}
		m.Address = redist.Base + redist.ManifestName(e.Version)
		m.Name = m.Address
		var cancel context.CancelFunc
		ctx, cancel = patient(ctx)
		defer cancel()
	}
	table, r, cuda, err := e.table.ReadManifest(ctx, m, e.Version)
	switch {
	case err != nil && e.Manifest.Address != "":
		return err
	case errors.Is(err, fs.ErrNotExist):
		e.Notes = append(e.Notes, fmt.Sprintf("NVIDIA's redist folder has no manifest of driver %s", e.Version))
		return nil
	case err != nil:
		e.Notes = append(e.Notes, fmt.Sprintf("NVIDIA's manifest of driver %s is not used: %v", e.Version, err))
		return nil
	}
	e.manifest, e.Driver.CUDA, e.table = &r, cuda, table
	return nil
}

// Shown is an address for people and for comments: without what may be secret. A file is shown by its name.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Scheme == "file" {
		return fileOf(address)
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// fileOf is what stands behind the last slash.
func fileOf(address string) string { return address[strings.LastIndex(address, "/")+1:] }
