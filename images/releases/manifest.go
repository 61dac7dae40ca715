package releases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/redist"
)

// Manifest is a manifest of NVIDIA's redist folder, to be read from somewhere.
type Manifest struct {
	Address string
	Name    string // what messages call the address
}

// DisagreementError says that two sources have different checksums or sizes of one file. None of
// both is used.
type DisagreementError struct {
	File          string // its name
	First, Second Statement
}

// Statement is what one source says about a file.
type Statement struct {
	Source string
	SHA256 string
	Size   int64 // bytes; 0: it does not say
}

// Error names both sources.
func (e *DisagreementError) Error() string {
	return fmt.Sprintf("two sources disagree about %s: %s, %s: find out which one is right before you use either", e.File, e.First, e.Second)
}

// FailureKind says what the command makes of it.
func (*DisagreementError) FailureKind() failure.Kind { return failure.Content }

func (s Statement) String() string {
	if s.Size == 0 {
		return fmt.Sprintf("%s says sha256 %s", s.Source, s.SHA256)
	}
	return fmt.Sprintf("%s says sha256 %s and %d bytes", s.Source, s.SHA256, s.Size)
}

// fromManifest begins the name of a manifest as a source.
const fromManifest = "the manifest "

// contradicts reports whether two statements cannot both be right.
func (s Statement) contradicts(other Statement) bool {
	return s.SHA256 != other.SHA256 || s.Size > 0 && other.Size > 0 && s.Size != other.Size
}

func (a Archive) statement() Statement {
	if strings.HasPrefix(a.From, fromManifest) {
		return Statement{a.From, a.SHA256, a.Size}
	}
	return Statement{Source: strings.ReplaceAll(a.From, ",", ", ") + " (table of driver-build)", SHA256: a.SHA256, Size: a.Size}
}

// ReadManifest reads a manifest and returns the release that it describes. version is that of the driver that
// it must be of; "" takes any.
func ReadManifest(ctx context.Context, m Manifest, version string, read func(context.Context, string, int64) ([]byte, error)) (Release, string, error) {
	text, err := read(ctx, m.Address, redist.MaxManifest)
	if err != nil {
		return Release{}, "", fmt.Errorf("--redist %s: %w", m.Name, err)
	}
	parsed, err := redist.Parse(text)
	if err != nil {
		return Release{}, "", matrix.RequestErrorf("--redist %s: %w", m.Name, err)
	}
	if version != "" && parsed.Version != version {
		return Release{}, "", matrix.RequestErrorf("--redist %s is the manifest of driver %s, not of %s", m.Name, parsed.Version, version)
	}
	// The paths of a manifest are relative to its own folder; those of a file, to NVIDIA's.
	base := redist.Base
	if folder, file := path.Split(m.Address); file != "" && (strings.HasPrefix(m.Address, "https://") || strings.HasPrefix(m.Address, "http://")) {
		base = folder
	}
	r := Release{Version: parsed.Version, Date: parsed.Date}
	for _, c := range parsed.Components {
		for _, f := range c.Files {
			r.Redist = append(r.Redist, RedistFile{
				Component: c.Name, Version: c.Version,
				Archive: Archive{Arch: f.Arch, URL: base + f.Path, SHA256: f.SHA256, Size: f.Size, From: fromManifest + Shown(m.Name)},
			})
		}
	}
	return r, parsed.CUDA, nil
}

// WithRelease returns the table with a release of a manifest. A file whose checksum the table has differently
// is a *DisagreementError.
func (t *Table) WithRelease(fresh Release, cuda string) (*Table, error) {
	have, _ := t.Release(fresh.Version)
	for _, f := range fresh.Redist {
		old, ok := have.Component(f.Component, f.Arch)
		stated := Statement{f.From, f.SHA256, f.Size}
		if ok && path.Base(old.URL) == path.Base(f.URL) && old.statement().contradicts(stated) {
			return nil, &DisagreementError{path.Base(f.URL), old.statement(), stated}
		}
	}
	branch := Branch{Name: BranchOf(fresh.Version), Releases: []Release{fresh}}
	if b, _ := t.Branch(branch.Name); b.CUDA == "" {
		branch.CUDA = cuda
	}
	return t.With(&Table{Branches: []Branch{branch}}), nil
}

// CheckMatrix compares what a manifest says with the matrix: a file of the same name must have the same
// checksum and size.
func (r Release) CheckMatrix(m *matrix.Matrix) error {
	var errs []error
	for _, d := range m.Drivers {
		if Compare(d.Version, r.Version) != 0 {
			continue
		}
		for _, f := range r.Redist {
			a, ok := d.Archives[f.Arch]
			if name := componentNames[f.Component]; name != "" {
				a, ok = d.Components[name][f.Arch]
			}
			if !ok || path.Base(a.URL) != path.Base(f.URL) {
				continue
			}
			ours, theirs := Statement{"the matrix", a.SHA256, a.Size}, Statement{f.From, f.SHA256, f.Size}
			if ours.contradicts(theirs) {
				errs = append(errs, &DisagreementError{path.Base(f.URL), ours, theirs})
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
		known, _ := e.known.Release(e.Version)
		if e.NoManifest || e.Source.None || len(known.Redist) > 0 {
			return nil
		}
		m.Address = redist.Base + redist.ManifestName(e.Version)
		m.Name = m.Address
		cause := fmt.Errorf("%w within %v", fetch.ErrUnreachable, publicPatience)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, publicPatience, cause)
		defer cancel()
	}
	r, cuda, err := ReadManifest(ctx, m, e.Version, e.Read)
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
	e.manifest, e.Driver.CUDA = &r, cuda
	e.known.Table, err = e.known.WithRelease(r, cuda)
	return err
}
