package rpmfile

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Bounds for one payload. The largest packages in a driver image are below 1 GiB unpacked.
const (
	maxUnpacked = 4 << 30 // bytes of all files
	maxFiles    = 100_000 // of the header; kernel-devel has 20000
	memberExtra = 256     // bytes of a member besides its name and content
	tailExtra   = 64 << 10
)

// the key under which archive/tar stores the extended attribute
const capabilityRecord = "SCHILY.xattr.security.capability"

// Payload passes every file to add, in the order of the archive, and may be called once. Names are
// clean and relative ("usr/bin/x"), and so are the targets of hard links; the root folder and
// ghosts are left out. The only types are regular files, folders, symbolic links (with the targets
// of the package: the caller resolves them inside of its tree) and hard links, which follow the
// file that they name. Anything else is ErrUnsafePath. Uid and Gid are 0; the names of user and
// group are the package's. A file that belongs to a user or group other than root loses its
// set-user or set-group bit, because it would now belong to root. Capabilities are in PAXRecords. r
// is valid until add returns and need not be read.
//
// All data comes from the header except the content of files, whose size and digest must match the
// header. Every file of the header must occur once. Payload stops at the first error of add and
// returns it such that errors.Is and errors.As find it; otherwise it reads the whole payload and
// compares its digest. Errors are ErrFormat, ErrDigest, ErrUnsafePath, or the reader's own.
func (f *File) Payload(add func(h *tar.Header, r io.Reader) error) error {
	if f.started {
		return fmt.Errorf("rpm %s: its payload was read already", f.name())
	}
	f.started = true
	if format := f.Header.Text(TagPayloadFormat); format != "cpio" && format != "" {
		return fmt.Errorf("rpm %s: %w: its payload is %.40q, want cpio", f.name(), ErrFormat, format)
	}
	p, err := f.newPayload(add)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		return fmt.Errorf("rpm %s: payload: %w", f.name(), err)
	}
	return nil
}

// payload is the state of one call of Payload.
type payload struct {
	f       *File
	add     func(h *tar.Header, r io.Reader) error
	raw     *bounded.Source // the payload as it is stored in the file
	in      *archive
	names   []string // clean, one for each file
	byName  map[string]int
	seen    []bool
	groups  map[[2]uint64]*linkGroup
	digest  string // of the whole payload, from the header
	counted hash.Hash
	limit   int64
}

// linkGroup is the names of one file. The archive has its content once, with the last name;
// archive/tar needs it with the first.
type linkGroup struct {
	members int
	last    int   // the last of them in the header
	waiting []int // names that occurred before the content
	primary int   // the name under which the content was passed on; -1 before that
}

func (f *File) newPayload(add func(h *tar.Header, r io.Reader) error) (*payload, error) {
	if len(f.files) > maxFiles {
		return nil, fmt.Errorf("%w: %d files, at most %d are read", ErrFormat, len(f.files), maxFiles)
	}
	p := &payload{f: f, add: add, names: make([]string, len(f.files)), byName: map[string]int{}, seen: make([]bool, len(f.files)), groups: map[[2]uint64]*linkGroup{}, limit: tailExtra}
	for i, x := range f.files {
		name, err := cleanName(x.path)
		if err != nil {
			return nil, err
		}
		if _, twice := p.byName[name]; twice {
			return nil, fmt.Errorf("%w: the header has %.200q twice", ErrFormat, x.path)
		}
		p.byName[name], p.names[i] = i, name
		p.limit += memberExtra + int64(len(x.path))
		switch x.kind() {
		case modeRegular:
			if x.size < 0 || x.size > maxUnpacked || p.limit > maxUnpacked {
				return nil, fmt.Errorf("%w: with %.200q the files have more than %d bytes", ErrFormat, x.path, int64(maxUnpacked))
			}
			p.limit += x.size
			if !x.ghost() {
				g := p.groups[x.id]
				if g == nil {
					g = &linkGroup{primary: -1}
					p.groups[x.id] = g
				}
				g.members = g.members + 1
				g.last = i
			}
		case modeLink:
			p.limit += int64(len(x.target))
		}
	}
	p.raw = &bounded.Source{Reader: f.in}
	h, sum := f.payloadDigest()
	p.digest = sum
	if sum != "" {
		p.counted = h.New()
		p.raw.Reader = io.TeeReader(f.in, p.counted)
	}
	return p, nil
}

