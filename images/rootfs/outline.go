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
)

// Outline reads a layer and writes its outline: the layer without the contents of its files. It has
// the same members, markers included, with size and digest of each content, and about a hundredth
// of the layer's size.
func Outline(ctx context.Context, layer io.Reader, w io.Writer) error {
	tw := tar.NewWriter(w)
	err := eachMember(ctx, layer, func(hdr *tar.Header, r io.Reader) error {
		sum := sha256.New()
		size, err := io.Copy(sum, r)
		if err != nil {
			return err
		}
		out := &tar.Header{
			Typeflag: hdr.Typeflag, Name: hdr.Name, Linkname: hdr.Linkname, Mode: hdr.Mode, Uid: hdr.Uid, Gid: hdr.Gid,
			Devmajor: hdr.Devmajor, Devminor: hdr.Devminor, Format: tar.FormatPAX, PAXRecords: records(xattrs(hdr)),
		}
		if hdr.Typeflag == tar.TypeReg {
			out.PAXRecords[paxElided], out.PAXRecords[paxSize] = "1", strconv.FormatInt(size, 10)
			out.PAXRecords[paxSHA256] = hex.EncodeToString(sum.Sum(nil))
		}
		return tw.WriteHeader(out)
	})
	return errors.Join(err, tw.Close())
}

// Members are the members of an outline that was read, so that several trees can have it.
type Members struct{ all []*tar.Header }

// ReadOutline reads the outline of a layer.
func ReadOutline(ctx context.Context, outline io.Reader) (*Members, error) {
	out := &Members{}
	left := newBudget()
	return out, eachMember(ctx, outline, func(hdr *tar.Header, _ io.Reader) error {
		text := int64(len(hdr.Name) + len(hdr.Linkname))
		for name, value := range hdr.PAXRecords {
			text += int64(len(name) + len(value))
		}
		out.all = append(out.all, hdr)
		return left.take(1, text, 0)
	})
}

// AddOutline lays the members of an outline over the tree, as Apply does with those of a layer.
// Apply takes no outline: a layer that comes from elsewhere must not say which digests its contents
// have.
func (t *Tree) AddOutline(ctx context.Context, outline *Members) error {
	t.layer++
	for _, hdr := range outline.all {
		err := ctx.Err()
		if err == nil {
			err = t.apply(hdr, func(e *Entry) (err error) {
				e.sum = hdr.PAXRecords[paxSHA256]
				e.ContentOmitted = true
				if e.sum == "" {
					return nil
				}
				e.Size, err = strconv.ParseInt(hdr.PAXRecords[paxSize], 10, 64)
				if err != nil || e.Size < 0 || len(e.sum) != hex.EncodedLen(sha256.Size) {
					return fmt.Errorf(
						"%w: size %q and digest %q of the content are no such things",
						ErrFormat,
						hdr.PAXRecords[paxSize],
						e.sum,
					)
				}
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("read layer: %.200s: %w", hdr.Name, err)
		}
	}
	return nil
}

// SHA256 returns the digest of a File's content in hex digits. It reads the content at the first
// call; the entries of an outline have their digests without it. Several goroutines may call it.
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
		_, c.err = io.Copy(h, c.open())
		if c.err == nil {
			c.sum = hex.EncodeToString(h.Sum(nil))
		}
	})
	return c.sum, c.err
}
