package documents

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/verify"
)

// readTree returns the files of an image with their digests, and the content of those that the document needs. The cache keeps
// the digests of a layer, so after a build only the layers with such content are read, each no further than needed. The driver's
// libraries, the largest part of an image, are not read again.
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
		if e.Kind == rootfs.File && e.ContentOmitted && (verify.IsInspected(e.Path) || isProgram(e.Path) || isText(e.Path)) {
			missing[e.Path] = e
		}
	}
	for _, l := range slices.Backward(layers) {
		own, err := cache.Outline(ctx, []v1.Layer{l}, spool, step)
		if err != nil {
			return nil, err
		}
		here := map[string]*rootfs.Entry{}
		for name, want := range missing {
			if e, ok := own.Lstat(name); ok && sameContent(e, want) {
				here[name] = want
				delete(missing, name)
			}
		}
		if err := fill(ctx, tree, l, here); err != nil {
			return nil, fmt.Errorf("read a layer: %w", err)
		}
	}
	if len(missing) > 0 { // below a folder that a lower layer makes a link: the names in the layer are others
		return layer.Flatten(ctx, img, spool, nil, step)
	}
	return tree, nil
}

// sameContent compares entries of outlines, whose digests are known.
func sameContent(a, b *rootfs.Entry) bool {
	if a.Kind != rootfs.File || a.Size != b.Size {
		return false
	}
	one, errA := a.SHA256()
	two, errB := b.SHA256()
	return errA == nil && errB == nil && one == two
}

// fill puts the contents of files from the layer that has them into the tree.
func fill(ctx context.Context, tree *rootfs.Tree, l v1.Layer, files map[string]*rootfs.Entry) (err error) {
	if len(files) == 0 {
		return nil
	}
	r, err := layer.Open(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for tr := tar.NewReader(bufio.NewReaderSize(rootfs.Cancellable(ctx, r), 256<<10)); len(files) > 0; {
		h, err := tr.Next()
		if err != nil {
			return fmt.Errorf("its outline in the cache lists %d files more: %w", len(files), err)
		}
		name, err := rootfs.Clean(h.Name)
		if err != nil {
			return err
		}
		if e := files[name]; e != nil && h.Typeflag == tar.TypeReg && h.Size == e.Size {
			if err := tree.AddFile(name, e.Mode, h.Size, tr); err != nil {
				return err
			}
			delete(files, name)
		}
	}
	return nil
}
