package runfile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
)

// Manifest is the list of a driver's files and their destinations.
type Manifest struct {
	// Name is the caller's name for the manifest; errors begin with it.
	Name string
	// Description is line 1, for people.
	Description string
	// Version is line 2: the authoritative version of the driver, in its original text.
	Version string
	// Modules is line 4: the kernel modules of the driver, for instance nvidia and nvidia-uvm.
	Modules []string
	// Entries are the lines from the ninth on, in their order.
	Entries []Entry
}

// The values of Entry.Arch: the two library trees of a manifest. Entries whose type has no
// architecture have "".
const (
	Native   = "NATIVE"
	Compat32 = "COMPAT32"
)

// Entry is one line.
type Entry struct {
	// Line is counted from 1.
	Line int
	// File is the member in the tar, cleaned. For links it is the link's own name.
	File string
	// Mode is the permission, with fs.ModeSetuid only on nvidia-modprobe; 0 for links.
	Mode fs.FileMode
	// Type is one of NVIDIA's, for instance CUDA_LIB.
	Type, Arch string
	// TLS is CLASSIC, NEW or empty; GLVND is GLVND, NON_GLVND or empty: alternatives of the same
	// library.
	TLS, GLVND string
	// Path is the path word as written; empty where there is none. The type decides what it is
	// relative to.
	Path string
	// Depth is n of INHERIT_PATH_DEPTH:n, the number of leading directories of File that the
	// destination omits.
	Depth int
	// Target is what a link points to, as written.
	Target string
	// Tag is the component after MODULE:, for instance gpgpu; empty where there is none.
	Tag string
}

// Link reports whether the entry is a symbolic link, which has no member in the tar.
func (e Entry) Link() bool { return isLinkType(e.Type) }

// Bounds on a manifest: the largest real ones have 1,200 lines of at most 200 bytes.
const (
	maxManifestBytes = 8 << 20
	maxManifestLine  = 4096
	maxEntries       = 20000
	manifestHeader   = 8
	maxPathDepth     = 16
)

// moduleName matches names that are safe in a dkms.conf.
var moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// ParseManifest reads a manifest. name is for messages. A mistake is an [ErrManifest] that names
// the line. An unknown type is a mistake, as in NVIDIA's own installer: the driver might not work
// without the files of that type.
func ParseManifest(name string, r io.Reader) (*Manifest, error) {
	m := &Manifest{Name: name}
	limited := &io.LimitedReader{R: r, N: maxManifestBytes + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, maxManifestLine), maxManifestLine)
	line := 0
	for lines.Scan() {
		line++
		text := string(bytes.TrimSuffix(lines.Bytes(), []byte("\r")))
		if line <= manifestHeader {
			if err := m.header(line, text); err != nil {
				return nil, err
			}
			continue
		}
		// A blank line ends the list; NVIDIA's installer does not read further either.
		if strings.TrimSpace(text) == "" {
			break
		}
		e, err := m.entry(line, text)
		if err != nil {
			return nil, err
		}
		if len(m.Entries) == maxEntries {
			return nil, m.errorf(Entry{Line: line}, "more than %d entries", maxEntries)
		}
		m.Entries = append(m.Entries, e)
	}
	switch err := lines.Err(); {
	case err == bufio.ErrTooLong: //nolint:errorlint // Scanner returns it bare
		return nil, m.errorf(
			Entry{Line: line + 1},
			"the line has more than %d bytes",
			maxManifestLine,
		)
	case err != nil:
		return nil, fmt.Errorf("read manifest %s: %w", name, err)
	case limited.N == 0:
		return nil, m.errorf(
			Entry{Line: line},
			"the manifest has more than %d bytes",
			maxManifestBytes,
		)
	case line < manifestHeader:
		return nil, m.errorf(
			Entry{Line: line},
			"the manifest ends within its %d header lines",
			manifestHeader,
		)
	}
	return m, nil
}

// errorf returns an error about an entry or, when only its Line is set, about a line.
func (m *Manifest) errorf(e Entry, format string, args ...any) error {
	where := fmt.Sprintf("%s:%d", m.Name, e.Line)
	if e.File != "" {
		where += fmt.Sprintf(": file %q", clip(e.File))
	}
	if e.Type != "" {
		where += fmt.Sprintf(" of type %q", clip(e.Type))
	}
	return fmt.Errorf("%s: %s (%w)", where, fmt.Sprintf(format, args...), ErrManifest)
}

// header parses one of the first eight lines. Lines 3 and 5 to 8 have values that only old
// installers used.
func (m *Manifest) header(line int, text string) error {
	if !printable(text) {
		return m.errorf(Entry{Line: line}, "the line holds unprintable bytes")
	}
	switch line {
	case 1:
		m.Description = strings.TrimSpace(text)
	case 2:
		m.Version = strings.TrimSpace(text)
		if !validVersion(m.Version) {
			return m.errorf(Entry{Line: line}, "%q is not a driver version", clip(m.Version))
		}
	case 4:
		m.Modules = strings.Fields(text)
		for _, module := range m.Modules {
			if !moduleName.MatchString(module) {
				return m.errorf(Entry{Line: line}, "%q is not a module name", clip(module))
			}
		}
	}
	return nil
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
