package host

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
)

// liveKernel has the modules of the running kernel.
type liveKernel struct {
	kmod.System
	release string
}

// Flavour reads what the driver says of itself: "NVIDIA UNIX Open Kernel Module" or "NVIDIA UNIX
// x86_64 Kernel Module".
func (m *liveKernel) Flavour() (string, error) {
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

// hostRoots are the folders in which the kernel's own modules are looked for.
var hostRoots = []string{"/host", rootOfInit, "/"}

// InsertInTree loads modules of the kernel where it finds them. A missing one is no error here: the
// kernel refuses a driver that needs it, and names the missing symbol. The host's tree comes first:
// where the driver root is that of this container, its module index has NVIDIA's modules only.
func (m *liveKernel) InsertInTree(
	ctx context.Context,
	record func(name string),
	names ...string,
) ([]string, error) {
	inserted, _, err := m.InsertDeps(ctx, m.release, hostRoots, record, names...)
	return inserted, err
}

// The verb of the child that deletes a module, and its exit codes.
const (
	DeleteVerb   = "__delete-module"
	DeleteInUse  = 3
	DeleteAbsent = 4
)

// deleteWait is how long the kernel may take for one module; measured: 0.1 s each.
const deleteWait = 30 * time.Second

// deleteTries bounds how often a module is unloaded again after a signal ended the child.
const deleteTries = 3

// Delete unloads a module in a child. If the kernel does not return from that, the child is left
// behind. If a signal ends the child, which may have been meant for the container, Delete tries
// again.
func (m *liveKernel) Delete(ctx context.Context, name string) error {
	const signalled = 128 // and more: a signal ended the child
	code, out, err := runChild(ctx, DeleteVerb, name)
	for tries := 1; err == nil && code > signalled && tries < deleteTries; tries++ {
		code, out, err = runChild(ctx, DeleteVerb, name)
		if code == DeleteAbsent {
			code = 0 // the first child had unloaded it
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf(
			"unload %s: %w; the kernel keeps it in state %q: reboot the node",
			name,
			err,
			m.state(name),
		)
	case code == 0:
		return nil
	case code == DeleteInUse:
		return fmt.Errorf("unload %s: %w", name, kmod.ErrInUse)
	case code == DeleteAbsent:
		return fmt.Errorf("unload %s: %w", name, fs.ErrNotExist)
	}
	if code > signalled {
		out = fmt.Sprintf(
			"%d times, a signal ended the process that does it; stop the container again",
			deleteTries,
		)
	}
	return fmt.Errorf("unload %s: %s", name, strings.TrimSpace(out))
}

func (m *liveKernel) state(name string) string {
	live, err := m.Module(name)
	if err != nil {
		return "unknown"
	}
	return live.State
}

// runChild runs this program with other arguments. Where it hangs in the kernel, it is left to the
// shim.
func runChild(ctx context.Context, args ...string) (code int, output string, err error) {
	r, err := daemons.Run(
		ctx,
		"/proc/self/exe",
		args,
		[]string{"PATH=" + os.Getenv("PATH")},
		deleteWait,
	)
	return r.Code, r.Output(), err
}