func (p *payload) run() error {
	below := bufio.NewReaderSize(p.raw, 64<<10)
	in, err := p.f.decompress(below, p.f.Header.Text(TagPayloadCompressor))
	if err != nil {
		return p.broken(err)
	}
	defer in.Close() //nolint:errcheck // only frees memory
	whole := &bounded.Limited{Reader: in, Left: p.limit, Err: fmt.Errorf("%w: longer than the files of the header", ErrFormat)}
	p.in = &archive{in: whole}
	for {
		m, err := p.in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p.broken(err)
		}
		if err := p.member(m); err != nil {
			return err
		}
	}
	for i, x := range p.f.files {
		if !p.seen[i] && !x.ghost() {
			return fmt.Errorf("%w: %.200q is in the header, but not in the archive", ErrFormat, x.path)
		}
	}
	for _, g := range p.groups {
		if len(g.waiting) > 0 {
			return fmt.Errorf("%w: the content of %.200q is missing", ErrFormat, p.f.files[g.waiting[0]].path)
		}
	}
	return p.finish(whole, below)
}

// finish reads to the end of the file. Only zeros may follow the archive; the decoders refuse what
// follows their stream.
func (p *payload) finish(whole io.Reader, below *bufio.Reader) error {
	rest, err := io.ReadAll(whole) // it is limited
	if err != nil {
		return p.broken(err)
	}
	if strings.Trim(string(rest), "\x00") != "" {
		return fmt.Errorf("%w: there is data behind the archive", ErrFormat)
	}
	if _, err := io.Copy(io.Discard, below); err != nil {
		return p.broken(err)
	}
	if p.digest != "" {
		if sum := fmt.Sprintf("%x", p.counted.Sum(nil)); sum != p.digest {
			return fmt.Errorf("%w: its digest is %s, the header says %s", ErrDigest, sum, p.digest)
		}
	}
	return nil
}

// broken marks an error of decompression as ErrFormat, unless it is the error of the underlying
// reader.
func (p *payload) broken(err error) error {
	if p.raw.Err != nil {
		return p.raw.Err
	}
	if errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFormat, err)
}

// member passes one member to add.
func (p *payload) member(m member) error {
	i := m.index
	if i < 0 {
		// "./usr/bin/x", or "/usr/bin/x" of rpm 3
		name, err := cleanName(m.name)
		if err != nil {
			return err
		}
		known := false
		i, known = p.byName[name]
		if !known {
			return fmt.Errorf("%w: the archive has %.200q, the header has not", ErrFormat, m.name)
		}
	}
	if i >= len(p.f.files) || p.seen[i] {
		return fmt.Errorf("%w: file %d (%.200q) is no file of the header, or twice in the archive", ErrFormat, i, m.name)
	}
	p.seen[i] = true
	x := p.f.files[i]
	if m.size < 0 {
		m.size = p.strippedSize(i)
	}
	if x.ghost() {
		return fmt.Errorf("%w: the archive has %.200q, of which the header says that it is not there", ErrFormat, x.path)
	}
	h := p.tarHeader(i)
	p.in.left = m.size
	var err error
	switch x.kind() {
	case modeRegular:
		err = p.regular(i, h, m.size)
	case modeFolder:
		h.Typeflag = tar.TypeDir
		if m.size > 0 {
			err = fmt.Errorf("%w: a folder of %d bytes", ErrFormat, m.size)
		} else if h.Name != "" {
			err = p.add(h, strings.NewReader(""))
		}
	case modeLink:
		err = p.symlink(x, h, m.size)
	default:
		err = fmt.Errorf("%w: mode %o, want file, folder or link", ErrUnsafePath, x.mode)
	}
	if err != nil {
		return fmt.Errorf("%.200s: %w", x.path, err)
	}
	return nil
}

// strippedSize returns the size of a member in the stripped format: of a file with several names,
// the last one has the content.
func (p *payload) strippedSize(i int) int64 {
	x := p.f.files[i]
	switch x.kind() {
	case modeLink:
		return int64(len(x.target))
	case modeRegular:
		if g := p.groups[x.id]; g != nil && i < g.last {
			return 0
		}
		return x.size
	}
	return 0
}

// tarHeader returns the fields that all kinds of files have.
func (p *payload) tarHeader(i int) *tar.Header {
	x := p.f.files[i]
	h := &tar.Header{Name: p.names[i], Mode: int64(x.mode &^ modeKind), ModTime: time.Unix(x.mtime, 0), Uname: x.user, Gname: x.group}
	if x.user != "root" {
		h.Mode &^= modeSetUser
	}
	if x.group != "root" {
		h.Mode &^= modeSetGrp
	}
	return h
}

// cleanName converts "/usr/bin/" and "./usr/bin" to "usr/bin", and "/" to "".
func cleanName(name string) (string, error) {
	if strings.Contains(name, "\x00") {
		return "", fmt.Errorf("%.100q: %w: a name with a zero byte", name, ErrUnsafePath)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%.100q: %w: leads out of its folder", name, ErrUnsafePath)
		}
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/"), nil
}
