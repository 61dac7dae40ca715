// Package vgpu knows what a machine with vGPUs needs of the guest's driver: the licence daemons
// with their files.
//
// It reads the files of a licence, and says what is wrong with them. It does not supervise the
// daemons, ask the driver or a licence server, or verify signatures of tokens: only the licence
// server has the key. It does not compare the driver with the host's: choose an image that fits.
package vgpu

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/node/probe"
)

// Where the files of a licence are: in the folder of drivers' settings, and in the root of the
// image, where nvidia-gridd reads them. The names of the first are those of the GPU Operator.
const (
	settingsName = "gridd.conf"
	tokensName   = "ClientConfigToken" //nolint:gosec // a folder
	settingsFile = "etc/nvidia/gridd.conf"
	tokensDir    = "etc/nvidia/ClientConfigToken" //nolint:gosec // a folder
	tokenEnding  = ".tok"

	// tokenMode is the mode that NVIDIA's documents ask for: read, write and execute for the owner,
	// read for others.
	tokenMode = 0o744
)

// Bounds of a licence's files.
const (
	maxSettings = 64 << 10
	maxTokens   = 64
)

// Facts says where the daemons and their files are. The zero value is the image's own root.
type Facts struct {
	Root string // of the image, default /
	// folder with gridd.conf, ClientConfigToken and the catalogue, default /drivers
	Drivers string
	Now     func() time.Time // nil: time.Now
}

func (f Facts) withDefaults() Facts {
	f.Root = cmp.Or(f.Root, "/")
	f.Drivers = cmp.Or(f.Drivers, "/drivers")
	if f.Now == nil {
		f.Now = time.Now
	}
	return f
}

func (f Facts) path(name string) string { return filepath.Join(f.Root, name) }

// Licence is what the files of a licence say.
type Licence struct {
	Settings []byte            // the text of gridd.conf; nil: there is none
	Tokens   map[string][]byte // by name; those that can be used, also later or no longer
	Until    time.Time         // when the last of them expires; zero: never, or there are none
	Usable   bool              // one of them gets a licence now
	Notes    []string          // what a person should look at
}

// Licence reads the files of the licence and changes nothing. An error is about a file that
// nvidia-gridd could not use: a wrong file in the place of a token or of the settings.
func (f Facts) Licence() (Licence, error) {
	f = f.withDefaults()
	l := Licence{Tokens: map[string][]byte{}}
	file := filepath.Join(f.Drivers, settingsName)
	text, err := bounded.File(file, maxSettings)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l, fmt.Errorf("read the licence settings %s: %w", file, err)
	}
	l.Settings = text
	err = checkSettings(text)
	if err != nil {
		return l, fmt.Errorf("the licence settings %s: %w", file, err)
	}
	return l, f.tokens(&l)
}

// checkSettings refuses what is no configuration of nvidia-gridd: lines NAME=VALUE and comments.
func checkSettings(text []byte) error {
	if bytes.IndexByte(text, 0) >= 0 {
		return errors.New("it is no text")
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("line %d is neither NAME=VALUE nor a comment", i+1)
		}
		if strings.TrimSpace(key) == "FeatureType" &&
			!slices.Contains([]string{"0", "1", "2", "3", "4"}, strings.TrimSpace(value)) {
			return fmt.Errorf(
				"line %d: FeatureType is %.20q; it must be 0 (by the vGPU's type), 1 (vGPU), 2 (virtual workstation), 3 or 4 (virtual compute server)",
				i+1,
				strings.TrimSpace(value),
			)
		}
	}
	return nil
}

// tokens reads the folder of tokens.
func (f Facts) tokens(l *Licence) error {
	dir := filepath.Join(f.Drivers, tokensName)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the licence tokens: %w", err)
	}
	if len(entries) > maxTokens {
		return fmt.Errorf("%s has %d files, at most %d are read: is it the folder of tokens?", dir, len(entries), maxTokens)
	}
	never := false
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch st, err := os.Stat(name); {
		case strings.HasPrefix(e.Name(), "."): // of a mounted Secret: ..data and its folders
			continue
		case err != nil:
			return fmt.Errorf("read the licence token %s: %w", name, err)
		case !strings.HasSuffix(e.Name(), tokenEnding):
			l.Notes = append(l.Notes, fmt.Sprintf("%s is passed over: names of tokens end in %s", name, tokenEnding))
			continue
		case st.Mode().IsRegular() && st.Mode()&0o022 != 0:
			l.Notes = append(l.Notes, fmt.Sprintf("%s can be changed by others than its owner (mode %04o); nvidia-gridd gets a copy with mode %04o", name, st.Mode().Perm(), tokenMode))
		}
		data, err := bounded.File(name, maxToken)
		if err != nil {
			return fmt.Errorf("read the licence token %s: %w", name, err)
		}
		from, until, err := tokenTimes(data)
		switch {
		case err != nil:
			return fmt.Errorf("the licence token %s: %w: download it again from the licence server", name, err)
		case !until.IsZero() && !f.Now().Before(until):
			l.Notes = append(l.Notes, fmt.Sprintf("the licence token %s expired on %s: download a new one from the licence server", e.Name(), until.Format(time.RFC3339)))
		case f.Now().Before(from):
			l.Notes = append(l.Notes, fmt.Sprintf("the licence token %s is valid from %s on: is the clock of this machine right?", e.Name(), from.Format(time.RFC3339)))
		default:
			l.Usable = true
		}
		l.Tokens[e.Name()] = data
		never = never || until.IsZero()
		if until.After(l.Until) {
			l.Until = until
		}
	}
	if never {
		l.Until = time.Time{}
	}
	return nil
}

