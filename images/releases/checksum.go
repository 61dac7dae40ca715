package releases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
)

const (
	maxArchive  = 4 << 30  // bytes of a .run file; the largest has less than half a gigabyte
	maxSumsFile = 64 << 10 // bytes of a .sha256sum file, which has one line
)

// errNoChecksum says that only the checksum of an archive is missing.
var errNoChecksum = errors.New("no checksum is known")

// readIndex reads the list of checksums.
func (e *Entry) readIndex(ctx context.Context) ([]Sum, error) {
	text, err := e.Read(ctx, e.Index, MaxSize)
	if err != nil {
		return nil, fmt.Errorf("--index: %w", err)
	}
	sums, err := ParseIndex(text)
	if err != nil {
		return nil, matrix.RequestErrorf("--index %s: %w", e.IndexName, err)
	}
	return sums, nil
}

// archive pins one archive: sha256, size and who says so. All sources that know the archive must say the
// same.
func (e *Entry) archive(ctx context.Context, arch, address string, r Release) (matrix.Archive, error) {
	a := matrix.Archive{URL: address}
	var from []string
	agree := func(sum string, size int64, who string) error {
		if a.SHA256 != "" && a.SHA256 != sum || a.Size > 0 && size > 0 && a.Size != size {
			return &fetch.MismatchError{URL: address, Want: a.SHA256, Got: sum, WantSize: a.Size, GotSize: size}
		}
		a.SHA256, a.Size, from = sum, max(a.Size, size), append(from, who)
		return nil
	}
	for _, x := range e.sums {
		if x.Arch == arch && Compare(x.Version, e.Version) == 0 {
			if err := agree(x.SHA256, x.Size, Shown(e.IndexName)+namedBy(x.From)); err != nil {
				return a, err
			}
		}
	}
	if x, ok := r.Archive(arch); ok && x.SHA256 != "" {
		if err := agree(x.SHA256, x.Size, strings.ReplaceAll(x.From, ",", ", ")+" (table of driver-build)"); err != nil {
			return a, err
		}
	}
	if a.SHA256 == "" {
		sum, err := e.sumBeside(ctx, arch, address)
		if err != nil {
			return a, err
		}
		if sum != "" {
			a.SHA256, from = sum, append(from, "the .sha256sum file beside the archive")
		}
	}
	if e.Download != nil {
		who := "a download"
		if a.SHA256 == "" {
			who = "a download alone"
		}
		sum, size, err := e.Download(ctx, address, maxArchive)
		if err == nil {
			err = agree(sum, size, who)
		}
		if err != nil {
			return a, err
		}
	}
	if a.SHA256 == "" {
		return a, matrix.RequestErrorf("%w for driver %s %s (%s): give --index, or --download to take the archive's own",
			errNoChecksum, e.Version, arch, address)
	}
	e.sources[arch] = strings.Join(from, ", and ") + "; added " + e.Day.Format(time.DateOnly)
	return a, nil
}

// sumBeside reads the checksum file that lies beside an archive; "" if there is none or the server does not
// send it.
func (e *Entry) sumBeside(ctx context.Context, arch, address string) (string, error) {
	text, err := e.Read(ctx, address+".sha256sum", maxSumsFile)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		e.Notes = append(e.Notes, fmt.Sprintf("the checksum beside the archive cannot be had: %v", err))
		return "", nil
	}
	sums, err := ParseIndex(text)
	if err != nil {
		e.Notes = append(e.Notes, fmt.Sprintf("%s.sha256sum: %v", Shown(address), err))
		return "", nil
	}
	for _, x := range sums {
		if x.Arch == arch && Compare(x.Version, e.Version) == 0 {
			return x.SHA256, nil
		}
	}
	e.Notes = append(e.Notes, fmt.Sprintf("%s.sha256sum is of another file", Shown(address)))
	return "", nil
}

// Shown is an address for people and for comments: without what may be secret. A file is shown by its name.
func Shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Scheme == "file" {
		return address[strings.LastIndex(address, "/")+1:]
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// namedBy names the authors that an index names.
func namedBy(from string) string {
	if from == "" {
		return ""
	}
	return ", which names " + strings.ReplaceAll(from, ",", ", ")
}
