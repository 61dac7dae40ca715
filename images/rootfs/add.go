package rootfs

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"maps"
)

// AddBytes adds a file with the given content.
func (t *Tree) AddBytes(name string, mode fs.FileMode, data []byte) error {
	return t.AddFile(name, mode, int64(len(data)), bytes.NewReader(data))
}

// AddEntry adds an entry of another tree on the same spool at its own path, through the links of the
// tree below.
func (t *Tree) AddEntry(e *Entry) error {
	switch e.Kind {
	case Dir:
		return t.AddDir(e.Path, e.Mode)
	case Link:
		return t.AddLink(e.Path, e.Target)
	default:
		return t.Move(e, e.Path)
	}
}

// Cancellable makes reads of r fail once the context has ended, so that a large file in the middle of
// unpacking does not hold up a stop.
func Cancellable(ctx context.Context, r io.Reader) io.Reader { return &cancelReader{ctx, r} }

type cancelReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one copy, which it cancels
	r   io.Reader
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// Clone returns a tree with the same entries over the same lower tree. A change of one does not change
// the other.
func (t *Tree) Clone() *Tree {
	c := New(t.spool, t.lower)
	c.entries = maps.Clone(t.entries)
	for dir, names := range t.names {
		c.names[dir] = maps.Clone(names)
	}
	return c
}
