package kernelmodules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// maxAnswer bounds one signature's file; kernels take 64 KiB.
const maxAnswer = 64 << 10

// answer is what an offline signer gave for one module.
type answer struct {
	file  string
	bytes []byte
	plain bool // a signature over the digest, not PKCS#7
}

// ImportSignatures reads what an offline signer left in dir, beside the request: for each module a file
// <sha256>.p7s (PKCS#7, DER; or <sha256>.ko.p7s, as sign-file calls it) or <sha256>.sig (the signature over
// the digest alone: RSA PKCS#1 v1.5, or ECDSA in DER). All modules of the request must have one. images are
// those that the signatures are meant for, by architecture: the request must be for them, else the error
// wraps ErrRequest. A missing signature is sign.ErrUnsigned. SignImage checks the signatures themselves.
func ImportSignatures(dir string, images map[string]v1.Image, cert *x509.Certificate) (Signatures, error) {
	none := Signatures{}
	q, err := readRequest(dir)
	if err != nil {
		return none, err
	}
	for _, arch := range slices.Sorted(maps.Keys(images)) {
		digest, err := images[arch].Digest()
		if err != nil {
			return none, err
		}
		if have := q.Images[arch]; have != digest.String() {
			return none, fmt.Errorf("%w: %s was written for %s of %s, this is %s", ErrRequest, filepath.Join(dir, RequestName), cmp.Or(have, "no image"), arch, digest)
		}
	}
	answers := map[string]answer{}
	sum := sha256.New()
	for _, m := range q.Modules {
		if _, ok := images[m.Arch]; !ok {
			continue
		}
		a, err := readAnswer(dir, m.SHA256)
		if err != nil {
			return none, fmt.Errorf("the signature of %s for kernel %s: %w", m.Name, m.Kernel, err)
		}
		answers[m.SHA256] = a
		fmt.Fprintf(sum, "%s %v %d\n", m.SHA256, a.plain, len(a.bytes))
		sum.Write(a.bytes)
	}
	return Signatures{Certificate: cert, made: hex.EncodeToString(sum.Sum(nil)), of: func(ctx context.Context, set *kbuild.Set, f kbuild.File) ([]byte, error) {
		return answerFor(ctx, answers, set, f, cert)
	}}, nil
}

func readAnswer(dir, name string) (answer, error) {
	for _, suffix := range []string{".p7s", ".ko.p7s", ".sig"} {
		a := answer{file: name + suffix, plain: suffix == ".sig"}
		var err error
		a.bytes, err = bounded.File(filepath.Join(dir, a.file), maxAnswer)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return a, err
	}
	return answer{}, fmt.Errorf("%w: neither %s.p7s nor %s.sig is in %s", sign.ErrUnsigned, name, name, dir)
}

// answerFor finds the signature by what the module is, so that names in the request cannot mislead.
func answerFor(ctx context.Context, answers map[string]answer, set *kbuild.Set, f kbuild.File, cert *x509.Certificate) ([]byte, error) {
	c, err := contentOf(ctx, set, f)
	if err != nil {
		return nil, err
	}
	a, ok := answers[c.sum]
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: the request does not name the module with SHA-256 %s", ErrRequest, c.sum)
	case a.plain:
		der, err := sign.Wrap(cert, c.hash, c.digest, a.bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.file, err)
		}
		return der, nil
	}
	d, err := sign.Describe(a.bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.file, err)
	}
	if d.Hash != set.SigHash {
		return nil, fmt.Errorf("%s: %w: it was made with %s, and kernel %s is sure to know only %s", a.file, sign.ErrUnsupported, d.Hash, set.Key.Release, set.SigHash)
	}
	return a.bytes, nil
}
