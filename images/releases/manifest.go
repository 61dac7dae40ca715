package releases

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/nvredist"
)

// fromManifest begins the name of a manifest as a source.
const fromManifest = "the manifest "

// named returns the archive with its source as people read it.
func (a Archive) named() Archive {
	if !strings.HasPrefix(a.From, fromManifest) {
		a.From = strings.ReplaceAll(a.From, ",", ", ") + " (table of driver-build)"
	}
	return a
}

// agree refuses what two sources say of a file if both cannot be right. None of both is used.
func agree(a, b Archive) error {
	if a.SHA256 == b.SHA256 && (a.Size == b.Size || a.Size == 0 || b.Size == 0) {
		return nil
	}
	says := func(a Archive) string {
		if a.Size == 0 {
			return fmt.Sprintf("%s says sha256 %s", a.From, a.SHA256)
		}
		return fmt.Sprintf("%s says sha256 %s and %d bytes", a.From, a.SHA256, a.Size)
	}
	return failure.Errorf(failure.Content, "two sources disagree about %s: %s, %s: find out which one is right before you use either",
		fileOf(b.URL), says(a), says(b))
}

// ReadManifest reads a manifest of NVIDIA's redist folder and adds its release to the table. version is that of the
// driver that it must be of; "" takes any. A file whose checksum the table has differently is an error.
func (t *Table) ReadManifest(ctx context.Context, m Source, version string) (fresh *Table, r Release, cuda string, err error) {
	if m.Name == "" {
		m.Name = nvredist.Base + nvredist.ManifestName(version)
	}
	text, err := m.read(ctx, m.Name, nvredist.MaxManifest)
	var parsed *nvredist.Manifest
	if err == nil {
		if parsed, err = nvredist.Parse(text); err == nil && version != "" && parsed.Version != version {
			return nil, r, "", failure.Errorf(failure.Usage, "--redist %s is the manifest of driver %s, not of %s", m.Name, parsed.Version, version)
		}
		err = failure.Of(failure.Usage, err)
	}
	if err != nil {
		return nil, r, "", fmt.Errorf("--redist %s: %w", m.Name, err)
	}
	// The paths of a manifest are relative to its own folder; those of a file, to NVIDIA's.
	base := nvredist.Base
	if folder, file := path.Split(m.Address); file != "" && (strings.HasPrefix(folder, "https://") || strings.HasPrefix(folder, "http://")) {
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
				err = errors.Join(err, agree(old.named(), a))
			}
		}
	}
	branch := Branch{Name: BranchOf(r.Version), Releases: []Release{r}}
	if b, _ := t.Branch(branch.Name); b.CUDA == "" {
		branch.CUDA = parsed.CUDA
	}
	return t.With(&Table{Branches: []Branch{branch}}), r, parsed.CUDA, err
}

// CheckMatrix compares what a manifest says with the matrix: a file of the same name must have the same checksum and size.
func (r Release) CheckMatrix(m *matrix.Matrix) (err error) {
	for _, d := range m.Drivers {
		if matrix.CompareVersions(d.Version, r.Version) != 0 {
			continue
		}
		for _, f := range r.Archives {
			a := d.Archives[f.Arch]
			if name := componentNames[f.Component]; name != "" {
				a = d.Components[name][f.Arch]
			}
			if fileOf(a.URL) == fileOf(f.URL) {
				err = errors.Join(err, agree(Archive{From: "the matrix", SHA256: a.SHA256, Size: a.Size}, f.named()))
			}
		}
	}
	return err
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