// String says what there is: "2 tokens, valid until 2030-01-02".
func (l Licence) String() string {
	switch {
	case len(l.Tokens) == 0 && l.Settings == nil:
		return "no token and no gridd.conf: the image's own settings count"
	case len(l.Tokens) == 0:
		return "no token"
	case l.Until.IsZero():
		return fmt.Sprintf("%d token(s), without an end", len(l.Tokens))
	}
	return fmt.Sprintf("%d token(s), until %s", len(l.Tokens), l.Until.Format(time.RFC3339))
}

// install copies the files to where nvidia-gridd reads them. It removes tokens that are no longer
// in the folder of drivers' settings, if that has any.
func (f Facts) install(l Licence) error {
	if l.Settings != nil {
		if err := writeFile(f.path(settingsFile), l.Settings, 0o644); err != nil {
			return fmt.Errorf("copy the licence settings: %w", err)
		}
	}
	if len(l.Tokens) == 0 {
		return nil
	}
	for name, data := range l.Tokens {
		err := writeFile(filepath.Join(f.path(tokensDir), name), data, tokenMode)
		if err != nil {
			return fmt.Errorf("copy a licence token: %w", err)
		}
	}
	old, err := filepath.Glob(filepath.Join(f.path(tokensDir), "*"+tokenEnding))
	if err != nil {
		return fmt.Errorf("look for old licence tokens: %w", err)
	}
	for _, name := range old {
		if l.Tokens[filepath.Base(name)] != nil {
			continue
		}
		err := os.Remove(name)
		if err != nil {
			return fmt.Errorf("remove an old licence token: %w", err)
		}
	}
	return nil
}

// writeFile writes the whole file atomically, or leaves the old one. It creates the folder.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicwriter.WriteFile(path, content, mode)
}

// Check looks at the files of the licence. licence is whose the image's driver needs: a value of
// driverinfo.VGPULicences; "": the driver is for whole GPUs. nvidia-gridd refuses to start with a
// file that is no token, and a guest without a licence works for a while: only the first prevents a
// start (fatal). Without a fix all is well.
func (f Facts) Check(licence string) (text, fix string, fatal bool) {
	if licence == "" {
		return "the image has no driver for vGPUs", "", false
	}
	f = f.withDefaults()
	l, err := f.Licence()
	switch {
	case err != nil:
		return err.Error(), "Correct the files of the licence: the Secret of vgpu.licensing.secretName, or the folder that is mounted at " + f.Drivers + ".", true
	case len(l.Tokens) > 0 && !l.Usable:
		return strings.Join(
			l.Notes,
			"; ",
		), "Without a valid token the vGPUs get no licence, and become slow.", false
	case len(l.Notes) > 0:
		return "licence: " + l.String() + "; " + strings.Join(
			l.Notes,
			"; ",
		), "Correct the files of the licence.", false
	}
	return "licence: " + l.String(), "", false
}

// What GPUs without a vGPU licence mean for a node.
const (
	LicenceWarn    = "warn"    // the node is ready; metrics and status say it
	LicenceRequire = "require" // the node is not ready
)

// Unlicensed says which GPUs have no licence; "" if all have one, or need none. The text has no
// time in it, so that it is reported once.
func Unlicensed(gpus []probe.Device) string {
	var without []string
	for _, g := range gpus {
		if g.Licence != nil && !g.Licence.Licensed && g.Licence.Error == "" {
			without = append(without, g.PCI)
		}
	}
	if len(without) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"vGPU without a licence: %s; it becomes slow after some minutes to a day: look at the state of nvidia-gridd, the token and the licence server",
		strings.Join(without, ", "),
	)
}
