package images

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/rootfs"
)

// baseFacts are the files of a base whose content planning and layering need; of all others only name, mode and link count.
var baseFacts = []string{
	"etc/os-release", "usr/lib/os-release", "etc/ld.so.conf",
	"etc/apt/", "usr/share/keyrings/", "usr/share/gnupg/", "var/lib/dpkg/status", "var/lib/dpkg/info/",
	"etc/yum", "etc/distro.repos.d/", "etc/dnf/", "etc/zypp/", "etc/products.d/", "etc/pki/rpm-gpg", "etc/pki/tls/certs/", "etc/rhsm/",
	"usr/lib/rpm/gnupg/", "usr/share/distribution-gpg-keys/", "run/secrets/redhat.repo",
}

// factsVersion is part of the name under which facts are kept: raise it when more of a base is to be kept.
const factsVersion = "2"

// rpmDatabase says whether a file is part of rpm's record of what is installed.
func rpmDatabase(path string) bool {
	return strings.HasPrefix(path, "var/lib/rpm/") || strings.HasPrefix(path, "usr/lib/sysimage/rpm/")
}

func isBaseFact(path string) bool {
	if rpmDatabase(path) {
		return true
	}
	for _, p := range baseFacts {
		if strings.HasPrefix(path, p) {
			return !strings.HasPrefix(path, "var/lib/dpkg/info/") || strings.HasSuffix(path, ".list")
		}
	}
	return false
}

// flatten reads all layers of an image into one tree; keep as in rootfs.Tree.Apply.
func flatten(ctx context.Context, img v1.Image, spool *rootfs.Spool, keep func(string) bool, step *Step) (*rootfs.Tree, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("read the layers: %w", err)
	}
	tree := rootfs.New(spool, nil)
	for i, l := range layers {
		if err := applyLayer(ctx, tree, l, keep, step); err != nil {
			return nil, fmt.Errorf("layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return tree, nil
}

func applyLayer(ctx context.Context, tree *rootfs.Tree, l v1.Layer, keep func(string) bool, step *Step) (err error) {
	r, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	buffered := bufio.NewReaderSize(io.TeeReader(r, &meter{ctx: ctx, step: step, item: digest.Hex[:12]}), 256<<10)
	if err := tree.Apply(ctx, buffered, keep); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, buffered) // to the end: only then has the layer's digest been checked
	return err
}

// baseTree gives the facts of a base. They are kept in the cache as a small tar, by the base's digest, so that a build that
// finds everything else cached does not read the base again.
func (b *Builder) baseTree(ctx context.Context, img v1.Image, digest string, spool *rootfs.Spool, step *Step) (*rootfs.Tree, error) {
	path := filepath.Join(b.Store.Dir(), "bases", strings.TrimPrefix(digest, "sha256:")+"-"+factsVersion+".tar")
	if tree, err := readFacts(ctx, path, spool); err == nil {
		return tree, nil
	}
	tree, err := flatten(ctx, img, spool, isBaseFact, step)
	if err != nil {
		return nil, fmt.Errorf("read base %s: %w", digest, err)
	}
	var buf strings.Builder
	if err := tree.WriteTar(ctx, &buf, time.Unix(0, 0)); err != nil {
		return nil, fmt.Errorf("remember the facts of base %s: %w", digest, err)
	}
	return tree, writeFile(path, []byte(buf.String()))
}

func readFacts(ctx context.Context, path string, spool *rootfs.Spool) (tree *rootfs.Tree, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	tree = rootfs.New(spool, nil)
	return tree, tree.Apply(ctx, bufio.NewReaderSize(f, 256<<10), nil)
}

// ErrBase says that the base which was asked for cannot be the base of the target: it is not there, or of another system.
var ErrBase = errors.New("unsuitable base")

// checkSystem refuses a base of another system than the row's: its packages and libraries would not fit.
func checkSystem(tree *rootfs.Tree, d distros.Distro) error {
	b, err := tree.ReadFile("etc/os-release")
	if err != nil {
		return fmt.Errorf("%w: it has no os-release, so it cannot be checked to be %s: %w", ErrBase, d.ID(), err)
	}
	if id, version := osRelease(string(b)); !d.Matches(id, version) {
		return fmt.Errorf("%w: it is %s %s, but the target system is %s: give a base of that system", ErrBase, id, version, d.ID())
	}
	return nil
}

// osRelease reads ID and VERSION_ID; see os-release(5).
func osRelease(text string) (id, version string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch name {
		case "ID":
			id = value
		case "VERSION_ID":
			version = value
		}
	}
	return id, version
}
