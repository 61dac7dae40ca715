// Package devices reads the NVIDIA devices of a node: the devices on the PCI bus (without the
// driver, from sysfs) and the device nodes through which programs use the driver.
//
// It creates device nodes and links, and removes those that it created. It loads nothing, opens no
// device and never asks the driver itself.
package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// PCI numbers of the vendors that matter here.
const (
	NVIDIA   uint16 = 0x10de
	Mellanox uint16 = 0x15b3
)

// Function is a PCI function of any kind: a GPU, an NVSwitch, a network card.
type Function struct {
	Address        string // domain:bus:device.function, "0000:05:00.0"
	Vendor, Device uint16
	Class          uint32 // 24 bits, 0x030200 (3D)
	// the driver that the device is bound to: "nvidia", "nouveau", "vfio-pci"; "" for none
	Driver  string
	Virtual bool // a virtual function (SR-IOV)
}

// GPU is one display device of NVIDIA on the PCI bus.
type GPU struct {
	Function
	SubVendor, SubDevice uint16
	// the only driver that may take the device (driver_override); "" for any
	Override string
	// the device does not answer on the bus; not known of a GPU that is lent or sleeps
	Silent bool
}

const (
	maxSmall = 64      // bytes of a file of sysfs that holds one number
	maxText  = 1 << 20 // of a file of procfs that holds lines
	maxVPD   = 1 << 15 // of vital product data: its addresses have 15 bits
)

var address = lazyregexp.New(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// GPUs returns NVIDIA's display devices on the bus below sys (a mounted sysfs, "/sys"), sorted by
// address. A machine without a PCI bus has none.
func GPUs(sys string) (gpus []GPU, err error) {
	found, err := Functions(
		sys,
		func(f Function) bool { return f.Vendor == NVIDIA && (f.Class>>8 == 0x0300 || f.Class>>8 == 0x0302) },
	)
	for _, f := range found {
		g := GPU{Function: f}
		dir := filepath.Join(sys, "bus/pci/devices", f.Address)
		for name, to := range map[string]*uint16{"subsystem_vendor": &g.SubVendor, "subsystem_device": &g.SubDevice} {
			n, err := readNumber(filepath.Join(dir, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // the device may be going
				return nil, fmt.Errorf("PCI device %s: %w", f.Address, err)
			}
			*to = uint16(n)
		}
		g.Override = firstWord(filepath.Join(dir, "driver_override"))
		if g.Override == "(null)" { // the kernel's word for none
			g.Override = ""
		}
		g.Silent = !g.Lent() && silent(dir)
		gpus = append(gpus, g)
	}
	return gpus, err
}

// Functions returns the PCI functions below sys that a caller wants, sorted by address. Only the
// numbers are known when keep is called. It skips a device that disappears meanwhile (hot unplug).
func Functions(sys string, keep func(Function) bool) (all []Function, err error) {
	dir := filepath.Join(sys, "bus/pci/devices")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for PCI devices: %w", err)
	}
	for _, e := range entries {
		if !address().MatchString(e.Name()) {
			continue
		}
		at := filepath.Join(dir, e.Name())
		vendor, err := readNumber(filepath.Join(at, "vendor"))
		class, noClass := readNumber(filepath.Join(at, "class"))
		device, noDevice := readNumber(filepath.Join(at, "device"))
		err = errors.Join(err, noClass, noDevice)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("PCI device %s: %w", e.Name(), err)
		}
		f := Function{
			Address: e.Name(),
			Vendor:  uint16(vendor),
			Device:  uint16(device),
			Class:   uint32(class),
		}
		if !keep(f) {
			continue
		}
		driver, err := os.Readlink(filepath.Join(at, "driver"))
		if err == nil {
			f.Driver = filepath.Base(driver)
		}
		_, err = os.Lstat(filepath.Join(at, "physfn"))
		f.Virtual = err == nil
		all = append(all, f)
	}
	return all, nil
}

// VPD returns the vital product data of a function. The kernel reads them from the device, with or
// without a driver. They are empty if the device has none.
func (f Function) VPD(sys string) ([]byte, error) {
	data, err := bounded.File(filepath.Join(sys, "bus/pci/devices", f.Address, "vpd"), maxVPD)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the vital product data of %s: %w", f.Address, err)
	}
	return data, nil
}

// readNumber reads a number in the format of sysfs: "0x10de\n".
func readNumber(path string) (uint64, error) {
	text, err := bounded.Text(path, maxSmall)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 0, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: not a number: %w", path, err)
	}
	return n, nil
}
