package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kmsg"
)

// parse decodes a status and refuses what no instance writes: its reader prints it as root, unloads
// the modules that it names, and removes its device files. Of the kernel's own modules it keeps the
// known ones.
func parse(data []byte) (Snapshot, error) {
	var raw any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&raw); err != nil {
		return Snapshot{}, err
	}
	data, err := json.Marshal(printable(raw))
	if err != nil {
		return Snapshot{}, err
	}
	var st Snapshot
	if err := json.Unmarshal(data, &st); err != nil {
		return Snapshot{}, err
	}
	if err := st.check(); err != nil {
		return Snapshot{}, err
	}
	if st.Up != nil {
		st.Up.InTree = slices.DeleteFunc(
			st.Up.InTree,
			func(name string) bool { return !slices.Contains(inTree, name) },
		)
	}
	return st, nil
}

// printable makes every text of a decoded document fit for a terminal.
func printable(v any) any {
	switch v := v.(type) {
	case string:
		return kmsg.PrintableLines(v)
	case []any:
		for i := range v {
			v[i] = printable(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = printable(v[key])
		}
	}
	return v
}

// inTree are the modules of the kernel that NVIDIA's modules need, with what these need. Only they
// are unloaded because a record says so: any other one may be in use although nothing refers to it.
var inTree = []string{
	"agpgart", "backlight", "cec", "drm", "drm_client_lib", "drm_kms_helper", "drm_panel_orientation_quirks", "drm_ttm_helper", "ecc",
	"ecdh_generic", "fb", "fb_sys_fops", "fbdev", "i2c_algo_bit", "i2c_core", "ipmi_devintf", "ipmi_msghandler", "rc_core", "syscopyarea",
	"sysfillrect", "sysimgblt", "ttm", "video", "wmi",
}

func (st Snapshot) check() error {
	wrong := ""
	switch d := st.Up; {
	case st.Schema != Schema:
		return fmt.Errorf(
			"it has schema %d, this program knows %d: driver-entrypoint of another version wrote it, or another program; use nvidia-driver of its image",
			st.Schema,
			Schema,
		)
	case st.State != "" && !slices.Contains(States(), st.State):
		wrong = fmt.Sprintf("state %.80q", st.State)
	case st.PID < 0:
		wrong = fmt.Sprintf("pid %d", st.PID)
	case d == nil:
	case !word(d.Version) || !word(d.RootID):
		wrong = fmt.Sprintf("version %.80q of root %.80q", d.Version, d.RootID)
	case !slices.Contains([]string{"", driverinfo.Open, driverinfo.Proprietary}, d.Flavour):
		wrong = fmt.Sprintf("flavour %.80q", d.Flavour)
	case d.RootDir != "" && (!clean(d.RootDir) || filepath.Base(filepath.Dir(d.RootDir)) != "roots"):
		wrong = fmt.Sprintf("driver root %.80q", d.RootDir)
	default:
		return d.checkParts()
	}
	if wrong != "" {
		return fmt.Errorf("no driver container writes %s", wrong)
	}
	return nil
}

// checkParts refuses modules and device files that are not NVIDIA's.
func (d Driver) checkParts() error {
	known := slices.Concat(driverinfo.Modules(), driverinfo.Companions())
	for _, m := range d.Modules {
		file, _, _ := strings.Cut(filepath.Base(m.File), ".ko")
		if !slices.ContainsFunc(known, func(name string) bool { return kmod.ModuleName(name) == m.Name }) ||
			m.File != "" && (!clean(m.File) || kmod.ModuleName(file) != m.Name) ||
			!word(m.SrcVersion) ||
			!word(m.SHA256) {
			return fmt.Errorf(
				"no driver container writes module %.80q of file %.80q",
				m.Name,
				m.File,
			)
		}
	}
	for _, n := range d.Nodes {
		if err := n.Check(); err != nil {
			return err
		}
	}
	return nil
}

// clean reports whether a path is one that this program made.
func clean(path string) bool { return filepath.IsAbs(path) && filepath.Clean(path) == path }

// word reports whether a text is a version, a digest or a name.
func word(s string) bool {
	const most = 200
	return len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') &&
			!strings.ContainsRune("._+~:-", r)
	})
}
