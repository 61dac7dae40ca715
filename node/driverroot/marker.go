package driverroot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

// markerPath is a file in every staged root that describes it; no image has it. It is the last file
// that is written.
const markerPath = "usr/share/nvidia-driver/staged.json"

const (
	markerSchema = 1
	maxMarker    = 1 << 20
	maxChecked   = 10000
)

// marker describes a staged root. Checked are the files that a reuse checks by size: those that
// clients load. Digests of all files would cost the whole advantage of a second start.
type marker struct {
	Schema  int              `json:"schema"`
	Version string           `json:"version"`
	ID      string           `json:"id"`
	Checked map[string]int64 `json:"checked"`
	// the boot in which it was staged, until it is on the disk: see Sync
	Boot string `json:"boot,omitempty"`
}

// write replaces the marker.
func (m marker) write(root *os.Root) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	err = root.MkdirAll(path.Dir(markerPath), 0o755)
	if err != nil {
		return err
	}
	return writeFile(root, markerPath, string(text)+"\n")
}

func parseMarker(text []byte) (marker, error) {
	var m marker
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	if m.Schema != markerSchema || len(m.Checked) == 0 || len(m.Checked) > maxChecked {
		return m, fmt.Errorf(
			"schema %d with %d files to check: written by another version of this program",
			m.Schema,
			len(m.Checked),
		)
	}
	return m, nil
}

func readMarker(root *os.Root) (marker, error) {
	text, err := bounded.FSFile(root.FS(), markerPath, maxMarker)
	if err != nil {
		return marker{}, err
	}
	m, err := parseMarker(text)
	if err != nil {
		return m, fmt.Errorf("%s: %w", markerPath, err)
	}
	return m, nil
}

// IsStaged reports whether a folder is a staged root, and no image.
func IsStaged(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, markerPath))
	return err == nil
}

// Check returns why a folder is not a whole staged root of a driver and an image; nil when it is.
func Check(dir, version, id string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return checkIntact(root, version, id)
}

// checkIntact returns how a staged root differs from its marker; nil when the root can be used.
func checkIntact(root *os.Root, version, id string) error {
	m, err := readMarker(root)
	if err != nil {
		return err
	}
	if m.Version != version || m.ID != id {
		return fmt.Errorf("it is of driver %s, identity %.12s", m.Version, m.ID)
	}
	if m.Boot != "" {
		if boot, err := BootID(); err != nil || m.Boot != boot {
			return cmp.Or(err, errNotSynced)
		}
	}
	for name, size := range m.Checked {
		st, err := root.Lstat(name)
		if err != nil {
			return err
		}
		if !st.Mode().IsRegular() || st.Size() != size {
			return fmt.Errorf("%s has %d bytes, not %d", name, st.Size(), size)
		}
	}
	return nil
}

// libraryDirs are the folders in which the operator's validator, the device plugin and the DRA
// driver look for libraries. They use no ld.so.cache and no other folders.
var libraryDirs = []string{
	"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu",
	"lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
}

// toCheck returns the driver's libraries and programs in a root with their sizes.
func toCheck(root *os.Root, version string) (map[string]int64, error) {
	checked := map[string]int64{}
	add := func(name string, st fs.FileInfo) {
		if st.Mode().IsRegular() {
			checked[name] = st.Size()
		}
	}
	for _, dir := range libraryDirs {
		entries, _ := fs.ReadDir(root.FS(), dir) //nolint:errcheck // each system has some of them
		for _, e := range entries {
			if strings.Contains(e.Name(), ".so.") && strings.HasSuffix(e.Name(), version) {
				if st, err := e.Info(); err == nil {
					add(path.Join(dir, e.Name()), st)
				}
			}
		}
	}
	for _, name := range []string{"usr/bin/nvidia-smi", "usr/sbin/ldconfig", "sbin/ldconfig", "usr/bin/kmod", "bin/kmod"} {
		if st, err := root.Lstat(name); err == nil {
			add(name, st)
		}
	}
	if len(checked) == 0 {
		return nil, fmt.Errorf(
			"the image has no library of driver %s: is this a driver image?",
			version,
		)
	}
	return checked, nil
}
