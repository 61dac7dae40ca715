package images

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/sign"
)

// maxLayerModule bounds one file of a layer with modules. The largest module of NVIDIA has 65 MB without debug information.
const maxLayerModule = 1 << 30

// fingerprint names a certificate: SHA-256 of its DER, in hex.
func fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// signedLayer is a layer with modules, signed by the builder's key. It is cached by what was signed and by whom.
func (b *Builder) signedLayer(ctx context.Context, r *Recipe, name, unsignedKey string, unsigned v1.Layer) (v1.Layer, error) {
	k, err := key("signed-modules", unsignedKey, fingerprint(b.Signer.Certificate))
	if err != nil {
		return nil, err
	}
	return b.layer(ctx, r, name+", signed", k, func(ctx context.Context, spool *rootfs.Spool, _ *Step) (*rootfs.Tree, error) {
		tree := rootfs.New(spool, nil)
		return tree, b.signSets(ctx, unsigned, tree, SignWith(b.Signer))
	})
}

// Signatures says who signs the modules of an image, and how.
type Signatures struct {
	Certificate *x509.Certificate // of the key; everything is checked against it
	made        string            // what they are made from, for the cache; "" by the key, here and now
	of          func(ctx context.Context, set *kbuild.Set, f kbuild.File) (der []byte, err error)
}

// SignWith makes the signatures with a key.
func SignWith(signer *sign.Signer) Signatures {
	return Signatures{Certificate: signer.Certificate, of: func(ctx context.Context, set *kbuild.Set, f kbuild.File) ([]byte, error) {
		hash, err := hashOf(set)
		if err != nil {
			return nil, err
		}
		return signer.SignFile(ctx, f.Path, hash)
	}}
}

// sign makes the signed set, in work.
func (s Signatures) sign(ctx context.Context, set *kbuild.Set, work string) (*kbuild.Set, error) {
	if _, err := hashOf(set); err != nil {
		return nil, err
	}
	return set.Sign(ctx, work, s.Certificate, func(ctx context.Context, f kbuild.File) ([]byte, error) { return s.of(ctx, set, f) })
}

// hashOf is the hash that the set's kernel signs its own modules with: the one that it has at any time.
func hashOf(set *kbuild.Set) (crypto.Hash, error) {
	if set.SigHash == "" {
		return 0, fmt.Errorf("sign the modules %s: kernel %s was built without module signatures (CONFIG_MODULE_SIG)", set.Key, set.Key.Release)
	}
	hash, err := sign.ParseHash(set.SigHash)
	if err != nil {
		return 0, fmt.Errorf("sign the modules %s: %w", set.Key, err)
	}
	return hash, nil
}

// eachSet calls f for each set of modules of a layer, which is checked and lies on this machine until f returns. work is an empty
// folder for f.
func (b *Builder) eachSet(ctx context.Context, l v1.Layer, f func(set *kbuild.Set, work string) error) (err error) {
	dir, remove, err := b.workFolder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	there := kbuild.Cache{Dir: filepath.Join(dir, "there")}
	names, err := extractSets(ctx, l, there.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		set, err := there.Find(ctx, func(k kbuild.Key) bool { return k.String() == name })
		if err != nil {
			return fmt.Errorf("modules %s: %w", name, err)
		}
		work := filepath.Join(dir, "work")
		if err := os.Mkdir(work, 0o755); err != nil {
			return err
		}
		if err := errors.Join(f(set, work), os.RemoveAll(work)); err != nil {
			return err
		}
	}
	return nil
}

// signSets adds to tree the sets of a layer with signatures.
func (b *Builder) signSets(ctx context.Context, l v1.Layer, tree *rootfs.Tree, s Signatures) error {
	return b.eachSet(ctx, l, func(set *kbuild.Set, work string) error {
		signed := filepath.Join(work, "signed")
		if err := os.Mkdir(signed, 0o755); err != nil {
			return err
		}
		made, err := s.sign(ctx, set, signed)
		if err != nil {
			return err
		}
		if made, err = (kbuild.Cache{Dir: filepath.Join(work, "changed")}).Put(ctx, made); err != nil {
			return err
		}
		return addSet(tree, made)
	})
}

// extractSets copies the sets of modules of a layer to a folder and names them, in their order. Other files are passed over.
func extractSets(ctx context.Context, l v1.Layer, dir string) (names []string, err error) {
	r, err := l.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	buffered := bufio.NewReaderSize(cancelled(ctx, r), 256<<10)
	for tr := tar.NewReader(buffered); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, buffered) // to the end: only then has the layer's digest been checked
			return names, err
		}
		if err != nil {
			return nil, fmt.Errorf("read a layer with modules: %w", err)
		}
		name, err := rootfs.Clean(h.Name)
		if err != nil {
			return nil, err
		}
		set, file, ok := moduleOf(name)
		if !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		if len(names) == 0 || names[len(names)-1] != set {
			names = append(names, set)
		}
		if h.Size > maxLayerModule {
			return nil, fmt.Errorf("%s has %d bytes: no module is that large", name, h.Size)
		}
		if err := extract(filepath.Join(dir, set, file), tr); err != nil {
			return nil, fmt.Errorf("copy %s: %w", name, err)
		}
	}
}

func extract(name string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
