package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
)

// Latest returns a document that may change, of at most limit bytes. It always asks the server and
// uses the copy in the store when the server says that it is current. An offline client uses the
// copy without asking (ErrOffline when there is none). A copy that is damaged does not count. The
// caller must verify the content: nothing here shows that it is authentic.
func (c *Client) Latest(ctx context.Context, rawURL string, limit int64) (data []byte, err error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		return readFile(u, limit)
	}
	var known origin
	// covers credentials and query: two users may see two documents
	blob, _ := c.Store.Lookup(documentRecord, rawURL, &known)
	kept, err := c.Store.Read(blob)
	if err != nil {
		_, _ = c.Store.RemoveDamaged(blob) // the next answer takes its place
		blob = ""
	}
	if c.Offline && blob == "" {
		return nil, fmt.Errorf("%s: %w", shown(u), ErrOffline)
	}
	unchanged := c.Offline
	if !c.Offline {
		err = c.ask(ctx, u, http.MethodGet, known.conditions(blob != ""), func(resp *http.Response, body io.Reader) (err error) {
			unchanged = resp.StatusCode == http.StatusNotModified && blob != ""
			if unchanged {
				return nil
			}
			if resp.StatusCode != http.StatusOK {
				return statusError(resp, u)
			}
			data, err = readBounded(body, shown(u), limit)
			if err != nil {
				return err
			}
			sum, err := c.Store.Put(data)
			if err != nil {
				return &localError{err}
			}
			// A server may send again what it could have called unchanged.
			from := originOf(resp, u)
			if sum == blob && from == known {
				return nil
			}
			return c.note(rawURL, sum, from)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", shown(u), err)
	}
	if unchanged {
		return readBounded(bytes.NewReader(kept), shown(u), limit)
	}
	return data, nil
}

// conditions returns the header that asks for a document only if it is another one; none if there is
// no copy of it.
func (o origin) conditions(kept bool) http.Header {
	header := http.Header{}
	switch {
	case !kept:
	case o.ETag != "":
		header.Set("If-None-Match", o.ETag)
	case o.LastModified != "":
		header.Set("If-Modified-Since", o.LastModified)
	}
	return header
}

func readFile(u *url.URL, limit int64) ([]byte, error) {
	f, err := bounded.Open(u.Path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shown(u), err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	return readBounded(f, shown(u), limit)
}

// note records which blob of the store has the document, and what the server said of it.
func (c *Client) note(rawURL, blob string, from origin) error {
	err := c.Store.Note(documentRecord, rawURL, blob, from)
	if err != nil {
		return &localError{err}
	}
	return nil
}

// Keep makes data the copy of a document in the store again, after Latest got one that is worse.
func (c *Client) Keep(rawURL string, data []byte) error {
	sum, err := c.Store.Put(data)
	if err != nil {
		return err
	}
	return c.Store.Note(documentRecord, rawURL, sum, origin{})
}

func originOf(resp *http.Response, u *url.URL) origin {
	return origin{
		URL:          shown(u),
		ETag:         resp.Header.Get("ETag"),
		LastModified: resp.Header.Get("Last-Modified"),
	}
}

func readBounded(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := bounded.Read(r, limit)
	if errors.Is(err, bounded.ErrTooLarge) {
		return nil, tooLarge(name, limit)
	}
	return data, err
}

func tooLarge(name string, limit int64) error {
	return &localError{fmt.Errorf("%s: %w", name, bounded.TooLarge(limit))}
}

// Import downloads content with an unknown digest, of at most limit bytes, into the store and
// returns its sha256 and size: it serves to find out what to pin. Every attempt begins with the
// first byte, and nothing shows that the content is authentic. Errors are those of Get, and
// bounded.ErrTooLarge.
func (c *Client) Import(
	ctx context.Context,
	rawURL string,
	limit int64,
	p Progress,
) (sha256hex string, size int64, err error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return "", 0, err
	}
	if u.Scheme == "file" {
		f, err := bounded.Open(u.Path)
		if err != nil {
			return "", 0, fmt.Errorf("read %s: %w", shown(u), err)
		}
		defer f.Close() //nolint:errcheck // opened for reading
		return c.importFrom(ctx, f, shown(u), 0, limit, p)
	}
	if c.Offline {
		return "", 0, fmt.Errorf("%s: %w", shown(u), ErrOffline)
	}
	err = c.ask(ctx, u, http.MethodGet, nil, func(resp *http.Response, body io.Reader) (err error) {
		switch {
		case resp.StatusCode != http.StatusOK:
			return statusError(resp, u)
		case resp.ContentLength > limit:
			return tooLarge(shown(u), limit)
		case endless(resp):
			return &localError{
				fmt.Errorf(
					"%s: the server does not say where the file ends: a cut would look like the whole of it",
					shown(u),
				),
			}
		}
		sha256hex, size, err = c.importFrom(
			ctx,
			body,
			shown(u),
			max(resp.ContentLength, 0),
			limit,
			p,
		)
		return err
	})
	if err != nil {
		return "", 0, fmt.Errorf("download %s: %w", shown(u), err)
	}
	return sha256hex, size, nil
}

// importFrom writes the content of a reader into the store. total is the expected number of bytes,
// 0 when unknown.
func (c *Client) importFrom(
	ctx context.Context,
	r io.Reader,
	name string,
	total, limit int64,
	p Progress,
) (string, int64, error) {
	w, err := c.Store.Create()
	if err != nil {
		return "", 0, &localError{err}
	}
	defer w.Close() //nolint:errcheck // discards; after Commit a no-op
	err = Copy(ctx, w, io.LimitReader(r, limit+1), func(n int64) {
		if p != nil {
			p(n, total)
		}
	})
	if err != nil {
		return "", 0, err
	}
	if w.size > limit {
		return "", 0, tooLarge(name, limit)
	}
	sum, size, err := w.Commit()
	if err != nil {
		return "", 0, &localError{err}
	}
	return sum, size, nil
}

// Stat returns the size of a file and when it was last changed, without its content, by a request
// for its first byte: servers refuse HEAD in several ways. What the server does not state is zero.
// Errors are those of Get.
func (c *Client) Stat(
	ctx context.Context,
	rawURL string,
) (size int64, changed time.Time, err error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return 0, changed, err
	}
	size, changed, err = c.stat(ctx, u)
	if err != nil {
		return 0, changed, fmt.Errorf("ask for the size and the date of %s: %w", shown(u), err)
	}
	return size, changed.UTC(), nil
}

func (c *Client) stat(ctx context.Context, u *url.URL) (size int64, changed time.Time, err error) {
	if u.Scheme == "file" {
		fi, err := os.Stat(u.Path)
		if err != nil {
			return 0, changed, err
		}
		return fi.Size(), fi.ModTime(), nil
	}
	if c.Offline {
		return 0, changed, ErrOffline
	}
	first := http.Header{"Range": {"bytes=0-0"}}
	err = c.ask(ctx, u, http.MethodGet, first, func(resp *http.Response, _ io.Reader) error {
		changed, _ = http.ParseTime(resp.Header.Get("Last-Modified")) //nolint:errcheck // none is zero
		switch resp.StatusCode {
		case http.StatusOK:
			size = max(resp.ContentLength, 0)
		case http.StatusPartialContent:
			_, size, _ = contentRange(resp.Header.Get("Content-Range"))
		default:
			return statusError(resp, u)
		}
		return nil
	})
	return size, changed, err
}
