package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/kmod/kmsg"
	"github.com/driver-container/driver-container/node/devices"
)

// Limits of the list: that of 535 has 330 kB and 2192 rows.
const (
	maxList = 16 << 20
	maxRows = 100_000
	maxName = 100
)

// Features of a row that are used here. The second was added to the lists of 560: among the GPUs of
// the open modules, it marks those that the proprietary modules drive as well. In a list without
// it, the proprietary modules drive all GPUs.
const (
	featureOpen        = "kernelopen"
	featureProprietary = "gsp_proprietary_supported"
)

// Chip is the list's information about a GPU.
type Chip struct {
	Name string
	// Legacy is the newest branch that drives it, "470.xx", when this driver does not; ""
	// otherwise.
	Legacy      string
	Open        bool // the open modules drive it
	Proprietary bool // the proprietary modules drive it
}

// chipID is the key of a row; the subsystem is zero in a row for all boards of a chip.
type chipID struct{ device, subVendor, subDevice uint16 }

// Supported is the driver's list of GPUs. It is only a hint: NVIDIA's own lists lack GPUs that the
// driver supports (the T4 in those of 525 to 555). The zero value knows no GPU.
type Supported struct {
	boards map[chipID]Chip
	// the row of a chip, or else its first row, for boards that are not listed
	chips  map[uint16]Chip
	driven map[uint16]bool // families of which this driver, not an older one, drives a GPU
}

// family returns the device numbers to which a number belongs. NVIDIA gives them to a chip in
// blocks of 64: its installer's own ranges are such blocks (see needsOpen), and in the list of 535
// no block since Maxwell (1,100 numbers) mixes GPUs that the driver supports with GPUs of older
// branches.
func family(device uint16) uint16 { return device &^ 0x3f }

// Drives says whether the driver supports another GPU of the same chip: then it supports this one,
// listed or not, because a driver knows chips and not boards.
func (s Supported) Drives(g devices.GPU) bool { return s.driven[family(g.Device)] }

// Len returns the number of rows.
func (s Supported) Len() int { return len(s.boards) }

// Lookup finds a GPU: the row of its board, or else one of its chip (all rows of a chip agree in
// these fields).
func (s Supported) Lookup(g devices.GPU) (Chip, bool) {
	if c, ok := s.boards[chipID{g.Device, g.SubVendor, g.SubDevice}]; ok {
		return c, true
	}
	c, ok := s.chips[g.Device]
	return c, ok
}

// ReadSupported reads the list of a driver, at most 16 MiB. The error wraps fs.ErrNotExist when the
// image has no list, as with old Debian packages.
func ReadSupported(path string) (Supported, error) {
	data, err := bounded.Text(path, maxList)
	if err != nil {
		return Supported{}, fmt.Errorf("read the driver's list of GPUs: %w", err)
	}
	s, err := ParseSupported([]byte(data))
	if err != nil {
		return Supported{}, fmt.Errorf("read the driver's list of GPUs %s: %w", path, err)
	}
	return s, nil
}

type row struct {
	DevID       string   `json:"devid"`
	SubVendorID string   `json:"subvendorid"`
	SubDevID    string   `json:"subdevid"`
	Name        string   `json:"name"`
	Legacy      string   `json:"legacybranch"`
	Features    []string `json:"features"`
}

// ParseSupported parses the text of a list. It skips rows whose numbers are not valid: the list is
// a hint, and one bad row must not remove the others.
func ParseSupported(data []byte) (Supported, error) {
	var list struct {
		Chips []row `json:"chips"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return Supported{}, fmt.Errorf("not a list of GPUs: %w", err)
	}
	if n := len(list.Chips); n > maxRows {
		return Supported{}, fmt.Errorf("not a list of GPUs: %d rows, more than %d", n, maxRows)
	}
	marked := slices.ContainsFunc(
		list.Chips,
		func(r row) bool { return slices.Contains(r.Features, featureProprietary) },
	)
	s := Supported{boards: map[chipID]Chip{}, chips: map[uint16]Chip{}, driven: map[uint16]bool{}}
	for _, r := range list.Chips {
		id, ok := r.id()
		if !ok {
			continue
		}
		open := slices.Contains(r.Features, featureOpen)
		c := Chip{
			Name: printable(r.Name), Legacy: printable(r.Legacy), Open: open,
			Proprietary: !open || !marked || slices.Contains(r.Features, featureProprietary),
		}
		s.boards[id] = c
		s.driven[family(id.device)] = s.driven[family(id.device)] || c.Legacy == ""
		if _, ok := s.chips[id.device]; !ok || id.subVendor == 0 && id.subDevice == 0 {
			s.chips[id.device] = c
		}
	}
	return s, nil
}

func (r row) id() (id chipID, ok bool) {
	var err error
	number := func(s string) uint16 {
		if s == "" {
			return 0
		}
		n, e := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(s), "0x"), 16, 16)
		if e != nil {
			err = e
		}
		return uint16(n)
	}
	id = chipID{number(r.DevID), number(r.SubVendorID), number(r.SubDevID)}
	return id, err == nil && r.DevID != ""
}

// printable makes a text from outside fit for one line of a terminal.
func printable(s string) string { return kmsg.Printable(s[:min(len(s), maxName)]) }
