package remotelayers

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry"
)

// sendAtOnce is how many blobs of an image are looked for, or sent, at a time.
const sendAtOnce = 4

// Complete sends blobs that a repository lost although it has the manifest of an image that names them: a
// push of the same image asks for the manifest only. It does nothing for images that the finder has not found
// in the repository. Each blob is looked for once in the life of the finder.
func (f *Finder) Complete(ctx context.Context, repository string, images []v1.Image) error {
	for _, img := range images {
		digest, err := img.Digest()
		if err != nil {
			return err
		}
		if !f.found(repository, digest) {
			continue
		}
		content, err := oci.Collect(img)
		if err != nil {
			return err
		}
		jobs, jctx := errgroup.WithContext(ctx)
		jobs.SetLimit(sendAtOnce)
		for _, b := range content.Blobs {
			jobs.Go(func() error { return f.send(jctx, repository, b) })
		}
		if err := jobs.Wait(); err != nil {
			return fmt.Errorf("send again what %s lost of image %s: %w", repository, digest, err)
		}
	}
	return nil
}

// send sends a blob, unless the repository has it.
func (f *Finder) send(ctx context.Context, repository string, b oci.Blob) error {
	at := place{repository: repository, name: b.Desc.Digest.String()}
	f.mu.Lock()
	before := f.complete[at]
	f.mu.Unlock()
	if before {
		return nil
	}
	state, err := f.Registry.PushBlob(ctx, repository, b)
	if err != nil {
		return err
	}
	if state != registry.Exists {
		step := f.Observe.Begin(repository, "layer cache")
		step.Note(fmt.Sprintf("warning: %s had lost the blob %s of an image, and has it again", repository, b.Desc.Digest))
		_ = step.End(true, nil) // it returns its argument
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.complete[at] = true
	return nil
}
