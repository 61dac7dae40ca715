package releases

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
)

// Address is where NVIDIA publishes the releases for data centers in machine-readable form.
const Address = "https://docs.nvidia.com/datacenter/tesla/drivers/releases.json"

// maxList is the most bytes of the list that Load reads. NVIDIA's file has about 100 KB.
const maxList = 4 << 20

// ErrFormat says that a text is no list of releases.
var ErrFormat = failure.New(failure.Usage, "no list of releases as NVIDIA publishes it")

const (
	maxNotes = 20
	maxURL   = 1024
	// publicPatience bounds questions to NVIDIA's servers that the user did not ask for: the
	// built-in table is there.
	publicPatience = 15 * time.Second
)

// Source is where NVIDIA's list of releases, or a manifest of its redist folder, is read.
type Source struct {
	Address string // "": the public one, where it can be reached
	Name    string // what messages call the address
	None    bool   // none at all: the built-in table alone
	Offline bool   // the list comes from an earlier download

	// Read reads the newest state of a file, of at most so many bytes.
	Read func(ctx context.Context, address string, limit int64) ([]byte, error)
}

// read reads what the user named, or else a public file, for which nobody waits long.
func (s Source) read(ctx context.Context, public string, limit int64) ([]byte, error) {
	if s.Address != "" {
		return s.Read(ctx, s.Address, limit)
	}
	limited, cancel := context.WithTimeoutCause(
		ctx,
		publicPatience,
		fmt.Errorf("%w within %v", fetch.ErrUnreachable, publicPatience),
	)
	defer cancel()
	text, err := s.Read(limited, public, limit)
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited)
	}
	return text, err
}

// Load joins the built-in table with NVIDIA's list. A list that the caller names and that is not
// available is an error, and so is a malformed list. The public list may be missing: a note says
// so.
func Load(ctx context.Context, s Source) (t *Table, notes []string, err error) {
	if s.None {
		return Builtin(), nil, nil
	}
	t, notes, err = s.list(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case err != nil && s.Address != "":
		return nil, nil, fmt.Errorf("--releases %s: %w", s.Name, err)
	case err != nil:
		note := fmt.Sprintf("NVIDIA's list of releases could not be read, the built-in table is used: %v", err)
		return Builtin(), []string{note}, nil
	}
	for i := range notes {
		notes[i] = cmp.Or(s.Address, Address) + ": " + notes[i]
	}
	if s.Offline && s.Address == "" {
		notes = slices.Insert(notes, 0, "NVIDIA's list of releases is that of the last download (--offline)")
	}
	return Builtin().Merge(t), notes, nil
}

// list reads the list.
func (s Source) list(ctx context.Context) (t *Table, notes []string, err error) {
	text, err := s.read(ctx, Address, maxList)
	if err != nil {
		return nil, nil, err
	}
	return Parse(text)
}

// The forms of values. They are narrow on purpose: URLs become part of matrix.yaml.
var (
	branchShape = regexp.MustCompile(`^R[1-9][0-9]{2,3}$`)
	urlShape    = regexp.MustCompile(`^https?://[A-Za-z0-9.:-]+/[A-Za-z0-9._~/%+-]+\.run$`)
	notesShape  = regexp.MustCompile(`^https://[A-Za-z0-9.:-]+(/[!-~]*)?$`)
	typeWord    = regexp.MustCompile(`lts|long|production|feature|legacy`)
)

// Parse parses NVIDIA's releases.json. It omits entries with an unknown form and names them in
// notes. A text that is not such a file, or has no entry with a known form, is ErrFormat. The file
// is not signed and has no checksums: its content may only inform people and provide an address.
func Parse(text []byte) (t *Table, notes []string, err error) {
	var doc map[string]struct { // by branch ("535"); fields that differ between entries stay raw
		// "lts branch", "production branch", "new feature branch"
		Type string            `json:"type"`
		Info []json.RawMessage `json:"driver_info"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	note := func(format string, args ...any) {
		if len(notes) < maxNotes {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	t = new(Table)
	found := 0
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		b := Branch{
			Name: "R" + strings.TrimLeft(strings.TrimSpace(key), "Rr"),
			Type: typeOf(doc[key].Type),
		}
		if !branchShape.MatchString(b.Name) {
			note("left out %.40q: no branch of drivers", key)
			continue
		}
		for _, raw := range doc[key].Info {
			r, err := parseEntry(raw, b.Name)
			if err != nil {
				note("left out an entry of %s: %v", b.Name, err)
				continue
			}
			b.Releases = append(b.Releases, r)
			found++
		}
		t.add(b)
	}
	if found == 0 {
		return nil, notes, fmt.Errorf("%w: no release in it", ErrFormat)
	}
	return t, notes, nil
}

// parseEntry reads a release of a branch. It leaves out a date and addresses of another form.
func parseEntry(raw json.RawMessage, branch string) (r Release, err error) {
	var e struct {
		Version string `json:"release_version"`
		Date    string `json:"release_date"`
		Notes   string `json:"release_notes"`
		// by architecture ("x86_64"); a single address in some entries
		RunFiles json.RawMessage `json:"runfile_url"`
	}
	switch err := json.Unmarshal(raw, &e); {
	case err != nil:
		return r, errors.New("it is no release")
	case !matrix.HasForm("version", e.Version):
		return r, fmt.Errorf("%.40q is no driver version", e.Version)
	case BranchOf(e.Version) != branch:
		return r, fmt.Errorf("%s is not of this branch", e.Version)
	}
	r = Release{Version: e.Version, Date: e.Date, Notes: e.Notes}
	if _, err := time.Parse(time.DateOnly, e.Date); err != nil {
		r.Date = ""
	}
	if len(e.Notes) > maxURL || !notesShape.MatchString(e.Notes) {
		r.Notes = ""
	}
	byArch := map[string]string{}
	var one string
	if json.Unmarshal(e.RunFiles, &byArch) != nil && json.Unmarshal(e.RunFiles, &one) == nil {
		byArch["x86_64"] = one
	}
	for _, known := range runNames {
		address := byArch[known.name]
		_, twice := r.Archive("", known.arch)
		if !twice && len(address) <= maxURL && urlShape.MatchString(address) {
			r.Archives = append(r.Archives, Archive{Arch: known.arch, URL: address})
		}
	}
	return r, nil
}

// runNames are the names of architectures in the list, the usual one first.
var runNames = []struct{ name, arch string }{
	{"x86_64", "amd64"},
	{"amd64", "amd64"},
	{"aarch64", "arm64"},
	{"arm64", "arm64"},
	{"sbsa", "arm64"},
}

// typeOf reads the words of NVIDIA's list: "lts branch".
func typeOf(text string) BranchType {
	types := map[string]BranchType{
		"lts": LongTerm, "long": LongTerm, "production": Production, "feature": NewFeature, "legacy": Legacy,
	}
	return types[typeWord.FindString(strings.ToLower(text))]
}
