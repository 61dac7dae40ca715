package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/distros/bounded"
)

// urlRecord is the record of a URL whose content may change: its last blob, and how to ask whether that is
// current.
type urlRecord struct {
	URL          string `json:"url"` // without credentials
	SHA256       string `json:"sha256"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
}

// Latest returns a document that may change, of at most limit bytes. It always asks the server and uses the
// copy in the store when the server says that it is current. An offline client uses the copy without asking
// (ErrOffline when there is none). The caller must verify the content: nothing here shows that it is
// authentic.
func (c *Client) Latest(ctx context.Context, rawURL string, limit int64) (data []byte, err error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "file" {
		f, err := bounded.Open(u.Path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", redactURL(u), err)
		}
		defer f.Close() //nolint:errcheck // opened for reading
		return readBounded(f, redactURL(u), limit)
	}
	// The key covers credentials and query, because two users may see two documents.
	key := sha256.Sum256([]byte(rawURL))
	recordPath := filepath.Join(c.Store.dir, documentsDir, hex.EncodeToString(key[:])+".json")
	known := c.readRecord(recordPath, u)
	if c.Offline {
		if known.SHA256 == "" {
			return nil, fmt.Errorf("%s: %w", redactURL(u), ErrOffline)
		}
		return c.readStored(known, limit)
	}
	unchanged := false
	err = c.retry(ctx, u, func(ctx context.Context) (bool, error) {
		var next urlRecord
		data, next, unchanged, err = c.conditionalGet(ctx, u, known, limit)
		if err == nil && !unchanged {
			err = c.writeRecord(recordPath, known, next, data)
		}
		return false, err
	})
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", redactURL(u), err)
	}
	if unchanged {
		return c.readStored(known, limit)
	}
	return data, nil
}

// readRecord reads the record of a document. An unreadable record, or one whose blob is missing, counts
// as none.
func (c *Client) readRecord(recordPath string, u *url.URL) urlRecord {
	var d urlRecord
	text, err := os.ReadFile(recordPath) //nolint:gosec // a path inside the store
	if err != nil || json.Unmarshal(text, &d) != nil || d.URL != redactURL(u) || !c.Store.Has(d.SHA256) {
		return urlRecord{}
	}
	return d
}

func (c *Client) readStored(d urlRecord, limit int64) ([]byte, error) {
	f, err := c.Store.Open(d.SHA256)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	return readBounded(f, d.URL, limit)
}

// conditionalGet sends one conditional request.
func (c *Client) conditionalGet(ctx context.Context, u *url.URL, known urlRecord, limit int64) ([]byte, urlRecord, bool, error) {
	req, err := c.request(ctx, u)
	if err != nil {
		return nil, urlRecord{}, false, err
	}
	if known.ETag != "" {
		req.Header.Set("If-None-Match", known.ETag)
	}
	if known.LastModified != "" {
		req.Header.Set("If-Modified-Since", known.LastModified)
	}
	watch := newWatch(req, c.stall())
	defer watch.stop()
	resp, err := c.client().Do(watch.req)
	if err != nil {
		return nil, urlRecord{}, false, watch.explain(err)
	}
	defer resp.Body.Close() //nolint:errcheck // opened for reading
	switch {
	case resp.StatusCode == http.StatusNotModified && known.SHA256 != "":
		return nil, known, true, nil
	case resp.StatusCode != http.StatusOK:
		return nil, urlRecord{}, false, statusError(resp, u)
	}
	data, err := readBounded(watch.reader(resp.Body), redactURL(u), limit)
	if err != nil {
		return nil, urlRecord{}, false, watch.explain(err)
	}
	next := urlRecord{URL: redactURL(u), ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")}
	return data, next, false, nil
}

// writeRecord stores the content as a blob and then, by one rename, records that it is current, unless the
// record says so already: a server may send again what it could have called unchanged.
func (c *Client) writeRecord(recordPath string, known, d urlRecord, data []byte) error {
	w, err := c.Store.Create()
	if err != nil {
		return &localError{err}
	}
	defer w.Close() //nolint:errcheck // discards; after Commit a no-op
	if _, err := w.Write(data); err != nil {
		return &localError{err}
	}
	if d.SHA256, _, err = w.Commit(); err != nil {
		return &localError{err}
	}
	if d == known {
		return nil
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return &localError{err}
	}
	if err := replaceFile(recordPath, append(text, '\n')); err != nil {
		return &localError{err}
	}
	return nil
}

func readBounded(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := bounded.Read(r, limit)
	if _, ok := errors.AsType[*bounded.TooLargeError](err); ok {
		return nil, &localError{fmt.Errorf("%s: %w: more than %d bytes", name, ErrTooLarge, limit)}
	}
	return data, err
}
