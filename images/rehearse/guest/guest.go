// Package guest runs a virtual machine with a distribution's real kernel and fake GPUs (package
// gpu), on which NVIDIA's real kernel modules load. Containers in it are runc's, set up as kubelet
// and containerd set up a privileged pod. Its process 1 is the program driver-guest, which starts
// processes and reports what becomes of them.
//
// The guest has no network and no folder of this machine. Its disks are read only. One more disk can
// be written, and is removed with the guest. What the guest says is untrusted: it is bounded, and
// control characters are escaped. The package judges nothing of it.
package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/rehearse/gpu"
	"github.com/driver-container/driver-container/images/rehearse/wire"
	"github.com/driver-container/driver-container/images/workdir"
)

// Kernel is what a guest boots.
type Kernel struct {
	System    string // "debian12"
	Release   string // as uname -r prints it
	OSRelease string // content of /etc/os-release
	Image     string // file: the kernel that QEMU starts directly, a vmlinux with a PVH entry or a bzImage
	Signed    string // file: the kernel as the distribution signed it, which firmware starts
	// Disk is a file: a file system, ext4 or erofs, whose folder usr is the guest's /usr: modules
	// with modules.dep, busybox with its links, runc and its libraries
	Disk        string
	BootModules []string // files, not compressed, in the order in which they are inserted
}

// Image is a container image as a disk.
type Image struct {
	Disk    string   // file: a file system, ext4 or erofs; see ImageDisk
	Env     []string // of its configuration
	Command []string // Entrypoint and Cmd
}

// The values of Config.Accel and Guest.Accel.
const (
	KVM = "kvm"
	TCG = "tcg" // software: ten times slower and more
)

// Config describes a guest to start.
type Config struct {
	Kernel      *Kernel
	GPUs        []gpu.Model
	MemoryMB    int               // default 1400
	Cores       int               // default 1; with more, QEMU 7.2 can hang when two access one fake GPU
	CommandLine string            // added to the kernel's command line: "module.sig_enforce=1"
	Images      map[string]Image  // by the names that Container.Image uses
	Disks       map[string]string // folder in the guest to a disk, a file as Image.Disk, read only
	Firmware    *Firmware         // UEFI with Secure Boot; nil: QEMU starts the kernel itself
	Accel       string            // "": KVM if it works, otherwise TCG
	Program     string            // file: driver-guest for linux/amd64
	Dir         string            // folder for the guest's files, 8 GiB at most; "": os.TempDir
	Notify      func(string)      // is told why KVM is not used; may be nil
	// System is another system than this package's. nil: that. With another, Disks, Images and
	// Program have no meaning.
	System *System
}

// System is a system that starts driver-guest itself, at the port "agent".
type System struct {
	Initramfs string   // a file
	Disk      string   // a file; what the guest writes to it is lost
	Arguments []string // more of QEMU's, for a network
}

// Guest is a running guest. Its methods may be called at the same time.
type Guest struct {
	Accel   string        // KVM or TCG
	Release string        // of the kernel, as the guest says
	Boot    time.Duration // until the guest answered

	config Config
	dir    *workdir.Dir
	qemu   *machine
	client *client
}

// How long a guest may take to answer. One that has not come by then hangs.
const (
	kvmLimit   = 40 * time.Second
	hangLimit  = 5 * time.Minute // it is started again once
	bootLimit  = 10 * time.Minute
	powerLimit = 20 * time.Second
)

// Start boots a guest, which ends with ctx. Close is necessary also then.
func Start(ctx context.Context, config Config) (*Guest, error) {
	config.MemoryMB = cmp.Or(config.MemoryMB, 1400)
	config.Cores = cmp.Or(config.Cores, 1)
	if len(config.GPUs) > maxGPUs || len(config.disks())+2 > maxDisks {
		return nil, fmt.Errorf("a guest has at most %d GPUs and %d disks", maxGPUs, maxDisks-2)
	}
	if config.Accel == KVM {
		return start(ctx, config, bootLimit)
	}
	if config.Accel == "" {
		config.Accel = KVM
		g, err := startKVM(ctx, config)
		if err == nil {
			return g, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if config.Notify != nil {
			reason, _, _ := strings.Cut(err.Error(), "\n")
			config.Notify("the guest is emulated, which takes ten times as long: " + reason)
		}
	}
	config.Accel = TCG
	g, err := start(ctx, config, hangLimit)
	if errors.Is(err, errHangs) { // as QEMU does, rarely
		return start(ctx, config, bootLimit)
	}
	return g, err
}

var errHangs = errors.New("the guest hung while it booted")

func startKVM(ctx context.Context, config Config) (*Guest, error) {
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("no KVM: %w", err)
	}
	_ = device.Close() // nothing was done with it
	g, err := start(ctx, config, kvmLimit)
	if err != nil {
		return nil, fmt.Errorf("KVM does not work here: %w", err)
	}
	return g, nil
}

