package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/redact"
)

// Latest returns a document that may change, of at most limit bytes. It always asks the server and
// uses the copy in the store when the server says that it is current. An offline client uses the
// copy without asking (ErrOffline when there is none). The caller must verify the content: nothing
// here shows that it is authentic.
func (c *Client) Latest(ctx context.Context, rawURL string, limit int64) (data []byte, err error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		f, err := bounded.Open(u.Path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", redact.URL(u.String()), err)
		}
		defer f.Close() //nolint:errcheck // opened for reading
		return readBounded(f, redact.URL(u.String()), limit)
	}
	var known origin
	// covers credentials and query: two users may see two documents
	blob, _ := c.Store.Lookup(documentRecord, rawURL, &known)
	header, unchanged := http.Header{}, c.Offline
	switch {
	case c.Offline && blob == "":
		return nil, fmt.Errorf("%s: %w", redact.URL(u.String()), ErrOffline)
	case blob != "" && known.ETag != "":
		header.Set("If-None-Match", known.ETag)
	case blob != "" && known.LastModified != "":
		header.Set("If-Modified-Since", known.LastModified)
	}
	if !c.Offline {
		err = c.ask(ctx, u, http.MethodGet, header, func(resp *http.Response, body io.Reader) (err error) {
			if unchanged = resp.StatusCode == http.StatusNotModified && blob != ""; unchanged {
				return nil
			}
			if resp.StatusCode != http.StatusOK {
				return statusError(resp, u)
			}
			if data, err = readBounded(body, redact.URL(u.String()), limit); err != nil {
				return err
			}
			sum, err := c.Store.Put(data)
			// A server may send again what it could have called unchanged.
			if from := originOf(resp, u); err == nil && (sum != blob || from != known) {
				err = c.Store.Note(documentRecord, rawURL, sum, from)
			}
			if err != nil {
				return &localError{err}
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", redact.URL(u.String()), err)
	}
	if !unchanged {
		return data, nil
	}
	f, err := c.Store.Open(blob)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	return readBounded(f, redact.URL(u.String()), limit)
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
		URL:          redact.URL(u.String()),
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
			return "", 0, fmt.Errorf("read %s: %w", redact.URL(u.String()), err)
		}
		defer f.Close() //nolint:errcheck // opened for reading
		return c.importFrom(ctx, f, redact.URL(u.String()), 0, limit, p)
	}
	if c.Offline {
		return "", 0, fmt.Errorf("%s: %w", redact.URL(u.String()), ErrOffline)
	}
	err = c.ask(ctx, u, http.MethodGet, nil, func(resp *http.Response, body io.Reader) (err error) {
		switch {
		case resp.StatusCode != http.StatusOK:
			return statusError(resp, u)
		case resp.ContentLength > limit:
			return tooLarge(redact.URL(u.String()), limit)
		case endless(resp):
			return &localError{
				fmt.Errorf(
					"%s: the server does not say where the file ends: a cut would look like the whole of it",
					redact.URL(u.String()),
				),
			}
		}
		sha256hex, size, err = c.importFrom(
			ctx,
			body,
			redact.URL(u.String()),
			max(resp.ContentLength, 0),
			limit,
			p,
		)
		return err
	})
	if err != nil {
		return "", 0, fmt.Errorf("download %s: %w", redact.URL(u.String()), err)
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
	switch {
	case err != nil:
		return 0, changed, err
	case c.Offline && u.Scheme != "file":
		err = ErrOffline
	case u.Scheme == "file":
		var fi os.FileInfo
		fi, err = os.Stat(u.Path)
		if err == nil {
			return fi.Size(), fi.ModTime().UTC(), nil
		}
	default:
		err = c.ask(
			ctx,
			u,
			http.MethodGet,
			http.Header{"Range": {"bytes=0-0"}},
			func(resp *http.Response, _ io.Reader) error {
				if date, err := http.ParseTime(resp.Header.Get("Last-Modified")); err == nil {
					changed = date.UTC()
				}
				switch size = max(resp.ContentLength, 0); resp.StatusCode {
				case http.StatusOK:
				case http.StatusPartialContent:
					_, size, _ = contentRange(resp.Header.Get("Content-Range"))
				default:
					return statusError(resp, u)
				}
				return nil
			},
		)
	}
	if err != nil {
		return 0, changed, fmt.Errorf(
			"ask for the size and the date of %s: %w",
			redact.URL(u.String()),
			err,
		)
	}
	return size, changed, nil
}
