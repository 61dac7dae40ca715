package images

import (
	"context"
	"errors"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/rootfs"
)

// The names of our own programs in the image. Both of the first work: nvidia-driver is what the GPU Operator calls.
const (
	EntrypointName = "driver-entrypoint"
	EntrypointLink = "nvidia-driver"
	ProbeName      = "driver-probe"
	EvictName      = "driver-evict"
	binDir         = "usr/local/bin"
	evictDir       = "usr/bin" // a path that pod specifications name: see docs/evict.md
)

func (b *Builder) entrypointLayer(ctx context.Context, r *Recipe) (v1.Layer, error) {
	k, err := key("entrypoint", r.Entrypoint, r.Compression, r.Epoch)
	if err != nil {
		return nil, err
	}
	return b.layer(ctx, r, "entrypoint", k, func(_ context.Context, spool *rootfs.Spool, _ *Step) (*rootfs.Tree, error) {
		tree := rootfs.New(spool, nil)
		for _, bin := range r.Entrypoint {
			if err := addProgram(tree, bin); err != nil {
				return nil, err
			}
		}
		return tree, tree.AddLink(binDir+"/"+EntrypointLink, EntrypointName)
	})
}

func addProgram(tree *rootfs.Tree, bin Binary) (err error) {
	f, err := os.Open(bin.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	dir := binDir
	if bin.Name == EvictName {
		dir = evictDir
	}
	return tree.AddFile(dir+"/"+bin.Name, 0o755, info.Size(), f)
}
