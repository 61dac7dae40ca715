package rpm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

const (
	maxMirrorList = 4 << 20 // bytes; Fedora's metalink has 60 KiB
	maxMirrors    = 1000    // in one list
	tryMirrors    = 8       // the number of mirrors that are asked before a repository counts as unreachable
)

// mirrors is the content of a mirror list or a metalink.
type mirrors struct {
	folders []string   // that hold repodata, best first
	sums    []checksum // the permitted checksums of repomd.xml: the current one and the last ones; none for a mirror list
}

// parseMirrors reads a mirror list, which has one URL a line, or a metalink, which is XML. Mistakes are
// distros.ErrIndex.
func parseMirrors(data []byte, v repoconf.Vars) (m mirrors, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) {
		m, err = parseMetalink(data)
	} else {
		m = parseMirrorList(data, v)
	}
	if err == nil && len(m.folders) == 0 {
		err = errors.New("it names no mirror of http or https")
	}
	if err != nil {
		return m, fmt.Errorf("%w: %w", distros.ErrIndex, err)
	}
	return m, nil
}

func parseMirrorList(data []byte, v repoconf.Vars) (m mirrors) {
	for line := range strings.Lines(string(data)) {
		folder := strings.TrimRight(strings.TrimSpace(v.Expand(strings.TrimSpace(line))), "/")
		if repoconf.IsRemote(folder) && len(m.folders) < maxMirrors {
			m.folders = append(m.folders, folder)
		}
	}
	return m
}

// parseMetalink reads a metalink of MirrorManager: the mirrors with their preference (100 is best) and the
// digests of repomd.xml.
func parseMetalink(data []byte) (m mirrors, err error) {
	const file = "repodata/repomd.xml"
	type mirror struct {
		folder     string
		preference int
	}
	var found []mirror
	var size int64
	x := newXMLReader(bytes.NewReader(data))
	for {
		token, err := x.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return m, fmt.Errorf("metalink: %w", err)
		}
		if token != xmlStart {
			continue
		}
		switch string(x.Name) {
		case "size":
			size, err = x.readNumber()
		case "hash":
			kind := string(x.Attr("type"))
			var value string
			if value, err = x.readString(); err == nil {
				// a metalink has MD5 and SHA-1 as well, which NewChecksum refuses
				if s, err := newChecksum(kind, value, size); err == nil && len(m.sums) < maxMirrors {
					m.sums = append(m.sums, s)
				}
			}
		case "url":
			preference, _ := strconv.Atoi(string(x.Attr("preference"))) // a mirror without a preference comes last
			var raw string
			raw, err = x.readString()
			if folder, ok := strings.CutSuffix(raw, "/"+file); ok && repoconf.IsRemote(folder) && len(found) < maxMirrors {
				found = append(found, mirror{folder, preference})
			}
		}
		if err != nil {
			return m, fmt.Errorf("metalink: %w", err)
		}
	}
	if len(m.sums) == 0 {
		return m, errors.New("metalink: it gives no sha256 or sha512 of repomd.xml")
	}
	slices.SortStableFunc(found, func(a, b mirror) int { return cmp.Compare(b.preference, a.preference) })
	for _, f := range found {
		m.folders = append(m.folders, f.folder)
	}
	return m, nil
}

// permits reports whether a repomd.xml is one of those that the metalink names.
func (m mirrors) permits(repomd []byte) bool {
	return len(m.sums) == 0 || slices.ContainsFunc(m.sums, func(s checksum) bool { return s.Matches(repomd) })
}