// start boots a guest with the accelerator of config.
func start(ctx context.Context, config Config, limit time.Duration) (_ *Guest, err error) {
	const prefix = "rehearse-"
	parent := cmp.Or(config.Dir, os.TempDir())
	err = workdir.Sweep(parent, prefix) // what killed programs left
	if err != nil {
		return nil, fmt.Errorf("remove folders of earlier guests: %w", err)
	}
	dir, err := workdir.New(parent, prefix)
	if err != nil {
		return nil, fmt.Errorf("make a folder for a guest: %w", err)
	}
	g := &Guest{Accel: config.Accel, config: config, dir: dir}
	g.qemu, err = newMachine(ctx, &config, dir.Path)
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	g.client = connect(g.qemu.port, g.qemu.end)
	err = g.ready(ctx, limit)
	if err != nil {
		return nil, errors.Join(err, g.kill())
	}
	return g, nil
}

// ready waits for driver-guest.
func (g *Guest) ready(ctx context.Context, limit time.Duration) error {
	begin := time.Now()
	select {
	case g.Release = <-g.client.ready:
		g.Boot = time.Since(begin)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("boot a guest: %w", context.Cause(ctx))
	case <-g.client.gone:
		err := fmt.Errorf("the guest ended while it booted: %w", g.client.err)
		return &BootError{err, g.Console()}
	case <-time.After(limit):
		return &BootError{fmt.Errorf("%w: no answer within %s", errHangs, limit), g.Console()}
	}
}

// BootError is why a guest did not boot.
type BootError struct {
	Err     error
	Console string // as Guest.Console
}

func (e *BootError) Error() string { return "boot a guest: " + e.Err.Error() }
func (e *BootError) Unwrap() error { return e.Err }

// kill ends the guest at once.
func (g *Guest) kill() error {
	_ = g.qemu.kill() // in the middle of a GPU's answer
	return g.dir.Remove()
}

// Close powers the guest off, and removes its files. QEMU is killed if it does not end before
// ctx; one without a deadline gets 20 seconds.
func (g *Guest) Close(ctx context.Context) error {
	_, limited := ctx.Deadline()
	if !limited {
		limit, cancel := context.WithTimeout(ctx, powerLimit)
		defer cancel()
		ctx = limit
	}
	err := g.client.send(ctx, wire.Request{Power: wire.Off})
	if err != nil {
		return errors.Join(fmt.Errorf("power off the guest: %w", err), g.kill())
	}
	return errors.Join(g.qemu.wait(ctx), g.dir.Remove())
}

// Reboot restarts a guest with Firmware.Disk. Its processes are lost; /var/lib and the firmware's
// variables are kept.
func (g *Guest) Reboot(ctx context.Context) error {
	if g.config.Firmware == nil || g.config.Firmware.Disk == nil {
		return errors.New("only a guest whose firmware starts from a disk can restart")
	}
	g.client.forget(errors.New("the guest restarts"))
	err := g.client.send(ctx, wire.Request{Power: wire.Reboot})
	if err != nil {
		return fmt.Errorf("restart the guest: %w", err)
	}
	return g.ready(ctx, bootLimit)
}

// Console returns what the guest wrote to its serial line, escaped; of much, the end.
func (g *Guest) Console() string { return g.qemu.console.String() }

// Type writes to the serial line, as a keyboard does.
func (g *Guest) Type(keys string) error {
	_, err := g.qemu.serial.Write([]byte(keys))
	return err
}

// Run runs a command on the guest's host, which has busybox and runc. An exit code other than 0 is
// no error.
func (g *Guest) Run(ctx context.Context, args ...string) (Result, error) {
	return g.client.run(ctx, wire.Request{Args: args})
}

// Process starts a process on the guest's host.
func (g *Guest) Process(ctx context.Context, args ...string) (*Process, error) {
	return g.client.start(ctx, wire.Request{Args: args})
}
