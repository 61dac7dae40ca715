package fabric

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Port is an InfiniBand port through which NVLink 5 switches are managed.
type Port struct {
	Device string // "mlx5_0"
	Number int
	GUID   uint64
}

func (p Port) String() string { return fmt.Sprintf("%s port %d", p.Device, p.Number) }

// guid returns the GUID as the programs take it.
func (p Port) guid() string { return fmt.Sprintf("0x%016x", p.GUID) }

const (
	smDisabled = 1 << 10 // IB_PORT_SM_DISABLED of the kernel's ib_port_capability_mask_bits
	maxSmall   = 256     // bytes of a file of sysfs with one value
)

// Ports returns the ports by which a subnet manager can manage the switches, in the order in which
// NVIDIA's start script looks at them: devices by name as a shell sorts them, then ports by number.
// It is the first that counts. The error says what is missing.
func (m Machine) Ports(sys string) ([]Port, error) {
	dir := filepath.Join(sys, "class/infiniband")
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for the management port of the NVLink switches: %w", err)
	}
	var usable []Port
	var refused []string
	for _, e := range entries {
		target, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name(), "device"))
		if err != nil || !slices.Contains(m.Bridges, filepath.Base(target)) {
			continue
		}
		ports, reasons := portsOf(dir, e.Name())
		usable = append(usable, ports...)
		refused = append(refused, reasons...)
	}
	if len(usable) == 0 {
		if len(refused) == 0 {
			refused = []string{
				fmt.Sprintf("%s has no InfiniBand device", strings.Join(m.Bridges, ", ")),
			}
		}
		return nil, fmt.Errorf(
			"no port can manage the NVLink switches: %s; load mlx5_core and mlx5_ib on the node, and look at the kernel's log",
			strings.Join(refused, "; "),
		)
	}
	return usable, nil
}

// portsOf returns the ports of a device, and why others cannot be used.
func portsOf(dir, device string) (usable []Port, refused []string) {
	entries, err := os.ReadDir(filepath.Join(dir, device, "ports"))
	if err != nil {
		return nil, []string{err.Error()}
	}
	var numbers []int
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		port, err := readPort(filepath.Join(dir, device, "ports", strconv.Itoa(n)))
		port.Device = device
		port.Number = n
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", port, err))
			continue
		}
		usable = append(usable, port)
	}
	return usable, refused
}

// readPort reads a port's folder.
func readPort(dir string) (Port, error) {
	layer, err := bounded.Text(filepath.Join(dir, "link_layer"), maxSmall)
	if err == nil && strings.TrimSpace(layer) != "InfiniBand" {
		return Port{}, fmt.Errorf("its link layer is %q, not InfiniBand", strings.TrimSpace(layer))
	}
	text, err := bounded.Text(filepath.Join(dir, "cap_mask"), maxSmall)
	if err != nil {
		return Port{}, err
	}
	mask, err := strconv.ParseUint(strings.TrimSpace(text), 0, 32)
	if err != nil {
		return Port{}, fmt.Errorf("its capability mask is not a number: %w", err)
	}
	if mask&smDisabled != 0 {
		return Port{}, errors.New("it does not allow a subnet manager (IsSMDisabled)")
	}
	text, err = bounded.Text(filepath.Join(dir, "gids/0"), maxSmall)
	if err != nil {
		return Port{}, err
	}
	guid, err := parseGUID(text)
	return Port{GUID: guid}, err
}

// parseGUID returns the port's GUID, the lower half of its first GID.
func parseGUID(gid string) (uint64, error) {
	a, err := netip.ParseAddr(strings.TrimSpace(gid))
	if err != nil || !a.Is6() || a.Zone() != "" {
		return 0, fmt.Errorf("its GID %.64q is not one", strings.TrimSpace(gid))
	}
	b := a.As16()
	guid := binary.BigEndian.Uint64(b[8:])
	if guid == 0 {
		return 0, errors.New("it has no GUID yet")
	}
	return guid, nil
}
