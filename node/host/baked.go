package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

const (
	bakedFile   = "baked.json" // in the state folder
	bakedSchema = 1
	maxBaked    = 1 << 20
)

// Baked is the list of what Bake put into a state folder. It is for people and for the log of a start: what
// is in the folder is used as far as it fits and is intact, whatever the list says.
type Baked struct {
	Schema   int           `json:"schema"`
	Complete bool          `json:"complete"` // false while Bake works, and after it was interrupted
	Driver   string        `json:"driver"`
	OS       string        `json:"os"`
	Arch     string        `json:"arch"`
	ID       string        `json:"id"`   // of the image
	Root     string        `json:"root"` // folder of the driver root, below the state folder
	Kernels  []BakedKernel `json:"kernels"`
}

// BakedKernel is a kernel whose modules need no compiling.
type BakedKernel struct {
	Release string            `json:"release"`
	Flavour string            `json:"flavour"`
	Source  string            `json:"source"`           // "image": the image has them itself; "cache": they are in the folder
	Folder  string            `json:"folder,omitempty"` // of the modules, below the state folder
	Signer  string            `json:"signer,omitempty"`
	Modules map[string]string `json:"modules"` // name -> sha256
}

// readBaked reads the list in a state folder. The error wraps fs.ErrNotExist if nothing was baked there.
func readBaked(dir string) (Baked, error) {
	text, err := bounded.File(filepath.Join(dir, bakedFile), maxBaked)
	if err != nil {
		return Baked{}, err
	}
	return parseBaked(text)
}

func parseBaked(text []byte) (b Baked, err error) {
	if len(text) > maxBaked {
		return Baked{}, fmt.Errorf("%s is larger than %d bytes", bakedFile, maxBaked)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return Baked{}, fmt.Errorf("%s: %w", bakedFile, err)
	}
	if b.Schema != bakedSchema {
		return Baked{}, fmt.Errorf("%s has schema %d, this program knows %d", bakedFile, b.Schema, bakedSchema)
	}
	return b, nil
}

// write replaces the list in a state folder.
func (b Baked) write(dir string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicwriter.WriteFile(filepath.Join(dir, bakedFile), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the list of what is baked: %w", err)
	}
	return nil
}

// unfit returns why what was baked does not serve a driver: "" if it should.
func (b Baked) unfit(info driverinfo.Description, flavour, release string) string {
	switch {
	case !b.Complete:
		return "the bake was interrupted: run it again"
	case b.Driver != info.Driver:
		return fmt.Sprintf("it has driver %.40s, this image has %s", b.Driver, info.Driver)
	case b.ID != info.ID:
		return fmt.Sprintf("it was made from another image of driver %s (%.12s, this one is %.12s)", info.Driver, b.ID, info.ID)
	}
	var kernels []string
	for _, k := range b.Kernels {
		if k.Release == release && k.Flavour == flavour {
			return ""
		}
		kernels = append(kernels, fmt.Sprintf("%.64s (%.16s)", k.Release, k.Flavour))
	}
	const most = 8
	return fmt.Sprintf("it has modules for %s, and this node needs %s (%s)", strings.Join(kernels[:min(len(kernels), most)], ", "), release, flavour)
}

// explainBaked returns how the baked content of a state folder compares with what a node needs, for the log:
// "" if nothing was baked there.
func explainBaked(dir string, info driverinfo.Description, flavour, release string) (reason string, fits bool) {
	b, err := readBaked(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false
	case err != nil:
		return err.Error(), false
	}
	reason = b.unfit(info, flavour, release)
	return reason, reason == ""
}

// add replaces the entry of a kernel.
func (b *Baked) add(dir, release, source string, set *kbuild.Set) {
	k := BakedKernel{Release: release, Flavour: set.Key.Flavour, Source: source, Signer: set.SignedBy(), Modules: map[string]string{}}
	if rel, err := filepath.Rel(dir, set.Dir); err == nil && filepath.IsLocal(rel) {
		k.Folder = rel
	}
	for _, f := range set.Modules {
		k.Modules[f.Name] = f.SHA256
	}
	b.Kernels = append(slices.DeleteFunc(b.Kernels, func(o BakedKernel) bool { return o.Release == release && o.Flavour == k.Flavour }), k)
}
