package rootfs

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// An outline is a layer without the contents of its files: the same members, whiteouts included, with size
// and digest of each content. ReadOutline reads it. It has about a hundredth of the layer's size.
const (
	paxSHA256 = "DRIVERBUILD.sha256"
	paxSize   = "DRIVERBUILD.size"
)

// ApplyOutlined is Apply and writes the outline of the layer to w. A nil tree takes nothing.
func (t *Tree) ApplyOutlined(ctx context.Context, layer io.Reader, keep func(path string) bool, w io.Writer) error {
	if t != nil {
		t.layer++
	}
	tw := tar.NewWriter(w)
	err := eachMember(ctx, layer, func(hdr *tar.Header, r io.Reader) error {
		sum := sha256.New()
		counted := &counter{r: io.TeeReader(r, sum)}
		if t != nil {
			if err := t.applyMember(hdr, counted, keep); err != nil {
				return err
			}
		}
		if _, err := io.Copy(io.Discard, counted); err != nil {
			return err
		}
		return writeOutlined(tw, hdr, counted.n, hex.EncodeToString(sum.Sum(nil)))
	})
	return errors.Join(err, tw.Close())
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// WriteOutline writes the outline of the layer that WriteTar writes.
func (t *Tree) WriteOutline(ctx context.Context, w io.Writer) error {
	tw := tar.NewWriter(w)
	err := t.members(ctx, time.Time{}, func(hdr *tar.Header, content *section) error {
		sum := emptySHA256
		if hdr.Size > 0 {
			var err error
			if sum, err = content.digest(); err != nil {
				return err
			}
		}
		return writeOutlined(tw, hdr, hdr.Size, sum)
	})
	return errors.Join(err, tw.Close())
}

// Members are the members of an outline that was read, so that several trees can have it.
type Members struct {
	all  []member
	text int64 // bytes of all texts
}

type member struct {
	typeflag                       byte
	name, link, sum                string // sum: the digest of the content; "": it does not say
	mode, size, devmajor, devminor int64
	uid, gid                       int
	xattrs                         map[string]string
}

// Bytes is about how much memory the members take.
func (m *Members) Bytes() int64 { return int64(len(m.all))*int64(unsafe.Sizeof(member{})) + m.text }

// ReadOutline reads the outline of a layer.
func ReadOutline(ctx context.Context, outline io.Reader) (*Members, error) {
	out, left := &Members{}, newBudget()
	return out, eachMember(ctx, outline, func(hdr *tar.Header, _ io.Reader) error {
		m := member{
			typeflag: hdr.Typeflag, name: hdr.Name, link: hdr.Linkname, mode: hdr.Mode, uid: hdr.Uid, gid: hdr.Gid, size: hdr.Size,
			devmajor: hdr.Devmajor, devminor: hdr.Devminor, xattrs: xattrs(hdr),
		}
		if sum := hdr.PAXRecords[paxSHA256]; sum != "" && hdr.Typeflag == tar.TypeReg {
			size, err := strconv.ParseInt(hdr.PAXRecords[paxSize], 10, 64)
			if err != nil || size < 0 || len(sum) != hex.EncodedLen(sha256.Size) {
				return fmt.Errorf("size %q and digest %q of the content are no such things", hdr.PAXRecords[paxSize], sum)
			}
			m.size, m.sum = size, strings.Clone(sum)
		}
		text := int64(len(m.name) + len(m.link) + len(m.sum))
		for name, value := range m.xattrs {
			text += int64(len(name) + len(value))
		}
		out.all, out.text = append(out.all, m), out.text+text
		return left.take(1, text, 0)
	})
}

// AddOutline lays the members of an outline over the tree, as Apply does with those of a layer. Apply takes
// no outline: a layer that comes from elsewhere must not say which digests its contents have.
func (t *Tree) AddOutline(ctx context.Context, outline *Members) error {
	t.layer++
	for i := range outline.all {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read layer: %w", err)
		}
		m := &outline.all[i]
		hdr := &tar.Header{
			Typeflag: m.typeflag, Name: m.name, Linkname: m.link, Mode: m.mode, Uid: m.uid, Gid: m.gid, Devmajor: m.devmajor, Devminor: m.devminor,
		}
		err := t.apply(hdr, m.xattrs, func(e *Entry) error {
			e.Size, e.sum, e.ContentOmitted = m.size, m.sum, true
			return nil
		})
		if err != nil {
			return fmt.Errorf("read layer: %.200s: %w", m.name, err)
		}
	}
	return nil
}

func writeOutlined(tw *tar.Writer, hdr *tar.Header, size int64, sum string) error {
	out := &tar.Header{
		Typeflag: hdr.Typeflag, Name: hdr.Name, Linkname: hdr.Linkname, Mode: hdr.Mode, Uid: hdr.Uid, Gid: hdr.Gid,
		Devmajor: hdr.Devmajor, Devminor: hdr.Devminor, Format: tar.FormatPAX, PAXRecords: records(xattrs(hdr)),
	}
	if hdr.Typeflag == tar.TypeReg {
		out.PAXRecords[paxElided], out.PAXRecords[paxSize], out.PAXRecords[paxSHA256] = "1", strconv.FormatInt(size, 10), sum
	}
	return tw.WriteHeader(out)
}

// SHA256 returns the digest of a File's content in hex digits. It reads the content at the first call; the
// entries of an outline have their digests without it. Several goroutines may call it.
func (e *Entry) SHA256() (string, error) {
	switch {
	case e.Kind != File:
		return "", errors.New("not a regular file")
	case e.sum != "":
		return e.sum, nil
	case e.ContentOmitted:
		return "", errElided
	case e.content == nil:
		return emptySHA256, nil
	}
	return e.content.digest()
}

// emptySHA256 is the digest of no bytes.
const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// digest computes the digest once, also for all hard links.
func (c *section) digest() (string, error) {
	c.once.Do(func() {
		h := sha256.New()
		if _, c.err = io.Copy(h, c.open()); c.err == nil {
			c.sum = hex.EncodeToString(h.Sum(nil))
		}
	})
	return c.sum, c.err
}
