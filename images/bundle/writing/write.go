package writing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/bundle/tarfile"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/outfile"
)

// errParts says that a stream takes one file.
var errParts = errors.New("several parts need files: they cannot be written to a pipe")

// Progress is called with the bytes of a part that are there, and all of them. It is called often.
type Progress func(file string, done, total int64)

// Stream writes a bundle of one part to a pipe.
func (p *Plan) Stream(ctx context.Context, w io.Writer, progress Progress) error {
	if len(p.Sizes) > 1 {
		return fmt.Errorf("write the bundle: %w", errParts)
	}
	done := int64(0)
	for _, m := range p.members(0) {
		if err := m.write(ctx, w, progress.from("-", done, p.Sizes[0])); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
		done += tarfile.Space(m.blob.Desc.Size)
		progress.report("-", done, p.Sizes[0])
	}
	if _, err := w.Write(make([]byte, tarfile.TrailerSize)); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	progress.report("-", p.Sizes[0], p.Sizes[0])
	return nil
}

func (p Progress) report(file string, done, total int64) {
	if p != nil {
		p(file, done, total)
	}
}

// from returns what reports the bytes of a member that begins at an offset.
func (p Progress) from(file string, at, total int64) func(int64) {
	return func(done int64) { p.report(file, at+tarfile.BlockSize+done, total) }
}

// Names returns the names of the files that WriteFiles writes: path itself, or "B-1of3.tar" and so on
// for "B.tar".
func (p *Plan) Names(path string) []string {
	if len(p.Sizes) == 1 {
		return []string{path}
	}
	ext := filepath.Ext(path)
	var all []string
	for n := range p.Sizes {
		all = append(all, fmt.Sprintf("%s-%dof%d%s", strings.TrimSuffix(path, ext), n+1, len(p.Sizes), ext))
	}
	return all
}

// WriteFiles writes the bundle's files, each under a temporary name until it is complete. With resume, what
// an earlier call left there is kept as far as it is sound, and a part that is complete is not written again.
func (p *Plan) WriteFiles(ctx context.Context, path string, resume bool, progress Progress) error {
	for part, name := range p.Names(path) {
		if resume && p.complete(ctx, part, name) {
			progress.report(name, p.Sizes[part], p.Sizes[part])
			continue
		}
		err := outfile.Resume(name, resume, func(f *os.File) error { return p.fill(ctx, part, name, f, resume, progress) })
		if err != nil {
			return fmt.Errorf("write %s: %w; repeat the command with --resume to continue", name, err)
		}
	}
	return nil
}

// fill writes what a file lacks of a part.
func (p *Plan) fill(ctx context.Context, part int, name string, f *os.File, resume bool, progress Progress) error {
	old := int64(0)
	if info, err := f.Stat(); err != nil {
		return err
	} else if resume {
		old = info.Size()
	}
	at := int64(0)
	for _, m := range p.members(part) {
		if end := at + tarfile.Space(m.blob.Desc.Size); end > old || !m.sound(ctx, f, at) {
			if err := m.write(ctx, io.NewOffsetWriter(f, at), progress.from(name, at, p.Sizes[part])); err != nil {
				return err
			}
		}
		at += tarfile.Space(m.blob.Desc.Size)
		progress.report(name, at, p.Sizes[part])
	}
	if _, err := f.WriteAt(make([]byte, tarfile.TrailerSize), at); err != nil {
		return err
	}
	progress.report(name, p.Sizes[part], p.Sizes[part])
	return f.Truncate(p.Sizes[part])
}

// complete says whether a file is the part, in every byte.
func (p *Plan) complete(ctx context.Context, part int, name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != p.Sizes[part] {
		return false
	}
	at := int64(0)
	for _, m := range p.members(part) {
		if !m.sound(ctx, f, at) {
			return false
		}
		at += tarfile.Space(m.blob.Desc.Size)
	}
	end := make([]byte, tarfile.TrailerSize)
	_, err = f.ReadAt(end, at)
	return err == nil && len(bytes.Trim(end, "\x00")) == 0
}

// write writes the member to w. Its content is compared with its digest on the way.
func (m member) write(ctx context.Context, w io.Writer, progress func(int64)) (err error) {
	h := tarfile.Header(m.name, m.blob.Desc.Size)
	if _, err := w.Write(h[:]); err != nil {
		return err
	}
	r, err := m.blob.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	v := oci.Verify(r, m.blob.Desc, m.name)
	defer func() { err = errors.Join(err, v.Close()) }()
	if err := fetch.Copy(ctx, w, v, progress); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	_, err = w.Write(make([]byte, tarfile.Padding(m.blob.Desc.Size)))
	return err
}

// sound says whether a file has the member at this place.
func (m member) sound(ctx context.Context, f io.ReaderAt, at int64) bool {
	var got [tarfile.BlockSize]byte
	if _, err := f.ReadAt(got[:], at); err != nil || got != tarfile.Header(m.name, m.blob.Desc.Size) {
		return false
	}
	d := m.blob.Desc
	content := io.NopCloser(io.NewSectionReader(f, at+tarfile.BlockSize, d.Size))
	if err := fetch.Copy(ctx, io.Discard, oci.Verify(content, v1.Descriptor{Digest: d.Digest, Size: d.Size}, m.name), nil); err != nil {
		return false
	}
	pad := make([]byte, tarfile.Padding(d.Size))
	_, err := f.ReadAt(pad, at+tarfile.BlockSize+d.Size)
	return (err == nil || len(pad) == 0) && len(bytes.Trim(pad, "\x00")) == 0
}
