package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// markers are the files by which the GPU Operator's parts see the driver's state (its startup-probe.sh, its driver manager and
// its validator read them). .driver-ctr-ready belongs to the startup probe, driver-ready to the validator.
type markers struct {
	run    string
	digest string
}

const (
	daemonsMarker = "validations/.driver-daemons-status"
	startupMarker = "validations/.driver-ctr-ready"
	digestFile    = "nvidia-driver.state"
)

// notReady comes first: nobody may take a predecessor's words for ours.
func (m markers) notReady() error {
	if err := os.MkdirAll(filepath.Join(m.run, "validations"), 0o755); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(m.run, startupMarker))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, writeFile(filepath.Join(m.run, daemonsMarker), []byte("NotReady\n")))
}

// ready is written when everything else is up: the daemons' word, then the digest that lets the driver manager of a
// later pod keep the driver.
func (m markers) ready() error {
	if err := writeFile(filepath.Join(m.run, daemonsMarker), []byte("Ready\n")); err != nil {
		return err
	}
	if m.digest == "" {
		return m.forget()
	}
	return writeFile(filepath.Join(m.run, digestFile), []byte(m.digest+"\n"))
}

// forget removes the digest: what it stands for is not loaded.
func (m markers) forget() error {
	err := os.Remove(filepath.Join(m.run, digestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// gone removes what a stopped driver must not leave behind.
func (m markers) gone() error {
	var errs []error
	for _, name := range []string{daemonsMarker, startupMarker} {
		if err := os.Remove(filepath.Join(m.run, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, m.forget())...)
}

// leftovers removes unfinished files of an instance that was killed. Only the holder of the lock may: nobody else writes then.
func (m markers) leftovers() error {
	var errs []error
	for _, name := range []string{daemonsMarker, startupMarker, digestFile, statusName} {
		found, err := filepath.Glob(unfinished(filepath.Join(m.run, name)))
		errs = append(errs, err)
		for _, f := range found {
			errs = append(errs, os.Remove(f))
		}
	}
	return errors.Join(errs...)
}

// MarkStarted writes the marker that the GPU Operator's validator waits for. It is what `nvidia-driver probe startup` does in
// place of the operator's startup-probe.sh, with the same content.
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
