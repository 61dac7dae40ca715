package releases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
)

// NVIDIA publishes a manifest of each driver (redistrib_<version>.json), and a tar.xz archive for
// each component and platform. The driver itself is one of the components. The paths in a manifest
// are relative to its own folder.
const (
	redistFolder = redistHost + "nvidia-driver/redist/"
	redistDriver = "nvidia_driver" // the driver itself, as a component
)

// componentNames are the components of manifests that images use, with their names in the matrix.
var componentNames = map[string]string{
	redistDriver: "", "fabricmanager": matrix.FabricManager, "imex": matrix.IMEX, "libnvidia_nscq": matrix.NSCQ,
	"nvlsm": matrix.NVLSM, "libnvsdm": matrix.NVSDM,
}

// errManifest says that a text is no manifest.
var errManifest = failure.New(failure.Usage, "no manifest of driver archives")

// Bounds in bytes of a manifest, and of an archive that it names. That of 620.70.06 has some 12 KB.
const (
	maxManifest = 1 << 20
	maxFile     = 8 << 30
)

// The forms of values. They are narrow on purpose: paths become part of matrix.yaml.
var (
	pathShape = regexp.MustCompile(
		`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+-archive\.tar\.xz$`,
	)
	cudaLabel = regexp.MustCompile(`^cuda([0-9]{1,3}\.[0-9]{1,3})$`)
	httpURL   = regexp.MustCompile(`^https?://`)
)

