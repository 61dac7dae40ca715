package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/outfile"
	"github.com/driver-container/driver-container/images/strictjson"
)

// layoutJobs is how many blobs are written in parallel: hashing uses one core, and a disk is faster
// with several writers.
const layoutJobs = 4

// WriteLayout writes an artifact, if it is not nil, into the OCI layout in dir, under the name tag
// (annotation org.opencontainers.image.ref.name). It creates a missing layout, replaces an entry of
// the same name, and keeps all other entries. Attachments become entries without a name; one with a
// tag extends that of the layout.
//
// Writers of one layout wait for each other. The index is replaced last and as a whole, so that the
// layout is complete at any moment. After an error, or when ctx ends, no partial file is left.
// Content is verified while it is written. A blob that is there with its size, and has not changed
// since the index was written, stays as it is and is not read. One that changed later is hashed,
// and replaced if it is damaged.
//
// Package layout of go-containerregistry does none of this: it writes the index in place, takes a
// blob of the right size for the right one, and knows no other writer.
func WriteLayout(
	ctx context.Context,
	dir, tag string,
	t Artifact,
	attachments ...Attachment,
) (err error) {
	defer failure.Wrap(&err, "write OCI layout %s", dir)
	store := filepath.Join(dir, "blobs", "sha256")
	err = os.MkdirAll(store, 0o755)
	if err != nil {
		return err
	}
	unlock, err := outfile.LockFolder(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	g, err := readGraph(dir)
	if err != nil {
		return err
	}
	err = g.add(t, tag, "")
	if err != nil {
		return err
	}
	err = g.attach(attachments)
	if err != nil {
		return err
	}
	outfile.Sweep(store, ".")
	written, err := g.writeBlobs(ctx, dir, store)
	if err != nil {
		return err
	}
	err = replaceText(dir, "oci-layout", []byte(LayoutVersion))
	if err != nil {
		return err
	}
	raw, err := g.rawIndex()
	if err != nil {
		return err
	}
	if !written {
		return replaceText(dir, "index.json", raw)
	}
	// The index gets a later time than every blob, so that the next build reads none of them.
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(clockTick):
	}
	return writeText(dir, "index.json", raw)
}

// writeBlobs writes those blobs that the layout lacks, and says whether there were any.
func (g *graph) writeBlobs(ctx context.Context, dir, store string) (bool, error) {
	var index unix.Stat_t
	_ = unix.Stat(filepath.Join(dir, "index.json"), &index) // no index: everything there is hashed
	indexed := index.Ctim.Nano()
	var written atomic.Bool
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.SetLimit(layoutJobs)
	for _, b := range g.blobs {
		jobs.Go(func() error {
			path := filepath.Join(store, b.Desc.Digest.Hex)
			if b.intact(ctx, path, indexed) {
				return nil
			}
			written.Store(true)
			return outfile.ReplaceSwept(path, func(w io.Writer) error { return b.Copy(ctx, w, nil) })
		})
	}
	err := jobs.Wait()
	return written.Load(), err
}

// clockTick is longer than the step of the clock by which a file system notes times.
const clockTick = 20 * time.Millisecond

// intact reports whether a file has the content of a blob. One that is older than the index is not
// read.
func (b Blob) intact(ctx context.Context, path string, indexed int64) bool {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != b.Desc.Size {
		return false
	}
	if st.Ctim.Nano() < indexed {
		return true
	}
	b.Open = func() (io.ReadCloser, error) { return bounded.Open(path) }
	damage := b.Copy(ctx, io.Discard, nil)
	return damage == nil
}

// replaceText writes a small file of a layout, unless it has that text.
func replaceText(dir, name string, text []byte) error {
	have, err := folder(dir).read(name, int64(len(text)))
	if err != nil || !bytes.Equal(have, text) {
		return writeText(dir, name, text)
	}
	return nil
}

func writeText(dir, name string, text []byte) error {
	return outfile.Replace(filepath.Join(dir, name), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// readGraph reads the index of a layout, or starts a new one. It refuses a layout of another
// version, to not damage it.
func readGraph(dir string) (*graph, error) {
	g := newGraph()
	g.have = folder(dir).blobs(dir)
	raw, err := folder(dir).read("index.json", MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return nil, err
	}
	g.index, err = strictjson.Decode[v1.IndexManifest](raw)
	if err != nil {
		return nil, fmt.Errorf(
			"its index.json is malformed: %w; remove the folder to begin a new layout", err,
		)
	}
	if g.index.SchemaVersion != 2 {
		return nil, fmt.Errorf(
			"its index.json has schema version %d, want 2; write to another folder",
			g.index.SchemaVersion,
		)
	}
	return g, nil
}

// Copy writes a blob to w. It returns an error if the blob does not match its descriptor. progress
// is that of [fetch.Copy].
func (b Blob) Copy(ctx context.Context, w io.Writer, progress func(int64)) error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	return fetch.Copy(ctx, w, Verify(r, b.Desc, "blob"), progress)
}
