package vgpu

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/node/devices"
)

// Places in the configuration space of a PCI device, and in the vendor's own capability of a vGPU: its record
// 0 names the host's driver. NVIDIA's vgpu-util reads the same.
const (
	statusByte     = 0x06
	hasList        = 0x10
	listPointer    = 0x34
	vendorSpecific = 0x09
	firstRecord    = 5 // after id, next, length and the signature
	hostRecord     = 0
	wordLength     = 10 // of version and branch each, filled up with zeros
	configSize     = 256
)

var signature = [2]byte{'V', 'F'}

// maxConfigSpace bounds what is read of a configuration space: PCI Express has 4 KiB.
const maxConfigSpace = 4096

// ErrConfigSpace says that a configuration space holds what no device may hold.
var ErrConfigSpace = errors.New("malformed configuration space")

// Host is the driver of the host that a vGPU comes from. Both are "" if the host does not name it.
type Host struct {
	Version string // "550.144.02"
	Branch  string // "R550_00"
}

// word matches what versions and branches consist of.
var word = lazyregexp.New(`^[A-Z0-9][A-Z0-9._-]{0,9}$`)

// Parse reads a configuration space. guest is false for a device that is no vGPU, or whose host is older than
// vGPU software 12, which does not say so. Errors are ErrConfigSpace.
func Parse(config []byte) (h Host, guest bool, err error) {
	if len(config) < configSize {
		return Host{}, false, fmt.Errorf("%w: only %d bytes can be read: this needs a privileged container", ErrConfigSpace, len(config))
	}
	config = config[:configSize]
	c, err := vendorCapability(config)
	if err != nil || len(c) < firstRecord || [2]byte(c[3:5]) != signature {
		return Host{}, false, err
	}
	for pos := firstRecord; pos+1 < len(c); {
		id, length := c[pos], int(c[pos+1])
		switch {
		case length < 2 || pos+length > len(c):
			return Host{}, true, fmt.Errorf("%w: record %d of the vGPU at byte %d has the length %d, of %d bytes that there are", ErrConfigSpace, id, pos, length, len(c))
		case id != hostRecord:
			pos += length
			continue
		case length < 2+2*wordLength:
			return Host{}, true, fmt.Errorf("%w: the record of the host's driver has %d bytes, it needs %d", ErrConfigSpace, length, 2+2*wordLength)
		}
		text := c[pos+2 : pos+2+2*wordLength]
		h.Version, h.Branch = trimmed(text[:wordLength]), trimmed(text[wordLength:])
		for _, w := range []string{h.Version, h.Branch} {
			if !word().MatchString(w) {
				return Host{}, true, fmt.Errorf("%w: %q is no version and no branch of a host's driver", ErrConfigSpace, w)
			}
		}
		return h, true, nil
	}
	return Host{}, true, nil
}

// vendorCapability returns the first capability of the vendor's own, nil for none. A list that loops, or
// leads into the header or over the end, is an error.
func vendorCapability(config []byte) ([]byte, error) {
	if config[statusByte]&hasList == 0 {
		return nil, nil
	}
	var seen [configSize]bool
	for pos := int(config[listPointer]) &^ 3; pos != 0; pos = int(config[pos+1]) &^ 3 {
		switch {
		case pos < 0x40 || pos+3 > len(config):
			return nil, fmt.Errorf("%w: a capability is at byte %d", ErrConfigSpace, pos)
		case seen[pos]:
			return nil, fmt.Errorf("%w: the list of capabilities loops at byte %d", ErrConfigSpace, pos)
		case config[pos] == 0xff:
			return nil, nil // the device does not answer
		}
		seen[pos] = true
		if config[pos] != vendorSpecific {
			continue
		}
		length := int(config[pos+2])
		if length < 3 || pos+length > len(config) {
			return nil, fmt.Errorf("%w: the vendor's capability at byte %d has the length %d", ErrConfigSpace, pos, length)
		}
		return config[pos : pos+length], nil
	}
	return nil, nil
}

// trimmed is a text without the zeros and blanks around it, in capital letters.
func trimmed(text []byte) string {
	return strings.ToUpper(strings.Trim(string(text), "\x00 "))
}

// Guest is a GPU of this machine that is a vGPU.
type Guest struct {
	GPU  devices.GPU
	Host Host
}

// Detect returns those of the GPUs that are vGPUs. Configuration spaces that cannot be read or understood are
// errors; the other GPUs are in the list all the same. sys is a mounted sysfs.
func Detect(sys string, gpus []devices.GPU) (guests []Guest, err error) {
	var errs []error
	for _, g := range gpus {
		if g.Silent {
			continue
		}
		h, guest, err := Parse(bounded.Head(filepath.Join(sys, "bus/pci/devices", g.Address, "config"), maxConfigSpace))
		if err != nil {
			errs = append(errs, fmt.Errorf("GPU %s: %w", g.Address, err))
		}
		if guest {
			guests = append(guests, Guest{GPU: g, Host: h})
		}
	}
	return guests, errors.Join(errs...)
}
