// Package nvredist reads what NVIDIA publishes of a driver beside the .run archive: a manifest
// (redistrib_<version>.json) and one tar.xz archive for each component and platform. The driver itself is one
// of the components, and the programs of machines with NVSwitch exist in this form only.
//
// The package knows formats: it downloads nothing, and does not decide which archive belongs into an image.
// The manifest is not signed. A caller may take a sha256 from it as one opinion among others; what a build
// uses is pinned in the matrix.
package nvredist

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"time"
)

// Base is where NVIDIA publishes the manifests. The paths in a manifest are relative to its own folder.
const Base = "https://developer.download.nvidia.com/compute/nvidia-driver/redist/"

// ErrManifest says that a text is no manifest.
var ErrManifest = errors.New("no manifest of driver archives")

// Bounds in bytes of a manifest, and of an archive that it names. That of 620.70.06 has some 12 KB.
const (
	MaxManifest = 1 << 20
	maxFile     = 8 << 30
)

// ManifestName is the name of a driver's manifest in the folder.
func ManifestName(version string) string { return "redistrib_" + version + ".json" }

// Archs maps the platforms of images to Go's names of architectures.
var Archs = map[string]string{"linux-x86_64": "amd64", "linux-sbsa": "arm64"}

// Platform returns NVIDIA's name of an architecture: linux-sbsa for arm64.
func Platform(arch string) string {
	for platform, known := range Archs {
		if known == arch {
			return platform
		}
	}
	return ""
}

// The components that images use, by the names of the manifest.
const (
	Driver        = "nvidia_driver"
	FabricManager = "fabricmanager"
	IMEX          = "imex"
	NSCQ          = "libnvidia_nscq"
	NVSDM         = "libnvsdm"
	NVLSM         = "nvlsm"
)

// Components returns the components that images use, the driver first.
func Components() []string { return []string{Driver, FabricManager, IMEX, NSCQ, NVLSM, NVSDM} }

// Manifest is the part of a manifest that concerns images.
type Manifest struct {
	Version    string // of the driver
	Date       string // "2024-06-04"; "" when the manifest has none
	CUDA       string // that the driver came with, "13.5"; "" when the manifest does not say
	Components []Component
}

// Component is one of [Components] on the platforms of images.
type Component struct {
	Name    string
	Version string // as in the manifest: nvlsm has versions of its own
	Licence string // "NVIDIA Driver"
	Files   []File // at most one for each architecture
}

// File is one archive.
type File struct {
	Arch   string // "amd64", "arm64"
	Path   string // relative to the folder of the manifest
	SHA256 string
	Size   int64 // bytes
}

// The forms of values. They are narrow on purpose: versions and paths become part of matrix.yaml.
var (
	driverShape  = regexp.MustCompile(`^[1-9][0-9]{2,3}(\.[0-9]{1,4}){1,2}$`)
	versionShape = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$`)
	sumShape     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	pathShape    = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+-archive\.tar\.xz$`)
	cudaShape    = regexp.MustCompile(`^cuda([0-9]{1,3}\.[0-9]{1,3})$`)
)

// Parse reads a manifest. Unknown components and platforms are passed over. A known component with a field of
// another form is an error, and so is a driver whose version is not that of the manifest. Fields that
// manifests before 2023 lack may be missing.
func Parse(data []byte) (m *Manifest, err error) {
	if m, err = parse(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return m, nil
}

func parse(data []byte) (*Manifest, error) {
	if len(data) > MaxManifest {
		return nil, fmt.Errorf("it has %d bytes (at most %d)", len(data), MaxManifest)
	}
	var fields map[string]json.RawMessage
	var about struct {
		Date    string `json:"release_date"`
		Label   string `json:"release_label"`
		Product string `json:"release_product"`
	}
	if err := errors.Join(json.Unmarshal(data, &fields), json.Unmarshal(data, &about)); err != nil {
		return nil, err
	}
	m := &Manifest{Date: about.Date, CUDA: compat(fields["cuda_compat"])}
	for _, name := range Components() {
		if raw, ok := fields[name]; ok {
			c, err := component(name, raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			m.Components = append(m.Components, c)
		}
	}
	driver, ok := m.Component(Driver)
	m.Version = driver.Version
	switch _, err := time.Parse(time.DateOnly, m.Date); {
	case !ok:
		return nil, fmt.Errorf("it has no component %s", Driver)
	case !driverShape.MatchString(m.Version):
		return nil, fmt.Errorf("%s: %.80q is no version of a driver, such as 535.261.03", Driver, m.Version)
	case about.Label != "" && about.Label != m.Version:
		return nil, fmt.Errorf("release_label is %.80q, the version of %s is %s", about.Label, Driver, m.Version)
	case about.Product != "" && about.Product != "nvidia-driver":
		return nil, fmt.Errorf("%.80q is another product than nvidia-driver", about.Product)
	case m.Date != "" && err != nil:
		return nil, fmt.Errorf("release_date: %w", err)
	}
	return m, nil
}

// Component returns a component by its name.
func (m *Manifest) Component(name string) (Component, bool) {
	i := slices.IndexFunc(m.Components, func(c Component) bool { return c.Name == name })
	if i < 0 {
		return Component{}, false
	}
	return m.Components[i], true
}

// File returns the archive of a component for an architecture.
func (c Component) File(arch string) (File, bool) {
	i := slices.IndexFunc(c.Files, func(f File) bool { return f.Arch == arch })
	if i < 0 {
		return File{}, false
	}
	return c.Files[i], true
}

// component reads one component. One of images has one archive for a platform, and no variants of it.
func component(name string, raw json.RawMessage) (Component, error) {
	var fields struct {
		Version, License string
		Platforms        map[string]json.RawMessage `json:"-"`
	}
	c := Component{Name: name}
	if err := errors.Join(json.Unmarshal(raw, &fields), json.Unmarshal(raw, &fields.Platforms)); err != nil {
		return c, err
	}
	if c.Version, c.Licence = fields.Version, fields.License; !versionShape.MatchString(c.Version) {
		return c, fmt.Errorf("%.80q is no version", c.Version)
	}
	for _, platform := range []string{"linux-x86_64", "linux-sbsa"} {
		raw, ok := fields.Platforms[platform]
		if !ok {
			continue
		}
		var f struct {
			Path string `json:"relative_path"`
			Sum  string `json:"sha256"`
			Size json.Number
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			return c, fmt.Errorf("%s: %w", platform, err)
		}
		size, err := f.Size.Int64()
		switch {
		case !pathShape.MatchString(f.Path) || path.Clean(f.Path) != f.Path:
			return c, fmt.Errorf("%s: %.200q is no path of an archive below the manifest's folder", platform, f.Path)
		case !sumShape.MatchString(f.Sum):
			return c, fmt.Errorf("%s: %.80q is no sha256", platform, f.Sum)
		case f.Size != "" && (err != nil || size <= 0 || size > maxFile):
			return c, fmt.Errorf("%s: %.40q is no size of an archive in bytes", platform, f.Size)
		}
		c.Files = append(c.Files, File{Archs[platform], f.Path, f.Sum, size})
	}
	return c, nil
}

// compat reads the CUDA version that the driver came with off the names of the variants of cuda_compat, which
// goes into no image. Several leave it open.
func compat(raw json.RawMessage) (cuda string) {
	var platforms map[string]json.RawMessage
	_ = json.Unmarshal(raw, &platforms) // it may be missing
	for platform := range Archs {
		var variants map[string]json.RawMessage
		_ = json.Unmarshal(platforms[platform], &variants)
		for name := range variants {
			found := cudaShape.FindStringSubmatch(name)
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
