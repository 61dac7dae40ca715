package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/node/driverroot"
)

// IndexFile is the file of a state folder that lists the drivers which were baked into it.
const IndexFile = "baked.json"

const (
	indexSchema = 1
	maxIndex    = 1 << 20
	maxBaked    = 16 // drivers in a folder
)

// Index lists the drivers that were baked into a state folder. Bake writes an entry last, so that
// a driver without one is not whole. A start reads it, if the driver of its own image does not fit
// the node.
type Index struct {
	// version of this format, which grows when a field is added, or changes its meaning
	Schema  int     `json:"schema"`
	Drivers []Baked `json:"drivers"`

	unknown bool // what was baked: the file cannot be read
}

// Baked is a driver in a state folder.
type Baked struct {
	Driver  string        `json:"driver"`
	OS      string        `json:"os"`
	Arch    string        `json:"arch"`
	VGPU    string        `json:"vgpu,omitempty"` // as in the image's description
	ID      string        `json:"id"`             // of the image
	Root    string        `json:"root"`           // folder of the driver root, below the state folder
	Kernels []BakedKernel `json:"kernels"`
}

// BakedKernel is a kernel whose modules need no compiling.
type BakedKernel struct {
	Release string `json:"release"`
	Flavour string `json:"flavour"`
	// "image": the image has them itself; "cache": they are in the folder
	Source  string            `json:"source"`
	Folder  string            `json:"folder,omitempty"` // of the modules, below the state folder
	Signer  string            `json:"signer,omitempty"`
	Modules map[string]string `json:"modules"` // name -> sha256
}

// replaces reports whether a driver takes the place of another one: there is one image of each
// driver for a system.
func (b Baked) replaces(old Baked) bool {
	return b.Driver == old.Driver && b.OS == old.OS && b.Arch == old.Arch && b.VGPU == old.VGPU
}

// readIndex reads the index of a state folder. It has no drivers if there is none. The folder may
// belong to other people's machine image, and a start executes programs in it: the index is only
// believed if nobody but the user of this process can have written it.
func readIndex(dir string) (Index, error) {
	index := Index{Schema: indexSchema}
	err := index.read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return index, nil
	}
	if err != nil {
		return Index{unknown: true}, fmt.Errorf("read the list of baked drivers %s: %w",
			filepath.Join(dir, IndexFile), err)
	}
	return index, nil
}

func (i *Index) read(dir string) error {
	state, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer state.Close()
	err = guarded(state, IndexFile, ".") // the file first: the rest matters if it is there
	if err != nil {
		return err
	}
	text, err := bounded.FSFile(state.FS(), IndexFile, maxIndex)
	if err != nil {
		return err
	}
	err = i.parse(text)
	if err != nil {
		return fmt.Errorf("%w; restore the file, or remove it and bake the drivers again: "+
			"without it they are old drivers, which a start removes", err)
	}
	return nil
}

func (i *Index) parse(text []byte) error {
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields() // else a damaged name of a field would hide what it has
	err := strict.Decode(i)
	if err != nil {
		return err
	}
	if i.Schema != indexSchema {
		return fmt.Errorf("schema %d is not %d: another version of this program wrote it",
			i.Schema, indexSchema)
	}
	if len(i.Drivers) > maxBaked {
		return fmt.Errorf("it has %d drivers, more than %d", len(i.Drivers), maxBaked)
	}
	for n, b := range i.Drivers {
		folder, err := driverroot.Folder(b.Driver, b.ID)
		if err != nil {
			return err
		}
		if b.Root != folder {
			return fmt.Errorf("the root of driver %s is %q, not %s", b.Driver, b.Root, folder)
		}
		if slices.ContainsFunc(i.Drivers[:n], b.replaces) {
			return fmt.Errorf("it has driver %s for %s twice", b.Driver, b.OS)
		}
		for _, k := range b.Kernels {
			if k.Folder != "" && filepath.Dir(k.Folder) != modulesDir {
				return fmt.Errorf("the modules of driver %s are in %q, not in %s",
					b.Driver, k.Folder, modulesDir)
			}
		}
	}
	return nil
}

// guarded returns an error if a path in a folder is a link, or if others than root, or the user of
// this process, may write it.
func guarded(folder *os.Root, paths ...string) error {
	for _, path := range paths {
		st, err := folder.Lstat(path)
		if err != nil {
			return err
		}
		owner, ok := st.Sys().(*syscall.Stat_t)
		if !ok || st.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link", filepath.Join(folder.Name(), path))
		}
		if owner.Uid != 0 && int(owner.Uid) != os.Geteuid() || st.Mode()&0o022 != 0 {
			return fmt.Errorf("%[1]s may be written by others: it belongs to user %[2]d and has mode %[3]s; "+
				"if its content is trusted, chown root %[1]s; chmod go-w %[1]s",
				filepath.Join(folder.Name(), path), owner.Uid, st.Mode())
		}
	}
	return nil
}

// add returns the index with a driver, and the one that it replaces.
func (i Index) add(b Baked) (changed Index, old *Baked) {
	changed.Schema = indexSchema
	for _, have := range i.Drivers {
		if b.replaces(have) {
			old = &have
			continue
		}
		changed.Drivers = append(changed.Drivers, have)
	}
	changed.Drivers = append(changed.Drivers, b)
	return changed, old
}

func (i Index) write(dir string) error {
	if len(i.Drivers) > maxBaked {
		return fmt.Errorf("%s would have %d drivers, more than %d: bake into another folder",
			dir, len(i.Drivers), maxBaked)
	}
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	return atomicwriter.WriteFile(filepath.Join(dir, IndexFile), append(text, '\n'), 0o644)
}

// roots returns the folders of the driver roots, or the one that has them if they are not known.
func (i Index) roots(dir string) (roots []string) {
	if i.unknown {
		return []string{dir}
	}
	for _, b := range i.Drivers {
		roots = append(roots, filepath.Join(dir, b.Root))
	}
	return roots
}

// modules returns one path in each set of modules, as kbuild.Cache.Prune takes them, or the folder
// that has them if they are not known.
func (i Index) modules(dir string) (files []string) {
	if i.unknown {
		return []string{dir}
	}
	for _, b := range i.Drivers {
		for _, k := range b.Kernels {
			files = append(files, filepath.Join(dir, k.Folder, "nvidia.ko"))
		}
	}
	return files
}
