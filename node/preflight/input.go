package preflight

import (
	"crypto/x509"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/devices"
)

// Loading is a module that would be loaded.
type Loading struct {
	Name string // of the file, without ".ko": "nvidia-uvm"
	Path string
}

// What a compile of the modules takes, where Input says nothing else. The closed 535 links nvidia.ko out of 60 MB of objects.
const (
	defaultNeedMemory = 1200 << 20
	defaultNeedDisk   = 1 << 30
)

// Input is what the checks know before they look. The zero values of the paths are those of a running system.
type Input struct {
	Sys, Proc string // "/sys", "/proc"
	Root      string // our own root: "/"
	Host      string // the host's root: "/proc/1/root". Where it is our own, the host counts as out of sight
	RunDir    string // "/run/nvidia"
	Linked    bool   // the driver root is served by a link to StateDir and not by a mount: the container need not be privileged

	Info     driverinfo.Info // of the image
	Release  string          // of the running kernel: "6.1.0-38-amd64"
	Previous string          // version of the driver that our predecessor loaded, "" none: it is ours to replace
	GPUs     []devices.GPU   // on the PCI bus
	Modules  []kmod.Module   // loaded now
	Flavour  string          // the flavour that is to be loaded, as Flavour chose it

	Supported    Supported // the driver's own list of GPUs
	SupportedErr error     // why there is no list

	RDMA          bool
	UnloadNouveau bool // somebody will unload an unused nouveau

	HaveModules bool              // modules for this kernel are in the image or in the cache: nothing is compiled
	Source      string            // where: "image", "cache"
	Stays       bool              // the driver that is loaded is the one to have: nothing is loaded
	Damaged     string            // what was found damaged while looking for them
	Load        []Loading         // of them, in order
	Certificate *x509.Certificate // whose key signed them; nil: nobody's, or not known
	SignWith    *x509.Certificate // whose key will sign what is compiled here, or Resign; nil: nobody signs
	Resign      bool              // those modules will be signed with that key before they are loaded
	SignHash    string            // that it will be signed with: "sha256"

	CanCompile   bool     // compiling is allowed and the image has compiler and sources
	Serves       []string // flavours that can be had for this kernel; empty: those of Info
	FetchHeaders bool     // headers that are not here will be asked of the system's repository
	Headers      string   // where headers were found
	HeadersErr   error    // why none were
	Compiler     string   // the one to use: "gcc-12 12.2.0"
	CompilerErr  error    // why there is none
	WantedGCC    string   // the compiler that made the kernel, where it is another one than Compiler

	NeedMemory, NeedDisk uint64 // bytes; 0: what a compile needs
	StateDir             string // where cache, logs and staged roots go: "/var/lib/nvidia-driver"

	Free    func(dir string) (uint64, error)     // free bytes of a file system; nil: statfs
	Members func(keyring int32) ([]int32, error) // serial numbers of the keys in a keyring; nil: the kernel's own answer
}

// defaults fills what was left out.
func (in *Input) defaults() {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&in.Sys, "/sys"}, {&in.Proc, "/proc"}, {&in.Root, "/"}, {&in.Host, "/proc/1/root"}, {&in.RunDir, "/run/nvidia"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if in.NeedMemory == 0 {
		in.NeedMemory = defaultNeedMemory
	}
	if in.NeedDisk == 0 && !in.HaveModules && in.CanCompile {
		in.NeedDisk = defaultNeedDisk
	}
	if in.Free == nil {
		in.Free = freeBytes
	}
	if in.Members == nil {
		in.Members = members
	}
}

func freeBytes(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return fs.Bavail * uint64(fs.Bsize), nil
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
