package gpus

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

// maxText is the length of a text that can name a GPU: the longest name has half of it.
const maxText = 128

// number matches the number of a device with or without its vendor: "10de:1eb8", "1eb8",
// "0x1EB8", "10DE1EB8".
var number = regexp.MustCompile(`^(?i)(?:(?:0x)?([0-9a-f]{4})[:-]?)?(?:0x)?([0-9a-f]{4})$`)

// Find returns the GPUs that a text of a person means: a device number with or without its vendor,
// the name of a chip or generation, or words of a name in any case ("rtx 2080"), the GPUs with
// exactly that name first. A number that is not in the list is a GPU that is not known.
func Find(text string) ([]GPU, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("GPU %q is not in the list", text[:maxText]+"...")
	}
	m := number.FindStringSubmatch(text)
	if m != nil && m[1] != "" && !strings.EqualFold(m[1], fmt.Sprintf("%04x", Vendor)) {
		return nil, fmt.Errorf("%q is a device of vendor %s, not of NVIDIA (%04x)", text, strings.ToLower(m[1]), Vendor)
	}
	var device uint64
	if m != nil {
		device, _ = strconv.ParseUint(m[2], 16, 16) // four hexadecimal digits
		if g, ok := Lookup(uint16(device)); ok {
			return []GPU{g}, nil
		}
	}
	wanted := words(text)
	found := ofKind(strings.Join(wanted, " "))
	if len(found) == 0 {
		for _, g := range append(called(text), having(wanted)...) {
			if !slices.ContainsFunc(found, func(o GPU) bool { return o.Device == g.Device }) {
				found = append(found, g)
			}
		}
	}
	switch near := nearest(text); {
	case len(found) > 0:
		return found, nil
	case m != nil:
		return []GPU{Unknown(uint16(device))}, nil
	case len(near) > 0:
		return nil, fmt.Errorf("GPU %q is not in the list; did you mean %s?", text, strings.Join(near, ", "))
	}
	return nil, fmt.Errorf("GPU %q is not in the list", text)
}

// addition is what labels add to a name: part of a GPU (MIG), and shared by time or MPS.
var addition = regexp.MustCompile(`(?i)(-MIG-[0-9a-z.+]+)?(-SHARED)?$`)

// Named returns the GPUs that a label of a node names: GPU feature discovery puts the driver's name
// there, with dashes for spaces and without other signs (NVIDIA-A100-SXM4-40GB-MIG-1g.5gb,
// NVIDIA-TITAN-X-Pascal), clouds put their own (nvidia-tesla-p100, t4). Words at the end that no
// name has are left out, as long as a model is left: "H100 mega 80GB" is an H100. It returns nil
// for a name that says nothing: "80GB", "4".
func Named(label string) []GPU {
	if len(label) > maxText {
		return nil
	}
	name := addition.ReplaceAllString(label, "")
	if found := called(name); len(found) > 0 {
		return found
	}
	for wanted := words(name); hasModel(wanted); wanted = wanted[:len(wanted)-1] {
		if found := having(wanted); len(found) > 0 {
			return found
		}
	}
	return nil
}

// modelWord is a word that can be the model of a GPU: A100, 1080Ti, 6000. Sizes of memory and
// counts are none.
var modelWord = regexp.MustCompile(`^([a-z]+[0-9]|[0-9]{3,})`)

// hasModel reports whether words name a model. A number alone is none: several generations have a
// 4000.
func hasModel(words []string) bool {
	if len(words) == 1 && strings.Trim(words[0], "0123456789") == "" {
		return false
	}
	return slices.ContainsFunc(words, modelWord.MatchString)
}

// nameWords are the words of each name of each GPU of the list, made once: a fleet asks for
// thousands of names.
var nameWords = sync.OnceValue(func() (all [][][]string) {
	for _, g := range All() {
		var names [][]string
		for _, name := range g.Names() {
			names = append(names, words(name))
		}
		all = append(all, names)
	}
	return all
})

// withName returns the GPUs that have a name for which is holds.
func withName(is func(words []string) bool) (found []GPU) {
	for i, names := range nameWords() {
		if slices.ContainsFunc(names, is) {
			found = append(found, All()[i])
		}
	}
	return found
}

// called returns the GPUs with exactly a name, whatever is between its letters: labels lack the
// signs, some of which part words. What the driver calls a GPU that it has no name for is no name.
func called(name string) []GPU {
	whole := strings.Join(words(name), "")
	return withName(func(words []string) bool {
		rest := whole
		ok := whole != "graphicsdevice"
		for i := 0; ok && i < len(words); i++ {
			rest, ok = strings.CutPrefix(rest, words[i])
		}
		return ok && rest == ""
	})
}

// having returns the GPUs one of whose names has all words.
func having(wanted []string) []GPU {
	return withName(func(name []string) bool {
		return len(wanted) > 0 &&
			!slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(name, w) })
	})
}

// ofKind returns the GPUs of a generation or with a chip.
func ofKind(wanted string) (found []GPU) {
	for _, g := range All() {
		if wanted != "" &&
			(wanted == strings.Join(words(g.Generation), " ") || strings.EqualFold(wanted, g.Chip)) {
			found = append(found, g)
		}
	}
	return found
}

// brands are words at the beginning of a name that some lists and clouds have, and others do not.
var brands = []string{"nvidia", "tesla"}

// words returns the words of a name in lower case, without brands.
func words(name string) []string {
	fields := strings.FieldsFunc(
		strings.ToLower(name),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) },
	)
	for len(fields) > 1 && slices.Contains(brands, fields[0]) {
		fields = fields[1:]
	}
	return fields
}

// nearest returns names that resemble a text.
func nearest(text string) []string {
	var names []string
	for _, g := range All() {
		for _, n := range g.Names() {
			n = strings.TrimPrefix(n, "NVIDIA ")
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return distros.Nearest(strings.TrimPrefix(text, "NVIDIA "), append(names, Generations()...))
}
