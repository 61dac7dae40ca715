package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Function is a PCI function of any kind: an NVSwitch, a network card.
type Function struct {
	Address        string // domain:bus:device.function
	Vendor, Device uint16
	Class          uint32 // 24 bits
	Driver         string // that it is bound to; "" for none
	Virtual        bool   // a virtual function (SR-IOV)
}

// maxVPD is the largest size of vital product data: its addresses have 15 bits.
const maxVPD = 1 << 15

// Functions returns the PCI functions below sys that a caller wants, sorted by address. Only the numbers are
// known when keep is called.
func Functions(sys string, keep func(Function) bool) ([]Function, error) {
	var all []Function
	err := eachDevice(sys, func(addr string, read func(string) (uint64, error)) error {
		vendor, class, err := vendorAndClass(read)
		if err != nil {
			return err
		}
		device, err := read("device")
		if err != nil {
			return err
		}
		f := Function{Address: addr, Vendor: vendor, Device: uint16(device), Class: class}
		if !keep(f) {
			return nil
		}
		dir := filepath.Join(sys, "bus/pci/devices", addr)
		if link, err := os.Readlink(filepath.Join(dir, "driver")); err == nil {
			f.Driver = filepath.Base(link)
		}
		_, err = os.Lstat(filepath.Join(dir, "physfn"))
		f.Virtual = err == nil
		all = append(all, f)
		return nil
	})
	return all, err
}

// VPD returns the vital product data of a function. The kernel reads them from the device, with or without a
// driver. They are empty if the device has none.
func (f Function) VPD(sys string) ([]byte, error) {
	data, err := bounded.File(filepath.Join(sys, "bus/pci/devices", f.Address, "vpd"), maxVPD)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the vital product data of %s: %w", f.Address, err)
	}
	return data, nil
}
