// Package guest runs a virtual machine with a distribution's real kernel and fake GPUs (package
// gpu), on which NVIDIA's real kernel modules load. Containers in it are runc's, set up as kubelet
// and containerd set up a privileged pod. Its process 1 is the program driver-guest, which starts
// processes and reports what becomes of them.
//
// The guest has no network and no folder of this machine; its disks are read only, but for one
// that is removed with it. What it says is untrusted: it is bounded, and control characters are
// escaped. The package judges nothing of it.
package guest

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/images/rehearse/gpu"
)

var errMissing = errors.New("images/rehearse/guest: not written yet")

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
}

// Firmware starts a guest through UEFI with Secure Boot.
type Firmware struct {
	// Certificates are in db, in DER: firmware starts what they signed, and Linux has them in its
	// keyring .platform.
	Certificates [][]byte
	SetupMode    bool // there is no platform key, so Secure Boot is off
}

// Guest is a running guest. Its methods may be called at the same time.
type Guest struct {
	Accel   string        // KVM or TCG
	Release string        // of the kernel, as the guest says
	Boot    time.Duration // until the guest answered
}

// Start boots a guest, which ends with ctx.
func Start(ctx context.Context, config Config) (*Guest, error) { return nil, errMissing }

// Close powers the guest off, and removes its files. QEMU is killed if ctx ends before.
func (g *Guest) Close(ctx context.Context) error { return errMissing }

// Console returns what the guest wrote to its serial line; of much, the end.
func (g *Guest) Console() string { return "" }

// Result is the result of a command.
type Result struct {
	Args   []string
	Code   int    // 128+n if signal n ended it
	Output string // stdout and stderr, escaped
	Took   time.Duration
}

// Run runs a command on the guest's host, which has busybox and runc. An exit code other than 0 is
// no error.
func (g *Guest) Run(ctx context.Context, args ...string) (Result, error) {
	return Result{}, errMissing
}

// Process starts a process on the guest's host.
func (g *Guest) Process(ctx context.Context, args ...string) (*Process, error) {
	return nil, errMissing
}

// Read returns the content of a file of the guest's host, of some MiB at most.
func (g *Guest) Read(ctx context.Context, path string) ([]byte, error) { return nil, errMissing }

// Write writes a file on the guest's host, and makes its folder if that is missing. Mode 0 means
// 0644.
func (g *Guest) Write(ctx context.Context, path string, content []byte, mode os.FileMode) error {
	return errMissing
}

// Exists says whether a path exists on the guest's host; a dangling link counts.
func (g *Guest) Exists(ctx context.Context, path string) (bool, error) { return false, errMissing }

// Modules returns the names of the loaded modules, sorted.
func (g *Guest) Modules(ctx context.Context) ([]string, error) { return nil, errMissing }

// Dmesg returns the kernel log since boot, escaped.
func (g *Guest) Dmesg(ctx context.Context) (string, error) { return "", errMissing }

// Hold opens a file of the guest's host, a device, and keeps it open until Process.Kill. It returns
// when the file is open.
func (g *Guest) Hold(ctx context.Context, path string) (*Process, error) { return nil, errMissing }

// Container describes a container to start: a privileged container of a pod with hostPID, on the
// host's network.
type Container struct {
	Image   string   // a name of Config.Images
	Layers  []string // folders in the guest, the upper first, instead of the image's disk
	Command []string // instead of the image's command
	Args    []string // after the command
	Env     []string // after the image's variables
	Name    string   // of the container; "" means "nvidia-driver-ctr"
	PodUID  string   // "" means a random one
	Mounts  []Mount
	// HostDev mounts the host's /dev into the container. Without it the container gets a copy of
	// the nodes that the host has at the start.
	HostDev bool
}

// Mount is a hostPath volume.
type Mount struct {
	Host     string // on the guest's host; a missing folder is made
	Guest    string // in the container
	ReadOnly bool
	Shared   bool // mounts appear on both sides: mountPropagation Bidirectional
	File     bool // a file instead of a folder
}

// StartContainer starts a container and returns when its first process runs.
func (g *Guest) StartContainer(ctx context.Context, c Container) (*Process, error) {
	return nil, errMissing
}

// Process is a process in the guest: a container, a process in a container, or one on the guest's
// host.
type Process struct {
	ID  string
	PID int // as the guest's host sees it
}

// Line is one line of a process's stdout or stderr, escaped.
type Line struct {
	At   time.Time // the guest's clock
	Text string
}

// WaitLine waits for a line that matches, after WaitLine's last match. If the process ends without
// such a line, that is an error.
func (p *Process) WaitLine(ctx context.Context, re *regexp.Regexp) (string, error) {
	return "", errMissing
}

// Wait waits for the end and returns the exit code, which is 128+n when signal n ended the process.
func (p *Process) Wait(ctx context.Context) (code int, err error) { return 0, errMissing }

// Running says whether the process still runs.
func (p *Process) Running() bool { return false }

// Lines returns the output so far. Of more than some MiB the rest is left out, as a last line says.
func (p *Process) Lines() []Line { return nil }

// Output returns the output so far, as one text.
func (p *Process) Output() string {
	var b strings.Builder
	for _, l := range p.Lines() {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}

// Signal sends a signal to the process.
func (p *Process) Signal(ctx context.Context, s syscall.Signal) error { return errMissing }

// Kill ends all processes of a container with SIGKILL and removes it as containerd does. If the
// container has ended before, Kill only removes it.
func (p *Process) Kill(ctx context.Context) error { return errMissing }

// Exec runs a command in the container with the container's environment, as `kubectl exec` and
// kubelet's probes do. An exit code other than 0 is no error.
func (p *Process) Exec(ctx context.Context, args ...string) (Result, error) {
	return Result{}, errMissing
}

// Hold opens a file in the container, a device, and keeps it open until Kill. It returns when the
// file is open.
func (p *Process) Hold(ctx context.Context, path string) (*Process, error) { return nil, errMissing }

// Termination returns the content of the container's /dev/termination-log.
func (p *Process) Termination(ctx context.Context) (string, error) { return "", errMissing }
