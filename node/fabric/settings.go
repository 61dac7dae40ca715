package fabric

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Modes of FABRIC_MODE.
const (
	ModeFull   = "0" // bare metal, or all GPUs and switches in one virtual machine
	ModeShared = "1" // this machine serves virtual machines that share the switches
	ModeVGPU   = "2" // vGPU multitenancy
)

// maxConfig bounds a configuration file.
const maxConfig = 1 << 20

const modeKey = "FABRIC_MODE"

// settings returns what changes the configuration file: the environment's settings, with
// FABRIC_MODE.
func (f Facts) settings() (map[string]string, error) {
	if err := checkSettings(f.Settings); err != nil {
		return nil, err
	}
	// only the exit code of the program that forks says that the fabric was set up
	all := map[string]string{"DAEMONIZE": "1"}
	maps.Copy(all, f.Settings)
	if f.Mode == "" {
		return all, nil
	}
	if other, set := all[modeKey]; set && other != f.Mode {
		return nil, fmt.Errorf(
			"--fabric-mode (FABRIC_MODE) is %s and NVFM_CONFIG_FABRIC_MODE is %q: set one of them",
			f.Mode,
			other,
		)
	}
	all[modeKey] = f.Mode
	return all, nil
}

// checkSettings refuses names and values that are not valid, and settings that the supervisor
// depends on.
func checkSettings(settings map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		var why string
		switch {
		case !validKey(key):
			why = "not the name of a fabric manager setting (A-Z, 0-9, _)"
		case strings.ContainsAny(settings[key], "\x00\n\r"):
			why = "the value has more than one line"
		case key == "DAEMONIZE" || key == "PID_FILE_PATH":
			why = "this setting belongs to the supervisor of the fabric manager; remove it"
		default:
			continue
		}
		return fmt.Errorf("environment variable NVFM_CONFIG_%s: %s", key, why)
	}
	return nil
}

func validKey(key string) bool {
	return key != "" &&
		!strings.ContainsFunc(
			key,
			func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' },
		)
}

// base returns the configuration to start from: the mounted file, or else the image's.
func (f Facts) base(name, inImage string) (text []byte, path string, err error) {
	path = filepath.Join(f.Drivers, name)
	text, err = bounded.File(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		path = f.path(inImage)
		text, err = bounded.File(path, maxConfig)
	}
	return text, path, err
}

// configuration returns the fabric manager's configuration file.
func (f Facts) configuration() ([]byte, error) {
	text, path, err := f.base(fmConfigName, fmConfig)
	if err != nil {
		return nil, err
	}
	if err := checkFile(path, text); err != nil {
		return nil, err
	}
	settings, err := f.settings()
	if err != nil {
		return nil, err
	}
	return apply(text, settings), nil
}

// checkFile refuses a file that the fabric manager would misread: it ignores lines that it does not
// know.
func checkFile(path string, text []byte) error {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		s := strings.TrimSpace(string(line))
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		key, _, found := strings.Cut(s, "=")
		if !found || !validKey(strings.TrimSpace(key)) {
			return fmt.Errorf(
				"%s:%d: %.80q is no setting of the fabric manager (NAME=value); correct the file",
				path,
				number,
				s,
			)
		}
	}
	return nil
}

// configure writes the configuration with the settings applied, and creates the folders that the
// programs expect.
func (f Facts) configure() error {
	text, err := f.configuration()
	if err == nil {
		err = cmp.Or(
			os.MkdirAll(f.path(fmRun), 0o755),
			os.MkdirAll(f.path("var/log"), 0o755),
			os.MkdirAll(f.Work, 0o755),
			atomicwriter.WriteFile(f.config(), text, 0o644),
		)
	}
	if err != nil {
		return fmt.Errorf("configure the fabric manager: %w", err)
	}
	return nil
}

// value returns the value of a setting in a configuration file; "" if it is not set.
func value(text []byte, key string) (value string) {
	for line := range bytes.Lines(text) {
		if k, v, found := strings.Cut(strings.TrimSpace(string(line)), "="); found &&
			strings.TrimSpace(k) == key {
			value = strings.TrimSpace(v)
		}
	}
	return value
}

// apply replaces settings: it returns the file without their lines, and then KEY=value lines,
// sorted.
func apply(text []byte, settings map[string]string) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		key, _, found := strings.Cut(string(line), "=")
		if _, set := settings[strings.TrimSpace(key)]; !found || !set {
			fmt.Fprintf(&out, "%s\n", bytes.TrimSuffix(line, []byte("\n")))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&out, "%s=%s\n", key, settings[key])
	}
	return out.Bytes()
}
