// Package devices reads the NVIDIA devices of a node: the devices on the PCI bus (without the driver, from
// sysfs) and the device nodes through which programs use the driver.
//
// It creates device nodes and links, and removes those that it created. It loads nothing, opens no device and
// never asks the driver itself.
package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"

	"github.com/driver-container/driver-container/distros/bounded"
)

// PCI numbers of the vendors that matter here.
const (
	NVIDIA   uint16 = 0x10de
	Mellanox uint16 = 0x15b3
)

// GPU is one display device of NVIDIA on the PCI bus.
type GPU struct {
	Address              string // domain:bus:device.function, "0000:05:00.0"
	Vendor, Device       uint16
	SubVendor, SubDevice uint16
	Class                uint32 // 24 bits, 0x030000 (VGA) or 0x030200 (3D)
	Driver               string // the driver that the device is bound to: "nvidia", "nouveau", "vfio-pci"; "" for none
	Override             string // the only driver that may take the device (driver_override); "" for any
	Silent               bool   // the device does not answer on the bus; not known of a GPU that is lent or sleeps
}

// maxSmall limits a file of sysfs that holds one number, maxText a file of procfs that holds lines.
const (
	maxSmall = 64
	maxText  = 1 << 20
)

var address = lazyregexp.New(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// Bus is the PCI bus below Sys (a mounted sysfs, "/sys"). It remembers which devices are no GPUs, so that
// looking again and again costs little. It is not safe for several goroutines.
type Bus struct {
	Sys    string
	others map[string]bool // addresses of the last look
}

// GPUs returns NVIDIA's display devices, sorted by address. A machine without a PCI bus has none.
func (b *Bus) GPUs() ([]GPU, error) {
	var gpus []GPU
	others := map[string]bool{}
	err := eachDevice(b.Sys, func(addr string, read func(string) (uint64, error)) error {
		if b.others[addr] {
			others[addr] = true
			return nil
		}
		vendor, class, err := vendorAndClass(read)
		if err != nil {
			return err
		}
		if vendor != NVIDIA || (class>>8 != 0x0300 && class>>8 != 0x0302) {
			others[addr] = true
			return nil
		}
		g := GPU{Address: addr, Vendor: vendor, Class: class}
		for name, to := range map[string]*uint16{"device": &g.Device, "subsystem_vendor": &g.SubVendor, "subsystem_device": &g.SubDevice} {
			n, err := read(name)
			if err != nil {
				return err
			}
			*to = uint16(n)
		}
		g.readBinding(b.Sys)
		gpus = append(gpus, g)
		return nil
	})
	b.others = others
	return gpus, err
}

// HasVendor says whether a device of a vendor is on the bus: Mellanox for RDMA.
func HasVendor(sys string, vendor uint16) (bool, error) {
	found := false
	err := eachDevice(sys, func(_ string, read func(string) (uint64, error)) error {
		v, _, err := vendorAndClass(read)
		found = found || (err == nil && v == vendor)
		return err
	})
	return found, err
}

// eachDevice calls f for every PCI device, in the order of the addresses. It skips a device that disappears
// meanwhile (hot unplug).
func eachDevice(sys string, f func(addr string, read func(string) (uint64, error)) error) error {
	dir := filepath.Join(sys, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for PCI devices: %w", err)
	}
	for _, e := range entries {
		if !address().MatchString(e.Name()) {
			continue
		}
		err := f(e.Name(), func(name string) (uint64, error) { return readNumber(filepath.Join(dir, e.Name(), name)) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("PCI device %s: %w", e.Name(), err)
		}
	}
	return nil
}

func vendorAndClass(read func(string) (uint64, error)) (uint16, uint32, error) {
	vendor, err := read("vendor")
	if err != nil {
		return 0, 0, err
	}
	class, err := read("class")
	return uint16(vendor), uint32(class), err
}

// readNumber reads a number in the format of sysfs: "0x10de\n".
func readNumber(path string) (uint64, error) {
	text, err := bounded.File(path, maxSmall)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: not a number: %w", path, err)
	}
	return n, nil
}
