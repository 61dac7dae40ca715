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

	"github.com/driver-container/driver-container/distros/compression"
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
		return malformed("rpm %s: its payload is %.40q, want cpio", f.name(), format)
	}
	p, err := f.newPayload(add)
	if err != nil {
		return fmt.Errorf("rpm %s: payload: %w", f.name(), err)
	}
	err = p.run()
	if err != nil {
		return fmt.Errorf("rpm %s: payload: %w", f.name(), err)
	}
	return nil
}

// payload is the state of one call of Payload.
type payload struct {
	f      *File
	add    func(h *tar.Header, r io.Reader) error
	in     *archive
	names  []string // clean, one for each file
	byName map[string]int
	seen   []bool
	groups map[[2]uint64]*linkGroup
	limit  int64
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
		return nil, malformed("%d files, at most %d are read", len(f.files), maxFiles)
	}
	p := &payload{
		f: f, add: add, byName: map[string]int{}, seen: make([]bool, len(f.files)),
		groups: map[[2]uint64]*linkGroup{}, limit: tailExtra,
	}
	for i, x := range f.files {
		name, err := cleanName(x.path)
		if err != nil {
			return nil, err
		}
		if _, twice := p.byName[name]; twice {
			return nil, malformed("the header has %.200q twice", x.path)
		}
		p.byName[name] = i
		p.names = append(p.names, name)
		p.limit += memberExtra + int64(len(x.path)+len(x.target))
		if x.kind() != modeRegular {
			continue
		}
		if x.size < 0 || x.size > maxUnpacked || p.limit > maxUnpacked {
			return nil, malformed("with %.200q the files have more than %d bytes", x.path, int64(maxUnpacked))
		}
		p.limit += x.size
		if !x.ghost() {
			p.group(x.id, i)
		}
	}
	return p, nil
}

// group adds a name to those of one file.
func (p *payload) group(id [2]uint64, i int) {
	g := p.groups[id]
	if g == nil {
		g = &linkGroup{primary: -1}
		p.groups[id] = g
	}
	g.members++
	g.last = i
}

func (p *payload) run() error {
	var raw io.Reader = p.f.in // the payload as it is stored in the file
	kind, digest := p.f.payloadDigest()
	var counted hash.Hash
	if digest != "" {
		counted = kind.New()
		raw = io.TeeReader(raw, counted)
	}
	below := bufio.NewReaderSize(raw, 64<<10)
	in, err := p.open(below)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only frees memory
	err = p.members(in)
	if err != nil {
		return err
	}
	// Only zeros may follow the archive; the decoders refuse what follows their stream.
	rest, err := io.ReadAll(in) // it is limited
	if err != nil {
		return err
	}
	if strings.Trim(string(rest), "\x00") != "" {
		return malformed("there is data behind the archive")
	}
	_, err = io.Copy(io.Discard, below)
	if err != nil || digest == "" {
		return err
	}
	return checkDigest(counted, digest)
}

// open returns the unpacked payload. The header names the compression; without a name the payload
// is either gzip or not compressed, which rpm lets zlib detect.
func (p *payload) open(in *bufio.Reader) (io.ReadCloser, error) {
	name := p.f.Header.Text(TagPayloadCompressor)
	if name == "" {
		detected, err := compression.Detect(in)
		if err != nil {
			return nil, err
		}
		if detected == compression.Gzip {
			name = detected
		}
	}
	return compression.Stream{XZ: p.f.XZ, Limit: p.limit, Format: ErrFormat}.Open(in, name)
}

// members passes all files of the archive to add. The header must have the same.
func (p *payload) members(in io.Reader) error {
	p.in = &archive{in: in}
	for {
		m, err := p.in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		err = p.member(m)
		if err != nil {
			return err
		}
	}
	for i, x := range p.f.files {
		if !p.seen[i] && !x.ghost() {
			return malformed("%.200q is in the header, but not in the archive", x.path)
		}
	}
	for _, g := range p.groups {
		if len(g.waiting) > 0 {
			return malformed("the content of %.200q is missing", p.f.files[g.waiting[0]].path)
		}
	}
	return nil
}

func checkDigest(counted hash.Hash, want string) error {
	got := fmt.Sprintf("%x", counted.Sum(nil))
	if got != want {
		return fmt.Errorf("%w: its digest is %s, the header says %s", ErrDigest, got, want)
	}
	return nil
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
