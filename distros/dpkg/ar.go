package dpkg

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	arMagic      = "!<arch>\n"
	arHeaderSize = 60
)

// archive reads the members of a common-format ar archive in order, without buffering and without
// seeking.
type archive struct {
	in   io.Reader
	left int64 // unread bytes of the current member
	pad  int64 // padding after it: members start at even offsets
}

// member is a header. Mode, owner and time of members have no meaning in a .deb and are dropped.
type member struct {
	name string
	size int64
}

func newArchive(r io.Reader) (*archive, error) {
	magic := make([]byte, len(arMagic))
	if _, err := io.ReadFull(r, magic); err != nil {
		return nil, malformed("ar: shorter than its magic: %w", err)
	}
	if string(magic) != arMagic {
		return nil, malformed("ar: starts with %.8q instead of %q", magic, arMagic)
	}
	return &archive{in: r}, nil
}

// next skips the rest of the current member and returns the header of the next one; io.EOF after
// the last.
func (a *archive) next() (member, error) {
	if _, err := io.CopyN(io.Discard, a.in, a.left); err != nil {
		return member{}, malformed("ar: ends inside of a member: %w", err)
	}
	a.left = 0
	if a.pad == 1 {
		b := make([]byte, 1)
		_, err := io.ReadFull(a.in, b)
		if errors.Is(err, io.EOF) { // some writers omit the padding after the last member
			return member{}, io.EOF
		}
		if err != nil {
			return member{}, fmt.Errorf("ar: %w", err)
		}
		if b[0] != '\n' && b[0] != 0 {
			return member{}, malformed("ar: padding is %q, want a newline", b)
		}
		a.pad = 0
	}
	header := make([]byte, arHeaderSize)
	if _, err := io.ReadFull(a.in, header); errors.Is(err, io.EOF) {
		return member{}, io.EOF
	} else if err != nil {
		return member{}, malformed("ar: ends inside of a member's header: %w", err)
	}
	m, err := parseMember(header)
	if err != nil {
		return member{}, err
	}
	a.left = m.size
	a.pad = m.size & 1
	return m, nil
}

// parseMember parses name[16] time[12] uid[6] gid[6] mode[8] size[10] and the two bytes that end a
// header.
func parseMember(h []byte) (member, error) {
	if !bytes.HasSuffix(h, []byte("`\n")) {
		return member{}, malformed("ar: a member's header does not end as it must")
	}
	// GNU ar writes a slash after names, dpkg does not.
	name := strings.TrimSuffix(strings.TrimRight(string(h[:16]), " "), "/")
	if name == "" || strings.ContainsAny(name, "/\x00\n") {
		return member{}, malformed("ar: member name %q", h[:16])
	}
	digits := strings.TrimRight(string(h[48:58]), " ")
	size, err := strconv.ParseUint(digits, 10, 63)
	if err != nil { // ParseUint accepts no sign and no blanks
		return member{}, malformed("ar: member %q has size %q", name, digits)
	}
	return member{name: name, size: int64(size)}, nil // ParseUint was limited to 63 bits
}

// Read reads the current member. The error for an archive that ends too early is
// io.ErrUnexpectedEOF, not the end of the member.
func (a *archive) Read(p []byte) (int, error) {
	if a.left == 0 {
		return 0, io.EOF
	}
	n, err := a.in.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if a.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}
