package rootfs

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
)

// An outline is a layer without the contents of its files: the same members, whiteouts included, with size
// and digest of each content. ApplyOutline reads it. It has about a hundredth of the layer's size.
const (
	paxSHA256 = "DRIVERBUILD.sha256"
	paxSize   = "DRIVERBUILD.size"
)

// Outline writes the outline of a layer to w. It refuses what Apply refuses of a tar stream.
func Outline(ctx context.Context, layer io.Reader, w io.Writer) error {
	tw := tar.NewWriter(w)
	err := eachMember(ctx, layer, func(hdr *tar.Header, r io.Reader) error { return outlineMember(tw, hdr, Cancellable(ctx, r)) })
	return errors.Join(err, tw.Close())
}

// ApplyOutline reads the outline of a layer into the tree. Apply does not do it: a layer that comes from
// elsewhere must not say which digests its contents have.
func (t *Tree) ApplyOutline(ctx context.Context, outline io.Reader) error {
	return eachMember(ctx, outline, func(hdr *tar.Header, r io.Reader) error {
		if err := t.apply(hdr, r, func(string) bool { return false }); err != nil {
			return err
		}
		if hdr.Typeflag != tar.TypeReg {
			return nil
		}
		p, err := t.resolveParent(strings.TrimLeft(hdr.Name, "/")) // where apply put it
		if e, ok := t.entries[p]; ok && err == nil {
			return e.outlined(hdr)
		}
		return nil // a whiteout
	})
}

func outlineMember(tw *tar.Writer, hdr *tar.Header, content io.Reader) error {
	if hdr.Typeflag == tar.TypeGNUSparse || sparse(hdr) {
		return errSparse
	}
	out := &tar.Header{
		Typeflag: hdr.Typeflag, Name: hdr.Name, Linkname: hdr.Linkname, Mode: hdr.Mode, Uid: hdr.Uid, Gid: hdr.Gid,
		Devmajor: hdr.Devmajor, Devminor: hdr.Devminor, Format: tar.FormatPAX, PAXRecords: map[string]string{},
	}
	if value := hdr.PAXRecords[paxCapability]; value != "" {
		out.PAXRecords[paxCapability] = value
	}
	if hdr.Typeflag == tar.TypeReg {
		sum := sha256.New()
		size, err := io.Copy(sum, content)
		if err != nil {
			return err
		}
		maps.Copy(out.PAXRecords, map[string]string{
			paxElided: "1", paxSize: strconv.FormatInt(size, 10), paxSHA256: hex.EncodeToString(sum.Sum(nil)),
		})
	}
	return tw.WriteHeader(out)
}

// outlined takes size and digest from the header of an outline's member.
func (e *Entry) outlined(hdr *tar.Header) error {
	sum := hdr.PAXRecords[paxSHA256]
	if sum == "" {
		return nil
	}
	size, err := strconv.ParseInt(hdr.PAXRecords[paxSize], 10, 64)
	if err != nil || size < 0 || len(sum) != hex.EncodedLen(sha256.Size) {
		return fmt.Errorf("size %q and digest %q of the content are no such things", hdr.PAXRecords[paxSize], sum)
	}
	e.Size, e.sum = size, sum
	return nil
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
