package redist

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

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
	driverShape    = regexp.MustCompile(`^[1-9][0-9]{2,3}(\.[0-9]{1,4}){1,2}$`)
	versionShape   = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$`)
	componentShape = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	sumShape       = regexp.MustCompile(`^[0-9a-f]{64}$`)
	pathShape      = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+-archive\.tar\.xz$`)
	cudaShape      = regexp.MustCompile(`^cuda([0-9]{1,3}\.[0-9]{1,3})$`)
)

// Parse reads a manifest. Unknown components and platforms are passed over. A known component with a field of
// another form is an error, and so is a driver whose version is not that of the manifest. Fields that
// manifests before 2023 lack may be missing.
func Parse(data []byte) (*Manifest, error) {
	if len(data) > MaxManifest {
		return nil, fmt.Errorf("%w: it has %d bytes: %w (at most %d)", ErrManifest, len(data), ErrTooLarge, MaxManifest)
	}
	m, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return m, nil
}

func parse(data []byte) (*Manifest, error) {
	fields, err := object(data, maxComponents)
	if err != nil {
		return nil, err
	}
	m, label := new(Manifest), ""
	for _, f := range fields {
		switch f.name {
		case "release_date":
			if m.Date, err = text(f.value); err == nil {
				_, err = time.Parse(time.DateOnly, m.Date)
			}
		case "release_label":
			label, err = text(f.value)
		case "release_product":
			var product string
			if product, err = text(f.value); err == nil && product != "nvidia-driver" {
				err = fmt.Errorf("%.80q is another product than nvidia-driver", product)
			}
		default:
			err = m.component(f)
		}
		if err != nil {
			return nil, fmt.Errorf("%.80s: %w", f.name, err)
		}
	}
	return m, m.checkVersions(label)
}

// checkVersions finds the version of the driver and compares what else names it.
func (m *Manifest) checkVersions(label string) error {
	driver, ok := m.Component(Driver)
	switch {
	case !ok:
		return fmt.Errorf("it has no component %s", Driver)
	case !driverShape.MatchString(driver.Version):
		return fmt.Errorf("%s: %.80q is no version of a driver, such as 535.261.03", Driver, driver.Version)
	case label != "" && label != driver.Version:
		return fmt.Errorf("release_label is %.80q, the version of %s is %s", label, Driver, driver.Version)
	}
	m.Version = driver.Version
	return nil
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

// component reads one component. Of cuda_compat, which goes into no image, only the names of the variants are
// read: they say which CUDA version the driver came with.
func (m *Manifest) component(f field) error {
	if !componentShape.MatchString(f.name) {
		return fmt.Errorf("this is no name of a component")
	}
	fields, err := object(f.value, maxComponents)
	if err != nil {
		return err
	}
	if f.name == "cuda_compat" {
		return m.compat(fields)
	}
	if !slices.Contains(Components(), f.name) {
		return nil
	}
	c := Component{Name: f.name}
	for _, part := range fields {
		if err := c.field(part); err != nil {
			return fmt.Errorf("%.80s: %w", part.name, err)
		}
	}
	if !versionShape.MatchString(c.Version) {
		return fmt.Errorf("%.80q is no version", c.Version)
	}
	m.Components = append(m.Components, c)
	return nil
}

func (c *Component) field(f field) (err error) {
	switch arch, platform := Archs[f.name]; {
	case f.name == "version":
		c.Version, err = text(f.value)
	case f.name == "license":
		c.Licence, err = text(f.value)
	case platform:
		var file File
		if file, err = parseFile(f.value); err == nil {
			file.Arch = arch
			c.Files = append(c.Files, file)
		}
	}
	return err
}

// compat reads the CUDA version off the variants of cuda_compat; several leave it open.
func (m *Manifest) compat(fields []field) error {
	for _, f := range fields {
		if _, platform := Archs[f.name]; !platform {
			continue
		}
		variants, err := object(f.value, maxVariants)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		for _, v := range variants {
			found := cudaShape.FindStringSubmatch(v.name)
			if found == nil {
				continue
			}
			if m.CUDA != "" && m.CUDA != found[1] {
				m.CUDA = ""
				return nil
			}
			m.CUDA = found[1]
		}
	}
	return nil
}

// parseFile reads the archive of a platform. A component of images has one, and no variants of it.
func parseFile(raw json.RawMessage) (File, error) {
	fields, err := object(raw, maxVariants)
	if err != nil {
		return File{}, err
	}
	var f File
	for _, part := range fields {
		switch part.name {
		case "relative_path":
			if f.Path, err = text(part.value); err == nil && (!pathShape.MatchString(f.Path) || path.Clean(f.Path) != f.Path) {
				err = fmt.Errorf("%.200q is no path of an archive below the manifest's folder", f.Path)
			}
		case "sha256":
			if f.SHA256, err = text(part.value); err == nil && !sumShape.MatchString(f.SHA256) {
				err = fmt.Errorf("%.80q is no sha256", f.SHA256)
			}
		case "size":
			f.Size, err = size(part.value)
		case "md5":
		default:
			if strings.HasPrefix(part.name, "cuda") {
				err = fmt.Errorf("it has variants for versions of CUDA, of which none is the driver's")
			}
		}
		if err != nil {
			return File{}, fmt.Errorf("%.80s: %w", part.name, err)
		}
	}
	for _, missing := range []struct{ name, value string }{{"relative_path", f.Path}, {"sha256", f.SHA256}} {
		if missing.value == "" {
			return File{}, fmt.Errorf("it has no %s", missing.name)
		}
	}
	return f, nil
}
