package rpm

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

const (
	maxMirrorList = 4 << 20 // bytes; Fedora's metalink has 60 KiB
	maxMirrors    = 1000    // in one list
	// the number of mirrors that are asked before a repository counts as unreachable
	tryMirrors = 8
)

// mirrors is the content of a mirror list or a metalink.
type mirrors struct {
	folders []string // that hold repodata, best first
	// the permitted checksums of repomd.xml: the current one and the last ones; none for a mirror
	// list
	sums []fetch.File
}

// parseMirrors reads a mirror list, which has one URL a line, or a metalink, which is XML. Mistakes
// are distros.ErrIndex.
func parseMirrors(data []byte, v repoconf.Vars) (m mirrors, err error) {
	m = parseMirrorList(data, v)
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) {
		m, err = parseMetalink(data)
	}
	if len(m.folders) == 0 {
		err = cmp.Or(err, errors.New("it names no mirror of http or https"))
	}
	if err != nil {
		return m, distros.BadIndex("%w", err)
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

// parseMetalink reads a metalink of MirrorManager: the mirrors with their preference (100 is best)
// and the digests of repomd.xml.
func parseMetalink(data []byte) (m mirrors, err error) {
	x := newXMLReader(bytes.NewReader(data))
	preferences := map[string]int{}
	var size int64 // of the state of the file whose digests follow
	for {
		token, err := x.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return m, fmt.Errorf("metalink: %w", err)
		}
		name := string(x.Name)
		if token != xmlStart || name != "size" && name != "hash" && name != "url" {
			continue
		}
		kind := string(x.Attr("type"))
		preference := string(x.Attr("preference"))
		text, err := x.text()
		if err != nil {
			return m, fmt.Errorf("metalink: %w", err)
		}
		switch name {
		case "size":
			size, err = whole(text)
			if err != nil {
				return m, fmt.Errorf("metalink: %w", err)
			}
		case "hash":
			m.addSum(kind, text, size)
		case "url":
			m.addFolder(text, preference, preferences)
		}
	}
	if len(m.sums) == 0 {
		return m, errors.New("metalink: it gives no sha256 or sha512 of repomd.xml")
	}
	slices.SortStableFunc(
		m.folders,
		func(a, b string) int { return cmp.Compare(preferences[b], preferences[a]) },
	)
	return m, nil
}

// addSum adds a permitted checksum. A metalink has MD5 and SHA-1 as well, which fetch.NewFile
// refuses.
func (m *mirrors) addSum(kind, digest string, size int64) {
	sum, err := fetch.NewFile(kind, digest, size)
	if err != nil || len(m.sums) == maxMirrors {
		return
	}
	m.sums = append(m.sums, sum)
}

// addFolder adds the folder of a mirror's repomd.xml. A mirror without a preference comes last.
func (m *mirrors) addFolder(address, preference string, preferences map[string]int) {
	folder, ok := strings.CutSuffix(strings.TrimSpace(address), "/repodata/repomd.xml")
	if ok && repoconf.IsRemote(folder) && len(m.folders) < maxMirrors {
		m.folders = append(m.folders, folder)
		preferences[folder], _ = strconv.Atoi(preference)
	}
}

// permits reports whether a repomd.xml is one of those that the metalink names.
func (m mirrors) permits(repomd []byte) bool {
	short := fmt.Sprintf("%x", sha256.Sum256(repomd))
	long := fmt.Sprintf("%x", sha512.Sum512(repomd))
	return len(m.sums) == 0 ||
		slices.ContainsFunc(
			m.sums,
			func(f fetch.File) bool { return f.SHA256 == short || f.SHA512 == long },
		)
}
