package releases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/redist"
)

const (
	maxArchive  = 4 << 30  // bytes of an archive; the largest has less than half a gigabyte
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
	stated, err := e.statements(ctx, arch, address, r)
	if err != nil {
		return matrix.Archive{}, err
	}
	if e.Download != nil {
		s := Statement{Source: "a download"}
		if len(stated) == 0 {
			s.Source = "a download alone"
		}
		if s.SHA256, s.Size, err = e.Download(ctx, address, maxArchive); err != nil {
			return matrix.Archive{}, err
		}
		stated = append(stated, s)
	}
	if len(stated) == 0 {
		return matrix.Archive{}, matrix.RequestErrorf("%w for driver %s %s (%s): give --redist or --index, or --download to take the archive's own",
			errNoChecksum, e.Version, arch, address)
	}
	a := matrix.Archive{URL: address, SHA256: stated[0].SHA256}
	var from []string
	for i, s := range stated {
		for _, earlier := range stated[:i] {
			if s.contradicts(earlier) {
				return a, &DisagreementError{address[strings.LastIndex(address, "/")+1:], earlier, s}
			}
		}
		a.Size, from = max(a.Size, s.Size), append(from, s.Source)
	}
	e.sources[arch] = strings.Join(from, ", and ") + "; added " + e.Day.Format(time.DateOnly)
	return a, nil
}

// statements are what the sources say about an archive, the strongest first. The .sha256sum file beside an
// archive is asked only if there is no other, and archives of the redist folder have none.
func (e *Entry) statements(ctx context.Context, arch, address string, r Release) (stated []Statement, err error) {
	if (matrix.Archive{URL: address}).Redist() {
		if e.manifest != nil {
			if f, ok := e.manifest.Component(redist.Driver, arch); ok {
				stated = append(stated, Statement{f.From, f.SHA256, f.Size})
			}
		}
		if f, ok := r.Component(redist.Driver, arch); ok && (e.manifest == nil || !strings.HasPrefix(f.From, fromManifest)) {
			stated = append(stated, f.statement())
		}
		return stated, nil
	}
	stated = e.sumsOf(arch, e.sums, Shown(e.IndexName))
	if x, ok := r.Archive(arch); ok && x.SHA256 != "" {
		stated = append(stated, x.statement())
	}
	if len(stated) > 0 {
		return stated, nil
	}
	text, err := e.Read(ctx, address+".sha256sum", maxSumsFile)
	var sums []Sum
	if err == nil {
		sums, err = ParseIndex(text)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	stated = e.sumsOf(arch, sums, "the .sha256sum file beside the archive")
	if err == nil && len(stated) == 0 {
		err = errors.New("it is of another file")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.Notes = append(e.Notes, fmt.Sprintf("%s.sha256sum: %v", Shown(address), err))
	}
	return stated, nil
}

// sumsOf are what a list of checksums says of the driver.
func (e *Entry) sumsOf(arch string, sums []Sum, source string) (stated []Statement) {
	for _, x := range sums {
		if x.Arch == arch && Compare(x.Version, e.Version) == 0 {
			stated = append(stated, Statement{source + namedBy(x.From), x.SHA256, x.Size})
		}
	}
	return stated
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
