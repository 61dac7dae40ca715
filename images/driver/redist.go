package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/unxz"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/redist"
	"github.com/driver-container/driver-container/images/rootfs"
)

// unpackRedist reads all files of an archive of NVIDIA's redist folder into the spool, under the names that
// they have in the .run archive, so that the same manifest says what is installed where. Links are passed
// over: the manifest has them all.
func unpackRedist(ctx context.Context, xz unxz.Program, file string, r *recipe.Recipe, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
	raw := rootfs.New(spool, nil)
	var done int64
	err := extractRedist(ctx, xz, file, *r.Source.Redist, func(id redist.Identity) error {
		if id.Component != redist.Driver || id.Version != r.Driver || id.Arch != r.Arch {
			return fmt.Errorf("%w: the archive is %s %s for %s, not %s %s for %s: correct its URL in the matrix",
				ErrContent, id.Component, id.Version, id.Arch, redist.Driver, r.Driver, r.Arch)
		}
		return nil
	}, func(m redist.Member, content io.Reader) error {
		if m.Link != "" {
			return nil
		}
		done += m.Size
		step.Work("unpack", done, 0)
		name := redist.Place(m.Name)
		if _, taken := raw.Lstat(name); taken {
			return fmt.Errorf("%w: %s would be %s of the .run archive, as another member is already", ErrContent, m.Name, name)
		}
		return raw.AddFile(name, m.Mode, m.Size, content)
	})
	return raw, err
}

// extractRedist reads an archive of the redist folder and compares its digest once more: the file may have
// changed since it was downloaded.
func extractRedist(
	ctx context.Context, xz unxz.Program, name string, want fetch.File, begin func(redist.Identity) error, add func(redist.Member, io.Reader) error,
) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	source := io.TeeReader(f, sum)
	if err := redist.Extract(ctx, source, xz.Open(ctx), begin, add); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, rootfs.Cancellable(ctx, source)); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want.SHA256 {
		return &fetch.MismatchError{URL: want.URL, Want: want.SHA256, Got: got}
	}
	return nil
}

// has32 reports whether an unpacked archive holds 32-bit libraries. Archives of the redist folder may lack
// them, and their manifest lists them all the same.
func has32(raw *rootfs.Tree) bool {
	for _, e := range raw.All() {
		if strings.HasPrefix(e.Path, "32/") {
			return true
		}
	}
	return false
}
