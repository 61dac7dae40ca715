package dpkg

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/distros/failure"
)

// Bounds of one .deb. The largest packages that a driver image takes are below 1 GiB unpacked and
// have 40000 files.
const (
	maxControl      = 8 << 20 // bytes of control.tar, unpacked; mostly md5sums
	maxControlFiles = 256     // members of control.tar; packages have about ten
	maxData         = 4 << 30 // bytes of data.tar, unpacked
	maxEntries      = 100_000 // members of data.tar
	maxMembers      = 64      // of the archive itself; packages have three, and perhaps signatures
)

// ErrUnsafePath says that an archive has a member that would be outside of the folder it is
// unpacked in, or a member that is not a file, folder or link.
var ErrUnsafePath = failure.New(failure.Content, "unsafe member")

// Deb is a binary package archive, read in one pass from its start to its end.
type Deb struct {
	Control Paragraph // the package's control file
	// all files of control.tar by name: control, md5sums, conffiles, postinst, ...
	Files map[string][]byte
	XZ    compression.OpenXZ // opens data.tar.xz; nil: in Go

	ar     *archive
	ending string // of data.tar
	done   bool
}

// Check compares the package's name, version and architecture with those of the index that named
// it. A package that is another one is ErrFormat.
func (d *Deb) Check(name, version, arch string) error {
	for _, field := range []struct{ name, want string }{{"Package", name}, {"Version", version}, {"Architecture", arch}} {
		if got := d.Control.Get(field.name); got != field.want {
			return malformed(
				"deb: its control file has %s %.100q, the index of the repository %.100q",
				field.name,
				got,
				field.want,
			)
		}
	}
	return nil
}

// OpenDeb reads the archive up to the beginning of its data: format version and control.tar. It
// does not close r. Errors in the archive are ErrFormat or ErrUnsafePath; others are r's own.
func OpenDeb(r io.Reader) (*Deb, error) {
	a, err := newArchive(bufio.NewReaderSize(r, 256<<10))
	if err != nil {
		return nil, fmt.Errorf("deb: %w", err)
	}
	d := &Deb{ar: a, Files: map[string][]byte{}}
	err = d.readBeginning()
	if err != nil {
		return nil, fmt.Errorf("deb: %w", err)
	}
	return d, nil
}

func (d *Deb) readBeginning() error {
	err := d.readVersion()
	if err != nil {
		return err
	}
	err = d.readControl()
	if err != nil {
		return err
	}
	d.ending, err = d.next("data.tar")
	return err
}

// next goes to the next member, whose name must begin with want, and returns the rest of its name.
// It skips those that deb(5) tells readers to ignore (names that begin with an underscore).
func (d *Deb) next(want string) (ending string, err error) {
	for range maxMembers {
		m, err := d.ar.next()
		if errors.Is(err, io.EOF) {
			err = malformed("ends before %s", want)
		}
		if err != nil {
			return "", err
		}
		ending, ok := strings.CutPrefix(m.name, want)
		switch {
		case ok:
			return ending, nil
		case !strings.HasPrefix(m.name, "_"):
			return "", malformed("there is a member %q, want %s", m.name, want)
		}
	}
	return "", malformed("more than %d members before %s", maxMembers, want)
}

func (d *Deb) readVersion() error {
	m, err := d.ar.next()
	if errors.Is(err, io.EOF) {
		err = malformed("it is empty")
	}
	if err != nil {
		return fmt.Errorf("first member: %w", err)
	}
	if m.name != "debian-binary" || m.size > 64 {
		return malformed("the first member is %q (%d bytes), want debian-binary", m.name, m.size)
	}
	text, err := io.ReadAll(d.ar)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = malformed("%w", err)
	}
	if err != nil {
		return fmt.Errorf("debian-binary: %w", err)
	}
	if !strings.HasPrefix(string(text), "2.") || !strings.Contains(string(text), "\n") {
		return malformed("format version is %.16q, want 2.x", text)
	}
	return nil
}

func (d *Deb) readControl() error {
	const member = "control.tar"
	ending, err := d.next(member)
	if err != nil {
		return err
	}
	in, err := unpack(d.ar, ending, maxControl, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", member, asFormat(err))
	}
	defer in.Close() //nolint:errcheck // only frees memory
	t := tar.NewReader(in)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", member, asFormat(err))
		}
		if err := d.addControl(h, t); err != nil {
			return fmt.Errorf("%s: %w", member, err)
		}
	}
	d.Control, err = ParseParagraph(d.Files["control"])
	if err != nil {
		return fmt.Errorf("%s: control: %w", member, err)
	}
	err = d.Control.check()
	if err != nil {
		return fmt.Errorf("%s: control: %w", member, err)
	}
	for _, name := range []string{"Package", "Version", "Architecture"} {
		if d.Control.Get(name) == "" {
			return malformed("%s: control: no field %s", member, name)
		}
	}
	return nil
}

// addControl keeps a control file. control.tar may have only plain files in one folder.
func (d *Deb) addControl(h *tar.Header, r io.Reader) error {
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if name == "" && h.Typeflag == tar.TypeDir {
		return nil
	}
	if h.Typeflag != tar.TypeReg || path.Base(name) != name {
		return fmt.Errorf("%.100q: %w: not a plain file at the top", h.Name, ErrUnsafePath)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, asFormat(err))
	}
	d.Files[name] = data
	if len(d.Files) > maxControlFiles {
		return malformed("more than %d control files", maxControlFiles)
	}
	return nil
}
