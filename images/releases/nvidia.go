package releases

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Address is where NVIDIA publishes the releases for data centers in machine-readable form.
const Address = "https://docs.nvidia.com/datacenter/tesla/drivers/releases.json"

// MaxSize is the most bytes that Parse and ParseIndex read. NVIDIA's file has about 100 KB.
const MaxSize = 4 << 20

// ErrFormat says that a text is neither a list of releases nor a list of checksums.
var ErrFormat = errors.New("not in the expected format")

const (
	maxBranches = 500
	maxReleases = 2000 // of a branch
	maxNotes    = 20
	maxURL      = 1024
)

// The forms of values. They are narrow on purpose: versions and URLs become part of matrix.yaml.
var (
	versionShape = regexp.MustCompile(`^[1-9][0-9]{2,3}(\.[0-9]{1,4}){1,2}$`)
	branchShape  = regexp.MustCompile(`^R[1-9][0-9]{2,3}$`)
	sumShape     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	urlShape     = regexp.MustCompile(`^https?://[A-Za-z0-9.:-]+/[A-Za-z0-9._~/%+-]+$`)
)

// document is the form of NVIDIA's file: by branch ("535"). Fields that differ between entries stay raw.
type document map[string]struct {
	Type string            `json:"type"` // "lts branch", "production branch", "new feature branch"
	Info []json.RawMessage `json:"driver_info"`
}

type entry struct {
	Version  string          `json:"release_version"`
	Date     string          `json:"release_date"`
	Notes    string          `json:"release_notes"`
	RunFiles json.RawMessage `json:"runfile_url"` // by architecture ("x86_64"); a single address in some entries
}

// Parse parses NVIDIA's releases.json. It omits entries with an unknown form and names them in notes. A text
// that is not such a file, or has no entry with a known form, is ErrFormat. The file is not signed and has no
// checksums: its content may only inform people and provide an address.
func Parse(text []byte) (t *Table, notes []string, err error) {
	if len(text) > MaxSize {
		return nil, nil, fmt.Errorf("%w: %d bytes are too many for a list of releases (at most %d)", ErrFormat, len(text), MaxSize)
	}
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, nil, fmt.Errorf("%w: no list of releases as NVIDIA publishes it: %w", ErrFormat, err)
	}
	if len(doc) > maxBranches {
		return nil, nil, fmt.Errorf("%w: %d branches are too many (at most %d)", ErrFormat, len(doc), maxBranches)
	}
	note := func(format string, args ...any) {
		if len(notes) < maxNotes {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	all := new(Table)
	found := 0
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		b := Branch{Name: "R" + strings.TrimLeft(strings.TrimSpace(key), "Rr"), Kind: kindOf(doc[key].Type)}
		if !branchShape.MatchString(b.Name) {
			note("left out %.40q: no branch of drivers", key)
			continue
		}
		info := doc[key].Info
		if len(info) > maxReleases {
			note("left out all but %d of %d releases of %s", maxReleases, len(info), b.Name)
			info = info[:maxReleases]
		}
		for _, raw := range info {
			r, err := parseEntry(raw)
			if err == nil && BranchOf(r.Version) != b.Name {
				err = fmt.Errorf("%s is not of this branch", r.Version)
			}
			if err != nil {
				note("left out an entry of %s: %v", b.Name, err)
				continue
			}
			b.Releases = append(b.Releases, r)
			found++
		}
		all.put(b)
	}
	if found == 0 {
		return nil, notes, fmt.Errorf("%w: no release in it", ErrFormat)
	}
	return all, notes, nil
}

func parseEntry(raw json.RawMessage) (Release, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return Release{}, errors.New("it is no release")
	}
	if !versionShape.MatchString(e.Version) {
		return Release{}, fmt.Errorf("%.40q is no driver version", e.Version)
	}
	r := Release{Version: e.Version}
	if _, err := time.Parse(time.DateOnly, e.Date); err == nil {
		r.Date = e.Date
	}
	if u, err := url.Parse(e.Notes); err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && len(e.Notes) <= maxURL {
		r.Notes = u.String()
	}
	byArch := map[string]string{}
	var one string
	if json.Unmarshal(e.RunFiles, &byArch) != nil && json.Unmarshal(e.RunFiles, &one) == nil {
		byArch = map[string]string{"x86_64": one}
	}
	for _, name := range slices.Sorted(maps.Keys(byArch)) {
		arch, known := archOf(name)
		if _, twice := r.Archive(arch); known && !twice && isRun(byArch[name]) {
			r.Archives = append(r.Archives, Archive{Arch: arch, URL: byArch[name]})
		}
	}
	return r, nil
}

func kindOf(text string) Kind {
	text = strings.ToLower(text)
	switch {
	case strings.Contains(text, "lts"), strings.Contains(text, "long"):
		return LongTerm
	case strings.Contains(text, "production"):
		return Production
	case strings.Contains(text, "feature"):
		return NewFeature
	case strings.Contains(text, "legacy"):
		return Legacy
	}
	return ""
}

// archOf returns Go's name for NVIDIA's name of an architecture.
func archOf(name string) (string, bool) {
	switch strings.ToLower(name) {
	case "x86_64", "amd64":
		return "amd64", true
	case "aarch64", "arm64", "sbsa":
		return "arm64", true
	}
	return "", false
}

// isRun accepts the plain URL of a .run file.
func isRun(text string) bool {
	return len(text) <= maxURL && urlShape.MatchString(text) && strings.HasSuffix(text, ".run")
}
