package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
)

// transfer appends to part until the server says that the file is complete, and retries where that
// can help. It returns the whole size as the server announced it, 0 if it did not.
func (c *Client) transfer(
	ctx context.Context,
	u *url.URL,
	f File,
	part *partial,
	progress Progress,
) (int64, error) {
	var announced int64
	best := part.size
	err := c.retry(ctx, u, func(ctx context.Context) (bool, error) {
		var err error
		announced, err = c.attempt(ctx, u, f, part, progress)
		progressed := part.size > best
		best = max(best, part.size)
		return progressed, err
	})
	return announced, err
}

// attempt sends one request; for the rest of the file when part has a beginning.
func (c *Client) attempt(
	ctx context.Context,
	u *url.URL,
	f File,
	part *partial,
	progress Progress,
) (int64, error) {
	if f.Size > 0 && part.size == f.Size {
		return part.size, nil
	}
	header := http.Header{}
	if part.size > 0 {
		header.Set("Range", "bytes="+strconv.FormatInt(part.size, 10)+"-")
		if v := part.origin.validator(); v != "" {
			header.Set("If-Range", v)
		}
	}
	var total int64
	err := c.send(
		ctx,
		u,
		http.MethodGet,
		header,
		func(resp *http.Response, body io.Reader) (err error) {
			total, err = position(resp, u, part)
			if status, ok := errors.AsType[*StatusError](err); ok {
				status.late = f.Listed && status.Code == http.StatusNotFound
			}
			if err != nil || total > 0 && total == part.size {
				return err
			}
			limit := int64(maxUnknownSize)
			if f.Size > 0 {
				limit = f.Size + 1 // one more byte shows that the file is too large
			}
			progress(part.size, max(total, f.Size))
			start := part.size
			err = Copy(
				ctx,
				part,
				io.LimitReader(body, limit-start),
				func(n int64) { progress(start+n, max(total, f.Size)) },
			)
			switch {
			case err != nil:
				return err
			case part.size >= limit && f.Size > 0:
				return nil // too large: the caller detects it
			case part.size >= limit:
				return &localError{
					fmt.Errorf("given up: %w", bounded.TooLarge(limit)),
				}
			case total > 0 && part.size < total, part.size < f.Size && endless(resp):
				return io.ErrUnexpectedEOF
			}
			return nil
		},
	)
	return total, err
}

// endless reports whether only the end of the connection marked the end of the body, as in HTTP/1
// with neither a length nor chunks. An interrupted body looks the same.
func endless(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// position sets part to where the body of the answer begins, and returns the size of the whole
// file, 0 if unknown.
func position(resp *http.Response, u *url.URL, part *partial) (int64, error) {
	from := originOf(resp, u)
	switch resp.StatusCode {
	// From the start: a first request, a changed file, or a server without ranges.
	case http.StatusOK:
		return max(resp.ContentLength, 0), part.restart(from)
	case http.StatusPartialContent:
		first, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if ok && part.size > 0 && first == part.size {
			return total, nil
		}
	case http.StatusRequestedRangeNotSatisfiable:
		// The partial file may be complete already: the process was killed after the last byte,
		// before the rename.
		whole := fmt.Sprintf("bytes */%d", part.size)
		if part.size > 0 && resp.Header.Get("Content-Range") == whole {
			return part.size, nil
		}
	default:
		return 0, statusError(resp, u)
	}
	// The answer is about another part of the file than requested: begin again.
	if err := part.restart(origin{}); err != nil {
		return 0, err
	}
	return 0, errors.New("the server answered with another range than asked for")
}

// validator returns the value for If-Range: a strong ETag or a date (RFC 9110, 13.1.5 forbids weak
// ones). If it is "", the download is resumed nevertheless, because the digest decides in the end.
func (o origin) validator() string {
	if o.ETag != "" && !strings.HasPrefix(o.ETag, "W/") {
		return o.ETag
	}
	return o.LastModified
}

// contentRange parses "bytes 10-99/100"; total is 0 for "*".
func contentRange(s string) (first, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	if !ok {
		return 0, 0, false
	}
	span, size, _ := strings.Cut(s, "/")
	start, _, _ := strings.Cut(span, "-")
	first, err := strconv.ParseInt(start, 10, 64)
	if err != nil || first < 0 {
		return 0, 0, false
	}
	if size == "*" {
		return first, 0, true
	}
	total, err = strconv.ParseInt(size, 10, 64)
	return first, total, err == nil && total > first
}
