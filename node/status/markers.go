package status

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Markers are the files by which the parts of the GPU Operator see the driver's state: its
// startup-probe.sh, its driver manager and its validator read them. .driver-ctr-ready belongs to
// the startup probe, driver-ready to the validator.
type Markers struct {
	Run    string // the folder that all instances share
	Digest string // of the operator's configuration; "": none
}

// DaemonsMarker is the file, below the run folder, that says how the daemons are.
const (
	DaemonsMarker = "validations/.driver-daemons-status"
	startupMarker = "validations/.driver-ctr-ready"
	digestFile    = "nvidia-driver.state"
)

// NotReady must be called first: no program may mistake the markers of a predecessor for those of
// this instance.
func (m Markers) NotReady() error {
	if err := os.MkdirAll(filepath.Join(m.Run, "validations"), 0o755); errors.Is(
		err,
		unix.ENOTDIR,
	) {
		return fmt.Errorf("%w; remove that file on the node", err)
	} else if err != nil {
		return err
	}
	return errors.Join(
		m.remove(startupMarker),
		writeFile(filepath.Join(m.Run, DaemonsMarker), []byte("NotReady\n")),
	)
}

// Ready must be called last, when everything else is up. It writes the state of the daemons and
// then the digest by which the driver manager of a later pod keeps the driver.
func (m Markers) Ready() error {
	if err := writeFile(filepath.Join(m.Run, DaemonsMarker), []byte("Ready\n")); err != nil {
		return err
	}
	if m.Digest == "" {
		return m.remove(digestFile) // the configuration that it identifies is not loaded
	}
	return writeFile(filepath.Join(m.Run, digestFile), []byte(m.Digest+"\n"))
}

// Remove removes the files that a stopped driver must not leave behind.
func (m Markers) Remove() error {
	return errors.Join(m.remove(DaemonsMarker), m.remove(startupMarker), m.remove(digestFile))
}

// remove removes a file that may be missing.
func (m Markers) remove(name string) error {
	err := os.Remove(filepath.Join(m.Run, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RemoveUnfinished removes the files that an instance was writing when it was killed, including the
// status. Only the holder of the lock may call it, because nobody else writes then.
func (m Markers) RemoveUnfinished() error {
	var errs []error
	for _, name := range []string{DaemonsMarker, startupMarker, digestFile, fileName} {
		found, err := filepath.Glob(unfinished(filepath.Join(m.Run, name)))
		errs = append(errs, err)
		for _, f := range found {
			errs = append(errs, os.Remove(f))
		}
	}
	return errors.Join(errs...)
}

// MarkStarted writes the marker that the GPU Operator's validator waits for. `nvidia-driver probe
// startup` calls it; it replaces the operator's startup-probe.sh and writes the same content.
func MarkStarted(run string, getenv func(string) string) error {
	var text strings.Builder
	for _, name := range []string{"GDRCOPY_ENABLED", "GDS_ENABLED", "GPU_DIRECT_RDMA_ENABLED"} {
		value := getenv(name)
		if value != "true" {
			value = "false"
		}
		fmt.Fprintf(&text, "%s: %s\n", name, value)
	}
	path := filepath.Join(run, startupMarker)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil && string(old) == text.String() {
		return nil
	}
	return writeFile(path, []byte(text.String()))
}
