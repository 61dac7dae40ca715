package kernelmodules

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// RequestName is the name of the file that lists, in a folder for an offline signer, what has to be
// signed.
const RequestName = "request.json"

const requestSchema = 1

// SigningRequest lists what has to be signed of an image, for a signer that has no access to the
// image.
type SigningRequest struct {
	Schema  int               `json:"schema"`
	Images  map[string]string `json:"images"` // architecture -> digest of the manifest
	Modules []RequestedModule `json:"modules"`
}

// RequestedModule is one module to sign.
type RequestedModule struct {
	Arch   string `json:"arch"`
	Set    string `json:"set"`    // folder of the set
	Name   string `json:"name"`   // "nvidia"
	Kernel string `json:"kernel"` // release
	// beside the request: "<sha256>.digest", or "<sha256>.ko" for the module itself
	File   string `json:"file"`
	Hash   string `json:"hash"`   // to sign with: "sha256"
	Digest string `json:"digest"` // of the module with that hash, in hex
	SHA256 string `json:"sha256"` // of the module; the signature is to be called by it
	Size   int64  `json:"size"`   // bytes to be signed
}

// CheckRequestFolder says why RequestSignatures cannot write into dir, before images are read.
func CheckRequestFolder(dir string) error {
	list, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return outfile.CheckFolder(filepath.Dir(filepath.Clean(dir)))
	case err != nil:
		return err
	case len(list) > 0:
		return fmt.Errorf("%s is not empty: give a new folder", dir)
	}
	return outfile.CheckFolder(dir)
}

// RequestSignatures writes into dir, which is made and must be empty, what an offline signer needs:
// the digests of the modules of the images (by architecture), or the modules themselves, and last
// the request.
func RequestSignatures(
	ctx context.Context,
	store *fetch.Store,
	dir string,
	images map[string]v1.Image,
	whole bool,
) (*SigningRequest, error) {
	if err := CheckRequestFolder(dir); err != nil {
		return nil, fmt.Errorf("write the request for signatures: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write the request for signatures: %w", err)
	}
	req := &SigningRequest{Schema: requestSchema, Images: map[string]string{}}
	for _, arch := range slices.Sorted(maps.Keys(images)) {
		digest, err := images[arch].Digest()
		if err != nil {
			return nil, err
		}
		req.Images[arch] = digest.String()
		err = eachModule(
			ctx,
			store,
			images[arch],
			func(set *kbuild.Set, f kbuild.File) error { return req.add(ctx, dir, arch, set, f, whole) },
		)
		if err != nil {
			return nil, fmt.Errorf("request signatures for %s: %w", arch, err)
		}
	}
	text, err := json.MarshalIndent(req, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(dir, RequestName), append(text, '\n')); err != nil {
		return nil, fmt.Errorf("write the request for signatures: %w", err)
	}
	return req, nil
}

func writeFile(path string, data []byte) error {
	return outfile.Replace(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func (q *SigningRequest) add(
	ctx context.Context,
	dir, arch string,
	set *kbuild.Set,
	f kbuild.File,
	whole bool,
) error {
	c, err := contentOf(ctx, set, f)
	if err != nil {
		return err
	}
	m := RequestedModule{
		Arch: arch, Set: set.Key.String(), Name: f.Name, Kernel: set.Key.Release, File: c.sum + ".digest", Hash: set.SigHash,
		Digest: hex.EncodeToString(c.digest), SHA256: c.sum, Size: c.size,
	}
	if whole {
		m.File = c.sum + ".ko"
		err = sign.Detach(ctx, f.Path, filepath.Join(dir, m.File))
	} else {
		err = writeFile(filepath.Join(dir, m.File), c.digest)
	}
	q.Modules = append(q.Modules, m)
	return err
}

// Bounds of what a signer left: kernels take signatures of 64 KiB.
const (
	maxAnswer  = 64 << 10
	maxAnswers = 4096
)

// answerName is the name of a signature's file: the SHA-256 of its module, and what the signature
// is.
var answerName = regexp.MustCompile(`^([0-9a-f]{64})\.(ko\.p7s|p7s|sig)$`)

// answer is what an offline signer gave for one module.
type answer struct {
	file  string
	bytes []byte
	plain bool // a signature over the digest, not PKCS#7
}

// ImportSignatures reads what an offline signer left in dir: for each module a file <sha256>.p7s
// (PKCS#7, DER; or <sha256>.ko.p7s, as sign-file calls it) or <sha256>.sig (the signature over the
// digest alone: RSA PKCS#1 v1.5, or ECDSA in DER). SignImage finds them by what the modules are,
// and checks them: a missing one is sign.ErrUnsigned.
func ImportSignatures(dir string, cert *x509.Certificate) (s Signatures, err error) {
	defer failure.Wrap(&err, "read the signatures of modules")
	list, err := os.ReadDir(dir)
	if err != nil {
		return s, err
	}
	answers := map[string]answer{}
	sum := sha256.New()
	for _, entry := range list {
		name := answerName.FindStringSubmatch(entry.Name())
		if name == nil || answers[name[1]].file != "" {
			continue
		}
		if len(answers) == maxAnswers {
			return s, fmt.Errorf("%s has more than %d", dir, maxAnswers)
		}
		a := answer{file: entry.Name(), plain: name[2] == "sig"}
		a.bytes, err = bounded.File(filepath.Join(dir, a.file), maxAnswer)
		if err != nil {
			return s, err
		}
		answers[name[1]] = a
		fmt.Fprintf(sum, "%s %v %d\n", name[1], a.plain, len(a.bytes))
		sum.Write(a.bytes)
	}
	return Signatures{
		Certificate: cert,
		made:        hex.EncodeToString(sum.Sum(nil)),
		of: func(ctx context.Context, set *kbuild.Set, f kbuild.File) ([]byte, error) {
			return answerFor(ctx, answers, set, f, cert)
		},
	}, nil
}

// answerFor finds the signature by what the module is.
func answerFor(
	ctx context.Context,
	answers map[string]answer,
	set *kbuild.Set,
	f kbuild.File,
	cert *x509.Certificate,
) ([]byte, error) {
	c, err := contentOf(ctx, set, f)
	if err != nil {
		return nil, err
	}
	a, ok := answers[c.sum]
	switch {
	case !ok:
		return nil, fmt.Errorf(
			"the signature of %s for kernel %s: %w: there is neither %s.p7s nor %s.sig",
			f.Name,
			set.Key.Release,
			sign.ErrUnsigned,
			c.sum,
			c.sum,
		)
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
		return nil, fmt.Errorf(
			"%s: %w: it was made with %s, and kernel %s is sure to know only %s",
			a.file,
			sign.ErrUnsupported,
			d.Hash,
			set.Key.Release,
			set.SigHash,
		)
	}
	return a.bytes, nil
}
