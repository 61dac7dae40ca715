package bundle

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"github.com/driver-container/driver-container/distros/fetch"
)

// Check reads and verifies all of a file: names, sizes and content of the blobs are compared with the list in both
// directions. What is wrong before the first blob is one finding, and ends it. Without keys the signature does not
// matter. The bundle is nil when there are findings before its first blob. Errors are about reading the file.
func Check(ctx context.Context, file *io.SectionReader, keys []crypto.PublicKey, progress func(done, total int64)) (*Bundle, []Finding, error) {
	var all []Finding
	found := func(err error) error {
		if f, ok := errors.AsType[Finding](err); ok {
			all = append(all, f)
			return nil
		}
		return err
	}
	b, err := Open(file)
	if err != nil {
		err = found(err)
		return nil, all, err
	}
	if err := found(b.VerifySignature(keys)); err != nil {
		return nil, nil, err
	}
	want := b.List.present()
	sizes := map[string]int64{}
	for _, w := range want {
		sizes[blobFolder+w.Digest.Hex] = w.Size
	}
	seen := map[string]bool{}
	for n := 0; ; n++ {
		name, size, err := b.tar.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // what follows is not read
			err = found(err)
			return b, all, err
		}
		wanted, listed := sizes[name]
		switch {
		case seen[name]:
			all = append(all, finding(RuleArchive, name, "it is there twice"))
		case !listed:
			all = append(all, finding(RuleExtra, name, "it is in the file, and not on its list"))
		case size != wanted:
			all = append(all, finding(RuleSize, name, "it has %d bytes, and %d on the list", size, wanted))
		case len(all) == 0 && name != blobFolder+want[n].Digest.Hex:
			all = append(all, finding(RuleArchive, name, "it is not in its place"))
		}
		if err := found(b.hash(ctx, name, listed && size == wanted, progress)); err != nil {
			return nil, nil, err
		}
		seen[name] = true
	}
	for _, w := range want {
		if name := blobFolder + w.Digest.Hex; !seen[name] {
			all = append(all, finding(RuleMissing, name, "it is on the list with %d bytes, and not in the file", w.Size))
		}
	}
	return b, all, nil
}

// hash reads the content of a member, and compares it with its digest if there is one to compare with.
func (b *Bundle) hash(ctx context.Context, name string, compare bool, progress func(done, total int64)) error {
	sum := sha256.New()
	begin := b.tar.at
	err := fetch.Copy(ctx, sum, &b.tar, func(done int64) {
		if progress != nil {
			progress(begin+done, b.file.Size())
		}
	})
	if errors.Is(err, ErrUnsound) {
		return nil // it is cut off, which the next member says
	}
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); compare && name != blobFolder+got {
		return finding(RuleDamaged, name, "its content has the digest sha256:%s", got)
	}
	return nil
}
