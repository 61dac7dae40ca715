package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/driver-container/driver-container/node/devices"
)

// SupportedPath is where an image has the driver's own list of GPUs.
const SupportedPath = "/usr/share/nvidia-driver/supported-gpus.json"

// Bounds of the list: that of 535 has 330 kB and 2192 rows.
const (
	maxList = 16 << 20
	maxRows = 100_000
	maxName = 100
)

// The features of a row that matter here. The second came with the lists of 560: of the GPUs that the open modules drive, it
// marks those that the proprietary ones drive as well. Where a list has it nowhere, they drive all of them.
const (
	featureOpen        = "kernelopen"
	featureProprietary = "gsp_proprietary_supported"
)

// Chip is what the list says of a GPU.
type Chip struct {
	Name        string
	Legacy      string // the newest branch that drives it, "470.xx", where this driver does not; "" otherwise
	Open        bool   // the open modules drive it
	Proprietary bool   // the proprietary modules drive it
}

// chipID is the key of a row; the subsystem is zero where a row is for all boards of a chip.
type chipID struct{ device, subVendor, subDevice uint16 }

// Supported is the driver's list of GPUs. It is a hint: NVIDIA's own lists lack GPUs that the driver supports (the T4 in those
// of 525 to 555). The zero value knows none.
type Supported struct {
	boards map[chipID]Chip
	chips  map[uint16]Chip // the row of a chip, or else its first, for boards that are not listed
}

// Len is the number of rows.
func (s Supported) Len() int { return len(s.boards) }

// Lookup finds a GPU: the row of its board, else one of its chip (all rows of a chip agree on what matters here).
func (s Supported) Lookup(g devices.GPU) (Chip, bool) {
	if c, ok := s.boards[chipID{g.Device, g.SubVendor, g.SubDevice}]; ok {
		return c, true
	}
	c, ok := s.chips[g.Device]
	return c, ok
}

// ReadSupported reads the list of a driver, at most 16 MiB. The error wraps fs.ErrNotExist where the image has none, as those
// of old Debian packages.
func ReadSupported(path string) (Supported, error) {
	data, err := readSmall(path, maxList)
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

// ParseSupported reads the text of a list. Rows whose numbers cannot be read are left out: a list is a hint, and one strange row
// must not take the others away.
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
	marked := slices.ContainsFunc(list.Chips, func(r row) bool { return slices.Contains(r.Features, featureProprietary) })
	s := Supported{boards: map[chipID]Chip{}, chips: map[uint16]Chip{}}
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

// printable is a text of the outside, fit for one line of a terminal.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "")
	}
	return s
}
