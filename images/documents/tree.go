package documents

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// isRead reports whether the content of a file is needed; of all others the digest is enough.
func isRead(p string) bool {
	return verify.IsInspected(p) || p == recipe.LicenceFile || isProgram(p) || isCopyright(p) ||
		slices.ContainsFunc(matrix.ComponentNames, func(name string) bool { return p == recipe.ComponentLicence(name) })
}

// readTree returns the files of an image with their digests, and the content of those that isRead selects.
// The cache keeps the digests of a layer, so after a build only the layers with such content are read, each
// no further than needed. The driver's libraries, the largest part of an image, are not read again.
func readTree(ctx context.Context, cache layer.Cache, img v1.Image, spool *rootfs.Spool, step *progress.Step) (*rootfs.Tree, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, fmt.Errorf("read the layers: %w", err)
	}
	tree, err := cache.Outline(ctx, layers, spool, step)
	if err != nil {
		return nil, err
	}
	missing := map[string]*rootfs.Entry{}
	for _, e := range tree.All() {
		if e.Kind == rootfs.File && e.ContentOmitted && isRead(e.Path) {
			missing[e.Path] = e
		}
	}
	for _, l := range slices.Backward(layers) {
		if len(missing) == 0 {
			break
		}
		here, err := filesOf(ctx, cache, l, missing, spool, step)
		if err == nil && len(here) > 0 {
			err = fill(ctx, tree, l, here)
		}
		if err != nil {
			return nil, err
		}
		for name := range here {
			delete(missing, name)
		}
	}
	if len(missing) > 0 { // below a folder that a lower layer makes a link: the names in the layer are others
		return layer.Flatten(ctx, img, spool, nil, step)
	}
	return tree, nil
}

// filesOf returns those of the files that a layer has, by name and digest.
func filesOf(
	ctx context.Context, cache layer.Cache, l v1.Layer, files map[string]*rootfs.Entry, spool *rootfs.Spool, step *progress.Step,
) (map[string]*rootfs.Entry, error) {
	own, err := cache.Outline(ctx, []v1.Layer{l}, spool, step)
	if err != nil {
		return nil, err
	}
	here := map[string]*rootfs.Entry{}
	for name, want := range files {
		e, ok := own.Lstat(name)
		if !ok || e.Kind != rootfs.File || e.Size != want.Size {
			continue
		}
		a, err := e.SHA256()
		b, err2 := want.SHA256()
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		if a == b {
			here[name] = want
		}
	}
	return here, nil
}

// fill puts the contents of files from the layer that has them into the tree. Only content with the right
// digest counts, so the layer need not be read to its end.
func fill(ctx context.Context, tree *rootfs.Tree, l v1.Layer, files map[string]*rootfs.Entry) (err error) {
	r, err := layer.Open(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	left := maps.Clone(files)
	for tr := tar.NewReader(bufio.NewReaderSize(rootfs.Cancellable(ctx, r), 256<<10)); len(left) > 0; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("read a layer: %d files that its outline in the cache lists are not there: remove the cache's folder layers",
				len(left))
		}
		if err != nil {
			return fmt.Errorf("read a layer: %w", err)
		}
		name, err := rootfs.Clean(h.Name)
		if err != nil {
			return err
		}
		e := files[name]
		if e == nil || h.Typeflag != tar.TypeReg || h.Size != e.Size {
			continue
		}
		want, err := e.SHA256()
		if err != nil {
			return err
		}
		sum := sha256.New()
		if err := tree.AddFile(name, e.Mode, h.Size, io.TeeReader(tr, sum)); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) == want {
			delete(left, name)
		}
	}
	return nil
}
