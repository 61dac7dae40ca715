package packages

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// baseFacts are the files of a base whose content planning and layering need; of all others only
// name, mode and link count.
var baseFacts = []string{
	"etc/os-release", "usr/lib/os-release", "etc/ld.so.conf", elffile.LoaderCachePath,
	"etc/apt/", "usr/share/keyrings/", "usr/share/gnupg/", "var/lib/dpkg/status", "var/lib/dpkg/info/",
	"etc/yum", "etc/distro.repos.d/", "etc/dnf/", "etc/zypp/", "etc/products.d/", "etc/pki/rpm-gpg", "etc/pki/tls/certs/", "etc/rhsm/",
	"usr/lib/rpm/gnupg/", "usr/share/distribution-gpg-keys/", "run/secrets/redhat.repo",
}

// factsRecord is the kind of the cache's records of facts.
const factsRecord = "base"

// factsVersion is part of the key under which facts are kept: raise it when more of a base is to be
// kept.
const factsVersion = "3"

// IsDatabase reports whether a file is part of the record of what is installed.
func IsDatabase(path string) bool { return path == dpkgStatus || isRPMDatabase(path) }

func isRPMDatabase(path string) bool {
	return strings.HasPrefix(path, "var/lib/rpm/") ||
		strings.HasPrefix(path, "usr/lib/sysimage/rpm/")
}

func isBaseFact(path string) bool {
	return isRPMDatabase(path) ||
		recipe.HasPrefix(baseFacts, path) &&
			(!strings.HasPrefix(path, dpkgInfo) || strings.HasSuffix(path, ".list"))
}

// ReadBase returns the facts of a base as a tree. They are kept in the cache as a small tar, by the
// base's digest, so that a build that finds everything else cached does not read the base again.
func ReadBase(
	ctx context.Context,
	cache layer.Cache,
	img v1.Image,
	digest string,
	spool *rootfs.Spool,
	step *progress.Step,
) (*rootfs.Tree, error) {
	key := strings.TrimPrefix(digest, "sha256:") + "-" + factsVersion
	if blob, ok := cache.Store.Lookup(factsRecord, key, nil); ok {
		facts, err := cache.Store.Read(blob)
		if err != nil {
			return nil, fmt.Errorf("facts of base %s: %w", digest, err)
		}
		tree := rootfs.New(spool, nil)
		return tree, tree.Apply(ctx, bytes.NewReader(facts), nil)
	}
	tree, err := layer.Flatten(ctx, img, spool, isBaseFact, step)
	if err != nil {
		return nil, fmt.Errorf("read base %s: %w", digest, err)
	}
	var facts bytes.Buffer
	if err := tree.WriteTar(ctx, &facts, time.Unix(0, 0)); err != nil {
		return nil, fmt.Errorf("remember the facts of base %s: %w", digest, err)
	}
	blob, err := cache.Store.Put(facts.Bytes())
	if err != nil {
		return nil, err
	}
	return tree, cache.Store.Note(factsRecord, key, blob, nil)
}

// ErrBase means that the requested base cannot be the base of the target: it does not exist, or is
// of another system.
var ErrBase = failure.New(failure.Usage, "unsuitable base")

// CheckSystem refuses a base of another system than the target's: its packages and libraries would
// not fit.
func CheckSystem(base *rootfs.Tree, d distros.Distro) error {
	d = distros.Userland(d)
	id, version, err := osrelease.Read(base.OpenFS())
	if err != nil {
		return fmt.Errorf(
			"%w: it has no os-release, so it cannot be checked to be %s: %w",
			ErrBase,
			d.ID(),
			err,
		)
	}
	if !d.Matches(id, version) {
		return fmt.Errorf(
			"%w: it is %s %s, but the target system is %s: give a base of that system",
			ErrBase,
			id,
			version,
			d.ID(),
		)
	}
	return nil
}
