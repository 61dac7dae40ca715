package bundle

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Recorder makes a partial mirror of package repositories: it passes requests on and records whole
// answers to GET into a folder, below HOST/PATH; the colon of a port becomes a dash. Clients that
// ask a copy of it the same get the same answers, with the repositories' own signatures. Answers to
// addresses with a query, such as lists of mirrors, are not recorded: the address would not be a
// file's.
type Recorder struct {
	Dir  string
	Next http.RoundTripper // nil: http.DefaultTransport
}

// RoundTrip is http.RoundTripper's.
func (t *Recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	next := t.Next
	if next == nil {
		next = http.DefaultTransport
	}
	answer, err := next.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || answer.StatusCode != http.StatusOK ||
		answer.Uncompressed {
		return answer, err
	}
	asked := r
	// a redirection: nodes ask for the first address
	for asked.Response != nil && asked.Response.Request != nil {
		asked = asked.Response.Request
	}
	name, ok := fileOf(asked.URL)
	if !ok {
		return answer, nil
	}
	f, err := os.CreateTemp(t.Dir, ".part-*")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record %s: %w", name, err), answer.Body.Close())
	}
	answer.Body = &body{
		ReadCloser: answer.Body,
		file:       f,
		to:         filepath.Join(t.Dir, filepath.FromSlash(name)),
		want:       answer.ContentLength,
	}
	return answer, nil
}

// fileOf is the path of the file that has the answer of an address.
func fileOf(u *url.URL) (string, bool) {
	name := strings.ReplaceAll(u.Host, ":", "-") + path.Clean("/"+u.Path)
	return name, u.RawQuery == "" && u.Host != "" && CheckPath(Headers, name) == nil
}

// body records what is read.
type body struct {
	io.ReadCloser
	file *os.File
	to   string
	want int64 // -1: unknown
	done int64
	end  bool
	err  error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if _, bad := b.file.Write(p[:n]); bad != nil {
		b.err = bad
		return n, fmt.Errorf("record %s: %w", b.to, bad)
	}
	b.done += int64(n)
	b.end = b.end || errors.Is(err, io.EOF)
	return n, err
}

// Close keeps the file if it is whole.
func (b *body) Close() error {
	err := errors.Join(b.ReadCloser.Close(), b.file.Close())
	whole := b.done == b.want || b.want < 0 && b.end
	if err != nil || b.err != nil || !whole {
		return errors.Join(err, os.Remove(b.file.Name()))
	}
	err = os.MkdirAll(filepath.Dir(b.to), 0o755)
	if err != nil {
		return errors.Join(err, os.Remove(b.file.Name()))
	}
	return os.Rename(b.file.Name(), b.to)
}
