package main

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
	"github.com/driver-container/driver-container/images/releases"
)

const (
	maxArchive  = 4 << 30  // bytes of a .run file; the largest has less than half a gigabyte
	maxSumsFile = 64 << 10 // bytes of a .sha256sum file, which has one line
)

// errNoChecksum says that an archive could be added but for its checksum.
var errNoChecksum = errors.New("no checksum is known")

// readIndex reads the list of --index.
func (n *driverEntry) readIndex(ctx context.Context, s *session) ([]releases.Sum, error) {
	address, err := addressOf("--index", n.options.index)
	if err != nil {
		return nil, usageError{err}
	}
	text, err := s.builder.Fetch.Latest(ctx, address, releases.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("--index: %w", err)
	}
	sums, err := releases.ParseIndex(text)
	if err != nil {
		return nil, usageError{fmt.Errorf("--index %s: %w", n.options.index, err)}
	}
	return sums, nil
}

// archive pins one archive: sha256, size and who says so. Everybody who knows the archive must say the same.
func (n *driverEntry) archive(ctx context.Context, s *session, arch, address string, r releases.Release) (matrix.Archive, error) {
	a := matrix.Archive{URL: address}
	var from []string
	agree := func(sum string, size int64, who string) error {
		if a.SHA256 != "" && a.SHA256 != sum || a.Size > 0 && size > 0 && a.Size != size {
			return &fetch.MismatchError{URL: address, Want: a.SHA256, Got: sum, WantSize: a.Size, GotSize: size}
		}
		a.SHA256, a.Size, from = sum, max(a.Size, size), append(from, who)
		return nil
	}
	day, err := n.app.now()
	if err != nil {
		return a, err
	}
	for _, x := range n.index {
		if x.Arch == arch && releases.Compare(x.Version, n.options.version) == 0 {
			if err := agree(x.SHA256, x.Size, shown(n.options.index)+by(x.From)); err != nil {
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
		sum, err := n.beside(ctx, s, arch, address)
		if err != nil {
			return a, err
		}
		if sum != "" {
			a.SHA256, from = sum, append(from, "the .sha256sum file beside the archive")
		}
	}
	if n.options.download {
		who := "a download"
		if a.SHA256 == "" {
			who = "a download alone"
		}
		sum, size, err := n.fetch(ctx, s, address)
		if err == nil {
			err = agree(sum, size, who)
		}
		if err != nil {
			return a, err
		}
	}
	if a.SHA256 == "" {
		return a, usageError{fmt.Errorf("%w for driver %s %s (%s): give --index, or --download to take the archive's own", errNoChecksum, n.options.version, arch, address)}
	}
	n.sources[arch] = strings.Join(from, ", and ") + "; added " + day.Format(time.DateOnly)
	return a, nil
}

// beside reads the checksum file that lies beside an archive, "" when there is none or it cannot be had.
func (n *driverEntry) beside(ctx context.Context, s *session, arch, address string) (string, error) {
	text, err := s.builder.Fetch.Latest(ctx, address+".sha256sum", maxSumsFile)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		n.notes = append(n.notes, fmt.Sprintf("the checksum beside the archive cannot be had: %v", err))
		return "", nil
	}
	sums, err := releases.ParseIndex(text)
	if err != nil {
		n.notes = append(n.notes, fmt.Sprintf("%s.sha256sum: %v", shown(address), err))
		return "", nil
	}
	for _, x := range sums {
		if x.Arch == arch && releases.Compare(x.Version, n.options.version) == 0 {
			return x.SHA256, nil
		}
	}
	n.notes = append(n.notes, fmt.Sprintf("%s.sha256sum is of another file", shown(address)))
	return "", nil
}

// fetch downloads an archive into the cache, where a build finds it again.
func (n *driverEntry) fetch(ctx context.Context, s *session, address string) (sum string, size int64, err error) {
	step := s.display.stepFor("driver "+n.options.version, "download "+shown(address))
	sum, size, err = s.builder.Fetch.Import(ctx, address, maxArchive, func(done, total int64) { step.Progress("archive", done, total) })
	return sum, size, step.End(false, err)
}

// shown is an address for people and for comments: without what may be secret. A file is shown by its name.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Scheme == "file" {
		return address[strings.LastIndex(address, "/")+1:]
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// by names those that an index names.
func by(from string) string {
	if from == "" {
		return ""
	}
	return ", which names " + strings.ReplaceAll(from, ",", ", ")
}
