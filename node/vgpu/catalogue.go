package vgpu

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/driver-container/driver-container/distros/bounded"
)

// CatalogueName is the name of NVIDIA's catalogue in the folder of drivers' settings.
const CatalogueName = "vgpuDriverCatalog.yaml"

// Bounds of a catalogue.
const (
	maxCatalogue        = 4 << 20
	maxCatalogueDepth   = 16
	maxCatalogueEntries = 10_000 // branches, drivers, and entries of each list in them
)

// ErrCatalogue says that a catalogue cannot be used.
var ErrCatalogue = errors.New("not a usable vGPU driver catalogue")

// Catalogue says which guest drivers work with which host drivers. The licence portal has it beside the
// drivers. Keys that are not here are passed over: NVIDIA adds some.
type Catalogue struct {
	Version  int      `yaml:"version"`
	Date     string   `yaml:"date"`
	Branches []Branch `yaml:"branch"`
	Drivers  []Driver `yaml:"driver"`
}

// Branch is a branch of drivers, for hosts or for guests.
type Branch struct {
	Name  string      `yaml:"name"`
	Type  string      `yaml:"type"`
	Allow BranchLimit `yaml:"allow"`
	Deny  BranchLimit `yaml:"deny"`
}

// BranchLimit says for what a branch is allowed or denied; an empty list says nothing.
type BranchLimit struct {
	Branch  []string `yaml:"branch"` // of the other side
	Machine `yaml:",inline"`
}

// Driver is a release, for hosts or for guests.
type Driver struct {
	Version string      `yaml:"version"`
	Date    string      `yaml:"date"`
	Branch  string      `yaml:"branch"`
	Type    string      `yaml:"type"`
	OS      []string    `yaml:"os"`
	Allow   DriverLimit `yaml:"allow"`
	Deny    DriverLimit `yaml:"deny"`
}

// DriverLimit says for what a driver is allowed or denied; an empty list says nothing.
type DriverLimit struct {
	Driver []struct {
		Version string `yaml:"version"` // of the other side
	} `yaml:"driver"`
	Machine `yaml:",inline"`
}

// Machine says for which processors and GPUs a limit is.
type Machine struct {
	CPU []string `yaml:"cpu"` // "x86"
	GPU []struct {
		Device    string `yaml:"devid"` // "0x20b5"
		Subsystem string `yaml:"ssid"`
	} `yaml:"gpu"`
}

// The values of Type.
const (
	typeHost  = "host"
	typeGuest = "guest"
)

// ReadCatalogue reads a catalogue. The error wraps fs.ErrNotExist if there is none, else ErrCatalogue.
func ReadCatalogue(file string) (*Catalogue, error) {
	data, err := bounded.File(file, maxCatalogue)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read %s: %w", file, err)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w: %w", file, ErrCatalogue, err)
	}
	c, err := ParseCatalogue(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return c, nil
}

// ParseCatalogue reads the text of a catalogue. Errors are ErrCatalogue.
func ParseCatalogue(data []byte) (*Catalogue, error) {
	if len(data) > maxCatalogue {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrCatalogue, maxCatalogue)
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(
		loaderlimits.New(loaderlimits.DepthValue(maxCatalogueDepth), loaderlimits.AliasValue(0))))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCatalogue, err)
	}
	var tree yaml.Node
	if err := loader.Load(&tree); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCatalogue, err)
	}
	if aliased(&tree) {
		return nil, fmt.Errorf("%w: it has YAML aliases, by which a few lines stand for gigabytes", ErrCatalogue)
	}
	c := new(Catalogue)
	if err := tree.Decode(c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCatalogue, err)
	}
	if len(c.Branches) == 0 || len(c.Drivers) == 0 {
		return nil, fmt.Errorf("%w: it has %d branches and %d drivers", ErrCatalogue, len(c.Branches), len(c.Drivers))
	}
	if len(c.Branches) > maxCatalogueEntries || len(c.Drivers) > maxCatalogueEntries {
		return nil, fmt.Errorf("%w: it has more than %d branches or drivers", ErrCatalogue, maxCatalogueEntries)
	}
	return c, c.check()
}

func aliased(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, aliased)
}

// check refuses names and dates that messages could not show, and types that are not known.
func (c *Catalogue) check() error {
	plain := func(text string) bool {
		return len(text) <= 64 && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	}
	for i, b := range c.Branches {
		if b.Name == "" || !plain(b.Name) || b.Type != typeHost && b.Type != typeGuest {
			return fmt.Errorf("%w: branch %d: name %.80q, type %.80q: it needs a name, and the type %s or %s", ErrCatalogue, i+1, b.Name, b.Type, typeHost, typeGuest)
		}
		if len(b.Allow.Branch)+len(b.Deny.Branch)+len(b.Allow.GPU)+len(b.Deny.GPU) > maxCatalogueEntries {
			return fmt.Errorf("%w: branch %s has more than %d limits", ErrCatalogue, b.Name, maxCatalogueEntries)
		}
	}
	for i, d := range c.Drivers {
		if d.Version == "" || !plain(d.Version) || !plain(d.Date) || !plain(d.Branch) || d.Type != typeHost && d.Type != typeGuest {
			return fmt.Errorf("%w: driver %d: version %.80q, type %.80q: it needs a version, and the type %s or %s", ErrCatalogue, i+1, d.Version, d.Type, typeHost, typeGuest)
		}
		if len(d.Allow.Driver)+len(d.Deny.Driver)+len(d.Allow.GPU)+len(d.Deny.GPU) > maxCatalogueEntries {
			return fmt.Errorf("%w: driver %s has more than %d limits", ErrCatalogue, d.Version, maxCatalogueEntries)
		}
	}
	if !plain(c.Date) {
		return fmt.Errorf("%w: its date is %.80q", ErrCatalogue, c.Date)
	}
	return nil
}
