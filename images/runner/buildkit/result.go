package buildkit

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// Bounds of a result, the same as those of runner.Collect, for a command that runs away and for a daemon that
// misbehaves.
const (
	maxResultFiles = 100_000
	maxResultBytes = 16 << 30
	maxResultPath  = 1024
)

// errIncomplete ends a result whose stream was incomplete. The error of the solve has the reason.
var errIncomplete = errors.New("the result did not arrive as a whole")

// result unpacks the tar stream of a daemon as it arrives. It accepts what runner.Collect accepts: regular
// files, which get mode 0644, and folders, 0755.
type result struct {
	dir string

	mu   sync.Mutex
	pipe *io.PipeWriter // nil until the daemon begins to send
	done chan error     // result of the goroutine that unpacks
	over bool           // no new stream may begin
	err  error
}

func newResult(dir string) *result { return &result{dir: dir} }

// open is called by the session when the daemon begins to send.
func (r *result) open() (io.WriteCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.pipe != nil {
		return nil, errors.New("a step has one result, and it has ended")
	}
	from, to := io.Pipe()
	r.pipe, r.done = to, make(chan error, 1)
	go func() {
		err := unpack(from, r.dir)
		from.CloseWithError(errors.Join(errIncomplete, err)) //nolint:errcheck // always nil; this refuses a daemon that sends more
		r.done <- err
	}()
	return &incoming{r, to}, nil
}

// incoming is the end that the session writes to. Its Close waits until everything is on the disk, so that a
// solve that succeeds has left a complete result.
type incoming struct {
	result *result
	*io.PipeWriter
}

func (w *incoming) Close() error {
	if err := w.PipeWriter.Close(); err != nil {
		return err
	}
	return w.result.wait()
}

func (r *result) wait() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil {
		r.err = <-r.done
		r.done = nil
	}
	return r.err
}

// close ends the unpacking at any point. It returns an error of this side (something was refused, or could
// not be written), or errIncomplete when the only fault is that something is missing.
func (r *result) close() error {
	r.mu.Lock()
	r.over = true
	if r.pipe == nil {
		r.mu.Unlock()
		return errIncomplete
	}
	r.pipe.CloseWithError(io.ErrUnexpectedEOF) //nolint:errcheck // always nil; no effect when the stream has ended
	r.mu.Unlock()
	return r.wait()
}

// unpack reads an archive to its end and unpacks it into an empty folder.
func unpack(from io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the folder for the result: %w", err)
	}
	defer root.Close()
	u := unpacker{root: root, archive: tar.NewReader(from), left: maxResultBytes}
	for {
		hdr, err := u.archive.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, io.LimitReader(from, 1<<20)) // padding
			return truncated(err)
		}
		if err != nil {
			return truncated(err)
		}
		if err := u.member(hdr); err != nil {
			return truncated(err)
		}
	}
}

// truncated distinguishes a stream that ended too early from wrong content and from errors of our disk.
func truncated(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errIncomplete
	}
	return err
}

type unpacker struct {
	root    *os.Root
	archive *tar.Reader
	files   int
	left    int64
}

func (u *unpacker) member(hdr *tar.Header) error {
	name := path.Clean(hdr.Name)
	u.files++
	switch {
	case u.files >= maxResultFiles:
		return fmt.Errorf("the command's output has more than %d files", maxResultFiles)
	case len(name) > maxResultPath:
		return fmt.Errorf("the command's output: %.80s...: a path of %d bytes", name, len(name))
	case !filepath.IsLocal(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("the command's output: %q leads out of the result's folder", hdr.Name)
	case hdr.PAXRecords["GNU.sparse.realsize"] != "" || hdr.PAXRecords["GNU.sparse.size"] != "":
		return fmt.Errorf("the command's output: %s is a sparse file, which BuildKit does not send: a few bytes could fill this disk", name)
	case hdr.Typeflag != tar.TypeDir && hdr.Mode&0o6000 != 0:
		return fmt.Errorf("the command's output: %s is setuid or setgid: a result has no place for it", name)
	}
	switch hdr.Typeflag {
	case tar.TypeDir:
		return u.folder(name)
	case tar.TypeReg:
		return u.file(name, hdr.Size, u.archive)
	case tar.TypeLink: // another name of an earlier file: becomes two files, as in a copy
		return u.copyOf(name, path.Clean(hdr.Linkname))
	}
	return fmt.Errorf("the command's output: %s is neither a regular file nor a folder (tar type %q): a result has no place for it", name, hdr.Typeflag)
}

func (u *unpacker) folder(name string) error {
	if name == "." {
		return nil
	}
	if err := u.root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	return u.root.Chmod(name, 0o755) // independent of the umask
}

func (u *unpacker) file(name string, size int64, content io.Reader) error {
	if u.left -= size; size < 0 || u.left < 0 {
		return fmt.Errorf("the command's output has more than %d bytes", int64(maxResultBytes))
	}
	if dir := path.Dir(name); dir != "." {
		if err := u.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, content)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, out.Chmod(0o644), out.Close())
}

func (u *unpacker) copyOf(name, first string) error {
	if !filepath.IsLocal(first) {
		return fmt.Errorf("the command's output: %s is a link to %q, outside of the result", name, first)
	}
	in, err := u.root.Open(first)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("the command's output: %s is a link to %s, which is no file", name, first)
	}
	return u.file(name, info.Size(), in)
}
