package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/layer"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

func (b *Builder) entrypointLayer(ctx context.Context, r *recipe.Recipe) (v1.Layer, error) {
	links := []string{recipe.EntrypointLink, recipe.ToolkitLink}
	k, err := layer.Key("entrypoint", r.Entrypoint, links, r.Compression, r.Epoch)
	if err != nil {
		return nil, err
	}
	return b.Layers().Make(ctx, spec(r, "entrypoint", k), func(_ context.Context, spool *rootfs.Spool, _ *progress.Step) (*rootfs.Tree, error) {
		tree := rootfs.New(spool, nil)
		for _, bin := range r.Entrypoint {
			if err := addProgram(tree, bin); err != nil {
				return nil, err
			}
		}
		for _, link := range links {
			if err := tree.AddLink(recipe.BinDir+"/"+link, recipe.EntrypointName); err != nil {
				return nil, err
			}
		}
		return tree, nil
	})
}

func addProgram(tree *rootfs.Tree, bin recipe.Binary) (err error) {
	f, err := bounded.Open(bin.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	dir := recipe.BinDir
	for _, p := range recipe.OptionalPrograms() {
		if p.Name == bin.Name {
			dir = p.Dir
		}
	}
	read := sha256.New()
	if err := tree.AddFile(dir+"/"+bin.Name, 0o755, info.Size(), io.TeeReader(f, read)); err != nil {
		return err
	}
	if hex.EncodeToString(read.Sum(nil)) != bin.SHA256 {
		return fmt.Errorf("%s changed during the build: run the same command again", bin.Path)
	}
	return nil
}
