package gpulist

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/driver-container/driver-container/distros"
)

// UnknownError is a text that names no GPU of the list.
type UnknownError struct {
	Text    string
	Nearest []string // names that resemble it
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("GPU %q is not in the list", e.Text)
	if len(e.Nearest) > 0 {
		text += "; did you mean " + strings.Join(e.Nearest, ", ") + "?"
	}
	return text
}

// VendorError is the number of a device of another vendor.
type VendorError struct{ Text, Vendor string }

func (e *VendorError) Error() string {
	return fmt.Sprintf("%q is a device of vendor %s, not of NVIDIA (%04x)", e.Text, e.Vendor, Vendor)
}

// maxText is the length of a text that can name a GPU: the longest name has half of it.
const maxText = 128

// number matches the number of a device with or without its vendor: "10de:1eb8", "1eb8",
// "0x1EB8", "10DE1EB8".
var number = regexp.MustCompile(`^(?i)(?:(?:0x)?([0-9a-f]{4})[:-]?)?(?:0x)?([0-9a-f]{4})$`)

// DeviceOf returns the device number in a text such as "10de:1eb8", "1eb8" or "0x1EB8". ok is false if the
// text is no number. A number of another vendor is a [VendorError].
func DeviceOf(text string) (device uint16, ok bool, err error) {
	m := number.FindStringSubmatch(text)
	if m == nil {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(m[2], 16, 16)
	if err != nil {
		return 0, false, nil //nolint:nilerr // not reached: four hexadecimal digits
	}
	if v := strings.ToLower(m[1]); v != "" && v != fmt.Sprintf("%04x", Vendor) {
		return 0, true, &VendorError{Text: text, Vendor: v}
	}
	return uint16(n), true, nil
}

// Find returns the GPUs that a text means: a device number (see [DeviceOf]); a whole name, in any case and
// with spaces or dashes ("Tesla T4", "NVIDIA-A100-SXM4-40GB"); the name of a chip or generation; or else some
// words of a name ("rtx 2080"). The error for a text without a GPU is an [UnknownError] or a [VendorError].
func Find(text string) ([]GPU, error) {
	if len(text) > maxText {
		return nil, &UnknownError{Text: text[:maxText] + "..."}
	}
	device, isNumber, err := DeviceOf(text)
	if err != nil {
		return nil, err
	}
	if g, ok := Lookup(device); isNumber && ok {
		return []GPU{g}, nil
	}
	wanted := words(text)
	if found := matching(wanted); len(found) > 0 {
		return found, nil
	}
	if isNumber {
		return nil, &UnknownError{Text: text}
	}
	return nil, &UnknownError{Text: text, Nearest: nearest(text)}
}

// named is a GPU with the words of its names.
type named struct {
	GPU
	names []string
}

// searchable is the list for searches, made once: a fleet asks for thousands of names.
var searchable = sync.OnceValues(func() (all []named, whole map[string][]GPU) {
	whole = map[string][]GPU{}
	for _, g := range All() {
		n := named{GPU: g}
		for _, name := range g.Names() {
			w := words(name)
			if slices.Contains(n.names, w) {
				continue
			}
			n.names = append(n.names, w)
			whole[w] = append(whole[w], g)
		}
		all = append(all, n)
	}
	return all, whole
})

func matching(wanted string) []GPU {
	all, whole := searchable()
	if wanted == "" {
		return nil
	}
	var kind, part []GPU
	for _, g := range all {
		switch {
		case wanted == words(g.Generation) || strings.EqualFold(wanted, g.Chip):
			kind = append(kind, g.GPU)
		case slices.ContainsFunc(g.names, func(n string) bool { return strings.Contains(" "+n+" ", " "+wanted+" ") }):
			part = append(part, g.GPU)
		}
	}
	for _, found := range [][]GPU{kind, whole[wanted]} {
		if len(found) > 0 {
			return found
		}
	}
	return part
}

// words returns the words of a name in lower case with single spaces between them. The vendor's name, which
// newer lists begin names with, is left out.
func words(name string) string {
	fields := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(fields) > 1 && fields[0] == "nvidia" {
		fields = fields[1:]
	}
	return strings.Join(fields, " ")
}

// nearest returns names that resemble a text.
func nearest(text string) []string {
	var names []string
	for _, g := range All() {
		for _, n := range g.Names() {
			if n = strings.TrimPrefix(n, "NVIDIA "); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return distros.Nearest(strings.TrimPrefix(text, "NVIDIA "), append(names, Generations()...))
}