// parseManifest reads a manifest: its release, whose archives have paths in place of addresses.
// Unknown components and platforms are passed over. A known component with a field of another form
// is an error. Fields that manifests before 2023 lack may be missing. The manifest is not signed.
func parseManifest(data []byte) (r Release, err error) {
	wrong := func(format string, args ...any) (Release, error) {
		return r, fmt.Errorf("%w: %w", errManifest, fmt.Errorf(format, args...))
	}
	var fields map[string]json.RawMessage
	var about struct {
		Date    string                   `json:"release_date"`
		Label   string                   `json:"release_label"`
		Product string                   `json:"release_product"`
		Driver  struct{ Version string } `json:"nvidia_driver"`
	}
	if err := errors.Join(json.Unmarshal(data, &fields), json.Unmarshal(data, &about)); err != nil {
		return wrong("%w", err)
	}
	r.Version = about.Driver.Version
	r.Date = about.Date
	r.CUDA = compatible(fields["cuda_compat"])
	switch _, err := time.Parse(time.DateOnly, r.Date); {
	case fields[redistDriver] == nil:
		return wrong("it has no component %s", redistDriver)
	case !matrix.HasForm("version", r.Version):
		return wrong("%s: %.80q is no version of a driver, such as 535.261.03", redistDriver, r.Version)
	case about.Label != "" && about.Label != r.Version:
		return wrong("release_label is %.80q, the version of %s is %s", about.Label, redistDriver, r.Version)
	case about.Product != "" && about.Product != "nvidia-driver":
		return wrong("%.80q is another product than nvidia-driver", about.Product)
	case r.Date != "" && err != nil:
		return wrong("release_date: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(componentNames)) {
		if fields[name] == nil {
			continue
		}
		archives, err := componentArchives(name, fields[name])
		if err != nil {
			return wrong("%s: %w", name, err)
		}
		r.Archives = append(r.Archives, archives...)
	}
	return r, nil
}

// componentArchives reads one component. One of images has one archive for a platform, and no
// variants of it.
func componentArchives(name string, raw json.RawMessage) (all []Archive, err error) {
	type file struct {
		Path   string `json:"relative_path"`
		SHA256 string
		Size   json.Number
	}
	var c struct {
		Version string
		AMD64   *file `json:"linux-x86_64"`
		ARM64   *file `json:"linux-sbsa"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	if !matrix.HasForm("version-of", c.Version) {
		return nil, fmt.Errorf("%.80q is no version", c.Version)
	}
	for i, f := range []*file{c.AMD64, c.ARM64} {
		if f == nil {
			continue
		}
		platform := matrix.Platform(archs[i])
		size, err := f.Size.Int64()
		switch {
		case !pathShape.MatchString(f.Path) || path.Clean(f.Path) != f.Path:
			return nil, fmt.Errorf(
				"%s: %.200q is no path of an archive below the manifest's folder",
				platform,
				f.Path,
			)
		case !matrix.HasForm("digest", f.SHA256):
			return nil, fmt.Errorf("%s: %.80q is no sha256", platform, f.SHA256)
		case f.Size != "" && (err != nil || size <= 0 || size > maxFile):
			return nil, fmt.Errorf("%s: %.40q is no size of an archive in bytes", platform, f.Size)
		}
		all = append(all, Archive{
			Component: name,
			Version:   c.Version,
			Arch:      archs[i],
			URL:       f.Path,
			SHA256:    f.SHA256,
			Size:      size,
		})
	}
	return all, nil
}

// compatible reads the CUDA version that the driver came with off the names of the variants of
// cuda_compat, which goes into no image. Several leave it open.
func compatible(raw json.RawMessage) (cuda string) {
	// by platform; other fields are no objects, and are passed over
	var variants map[string]map[string]json.RawMessage
	_ = json.Unmarshal(raw, &variants)
	for _, arch := range archs {
		for name := range variants[matrix.Platform(arch)] {
			found := cudaLabel.FindStringSubmatch(name)
			switch {
			case found == nil:
			case cuda != "" && cuda != found[1]:
				return ""
			default:
				cuda = found[1]
			}
		}
	}
	return cuda
}

// ReadManifest reads a manifest of NVIDIA's redist folder and adds its release to the table.
// version is that of the driver that it must be of; "" takes any. A file whose checksum the table
// has differently is an error.
func (t *Table) ReadManifest(
	ctx context.Context,
	m Source,
	version string,
) (merged *Table, r Release, err error) {
	if m.Name == "" {
		m.Name = redistFolder + "redistrib_" + version + ".json"
	}
	text, err := m.read(ctx, m.Name, maxManifest)
	if err != nil {
		return nil, r, fmt.Errorf("--redist %s: %w", m.Name, err)
	}
	r, err = parseManifest(text)
	if err != nil {
		return nil, r, fmt.Errorf("--redist %s: %w", m.Name, err)
	}
	if version != "" && r.Version != version {
		return nil, r, failure.Errorf(failure.Usage, "--redist %s is the manifest of driver %s, not of %s",
			m.Name, r.Version, version)
	}
	// The paths of a manifest are relative to its own folder; those of a file, to NVIDIA's.
	base := redistFolder
	if folder, _ := path.Split(m.Address); httpURL.MatchString(folder) {
		base = folder
	}
	have, _ := t.Release(r.Version)
	for i := range r.Archives {
		a := &r.Archives[i]
		a.URL = base + a.URL
		a.From = "the manifest " + Shown(m.Name)
		if old, ok := have.Archive(a.Component, a.Arch); ok && fileOf(old.URL) == fileOf(a.URL) {
			err = errors.Join(err, agree(old, *a))
		}
	}
	branch := Branch{Name: BranchOf(r.Version), Releases: []Release{r}}
	if b, _ := t.Branch(branch.Name); b.CUDA == "" {
		branch.CUDA = r.CUDA
	}
	return t.Merge(&Table{Branches: []Branch{branch}}), r, err
}

// CheckMatrix compares what a manifest says with the matrix: a file of the same name must have the
// same checksum and size.
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
				ours := Archive{From: "the matrix", SHA256: a.SHA256, Size: a.Size}
				err = errors.Join(err, agree(ours, f))
			}
		}
	}
	return err
}

// agree refuses what two sources say of a file if both cannot be right. None of both is used.
func agree(a, b Archive) error {
	if a.SHA256 == b.SHA256 && (a.Size == b.Size || a.Size == 0 || b.Size == 0) {
		return nil
	}
	says := func(a Archive) string {
		text := fmt.Sprintf("%s says sha256 %s", a.From, a.SHA256)
		if a.Size != 0 {
			text += fmt.Sprintf(" and %d bytes", a.Size)
		}
		return text
	}
	return failure.Errorf(
		failure.Content,
		"two sources disagree about %s: %s, %s: find out which one is right before you use either",
		fileOf(b.URL),
		says(a),
		says(b),
	)
}

// Shown is an address for people and for comments: without what may be secret. A file is shown by
// its name.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Scheme == "file" {
		return fileOf(address)
	}
	u.User = nil
	u.RawQuery = ""
	u.Fragment = ""
	return u.String()
}

// fileOf is what stands behind the last slash.
func fileOf(address string) string { return address[strings.LastIndex(address, "/")+1:] }
