package preflight

import (
	"cmp"
	"crypto/x509"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/fabric"
)

// Loading is a module that would be loaded.
type Loading struct {
	Name string // of the file, without ".ko": "nvidia-uvm"
	Path string
}

// compileSpace is what a compile of the modules takes: the modules, their list and the log.
var compileSpace = Space{Bytes: 1 << 30, Inodes: 100}

// Input holds the facts for the checks. The zero values of the paths mean those of a running
// system.
type Input struct {
	Sys, Proc string // "/sys", "/proc"
	Root      string // our own root: "/"
	// Host is the host's root: "/proc/1/root". Where it is the same as Root, the host counts as not
	// visible.
	Host   string
	RunDir string // "/run/nvidia"

	Info    driverinfo.Description // of the image
	Release string                 // of the running kernel: "6.1.0-38-amd64"
	// Previous is the version of the driver that our predecessor loaded, "" for none: that driver
	// is ours to replace.
	Previous string
	GPUs     []devices.GPU // GPUs on the PCI bus
	Modules  []kmod.Module // modules that are loaded now
	Flavour  string        // the flavour to load, as the function Flavour chose it

	Supported    Supported // the driver's own list of GPUs
	SupportedErr error     // why there is no list

	// fabric.Facts.Check; nil: not asked
	Fabric func(fabric.Kernel) (text, fix string, fatal bool)
	// why the driver that the node's own system loads cannot be served; nil: it loads none
	HostModules func() (text, fix string)
	// modules beside the driver's own that are asked for: "nvidia-fs", "gdrdrv"
	Companions []string
	GPUDirect  func() (text, fix string) // modules.Group.Check
	// vgpu.Facts.Check; nil: not asked
	VGPU          func() (text, fix string, fatal bool)
	UnloadNouveau bool // the caller will unload an unused nouveau

	// modules for this kernel are in the image, in a mounted one or in the cache: nothing is
	// compiled
	HaveModules bool
	Source      string // where they are: "image", "mounted", "cache"
	// sentences: what mounted images of modules have that does not fit
	LeftAlone []string
	Stays     bool   // the loaded driver is the wanted one: nothing is loaded
	Damaged   string // what was found damaged during the search for modules
	// the modules to load, in order; without Path where they have to be compiled
	Load        []Loading
	Certificate *x509.Certificate // of the key that signed them; nil: none, or unknown
	// of the key that will sign compiled modules, or all with Resign; nil: they stay unsigned
	SignWith *x509.Certificate
	Resign   bool // the modules will be signed with that key before they are loaded

	CanCompile bool     // compiling is allowed and the image has compiler and sources
	Serves     []string // flavours that are available for this kernel; empty: those of Info
	// the folder that is shared with a Driver Toolkit container; "": there is none
	Toolkit        string
	ToolkitMissing string // name of its image that the cluster lacks; "": none
	FetchHeaders   bool   // missing headers will be fetched from the system's package repository
	Headers        string // where the headers were found
	HeadersErr     error  // why there are no headers
	Compiler       string // the compiler that will be used: "gcc-12 12.2.0"
	CompilerErr    error  // why there is no compiler
	WantedGCC      string // the compiler of the kernel, if it differs from Compiler

	StateDir string // folder of cache, logs and staged roots: "/var/lib/nvidia-driver"
	// Staging returns what the driver root will take there, and what it can free for that; nil:
	// nothing.
	Staging func() (need, spare Space)

	Now  func() time.Time                // nil: the clock
	Free func(dir string) (Space, error) // what is free in a file system; nil: statfs
}

// defaults sets the fields that are empty.
func (in *Input) defaults() {
	in.Sys = cmp.Or(in.Sys, "/sys")
	in.Proc = cmp.Or(in.Proc, "/proc")
	in.Root = cmp.Or(in.Root, "/")
	in.Host = cmp.Or(in.Host, "/proc/1/root")
	in.RunDir = cmp.Or(in.RunDir, "/run/nvidia")
	if in.Now == nil {
		in.Now = time.Now
	}
	if in.Free == nil {
		in.Free = freeSpace
	}
}

// Space is room in a file system.
type Space struct{ Bytes, Inodes uint64 }

func freeSpace(dir string) (free Space, err error) {
	var fs unix.Statfs_t
	err = unix.Statfs(dir, &fs)
	free.Bytes = fs.Bavail * uint64(fs.Bsize)
	free.Inodes = fs.Ffree
	if fs.Files == 0 { // btrfs and others have no table of inodes
		free.Inodes = math.MaxUint64
	}
	return free, err
}

// module finds a loaded module.
func (in *Input) module(name string) (kmod.Module, bool) {
	for _, m := range in.Modules {
		if m.Name == name {
			return m, true
		}
	}
	return kmod.Module{}, false
}
