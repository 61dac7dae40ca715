package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
)

// modules are the kernel's.
type modules struct {
	kmod.System
	release string
}

// Flavour is in the driver's own words: "NVIDIA UNIX Open Kernel Module" or "NVIDIA UNIX x86_64 Kernel Module".
func (m *modules) Flavour() (string, error) {
	data, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return "", fmt.Errorf("which flavour of the driver is loaded: %w", err)
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if bytes.Contains(line, []byte("Open Kernel Module")) {
		return driverinfo.Open, nil
	}
	return driverinfo.Proprietary, nil
}

// InsertInTree loads modules of the kernel where they can be found. What is missing is not an error here: a driver that needs it
// is refused with the symbol that it lacks. The host's tree counts first: where the driver root is this container's own, its index has
// NVIDIA's modules and no others.
func (m *modules) InsertInTree(ctx context.Context, names ...string) ([]string, error) {
	inserted, _, err := m.InsertDeps(ctx, m.release, []string{"/host", rootOfInit, "/"}, names...)
	return inserted, err
}

// What the child in which a module is deleted is called with, and how it ends.
const (
	DeleteVerb   = "__delete-module"
	DeleteInUse  = 3
	DeleteAbsent = 4
)

// deleteWait is how long the kernel may take for one module. Measured: 0.1 s each.
const deleteWait = 30 * time.Second

// Delete unloads a module in a child, which is left behind when the kernel does not come back.
func (m *modules) Delete(ctx context.Context, name string) error {
	code, out, err := runChild(ctx, deleteWait, DeleteVerb, name)
	switch {
	case err != nil:
		return fmt.Errorf("unload %s: %w; the kernel keeps it in state %q: reboot the node", name, err, m.state(name))
	case code == 0:
		return nil
	case code == DeleteInUse:
		return fmt.Errorf("unload %s: %w", name, kmod.ErrInUse)
	case code == DeleteAbsent:
		return fmt.Errorf("unload %s: %w", name, fs.ErrNotExist)
	}
	return fmt.Errorf("unload %s: %s", name, strings.TrimSpace(out))
}

func (m *modules) state(name string) string {
	live, err := m.Module(name)
	if err != nil {
		return "unknown"
	}
	return live.State
}

// errHung says that a child did not end in time and cannot be killed.
var errHung = errors.New("no answer from the kernel")
