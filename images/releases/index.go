package releases

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Sum is a published sha256 of a .run file.
type Sum struct {
	Version, Arch string
	URL           string // "" when the index does not have it
	File          string // as the index names it, where it has no URL
	SHA256        string
	Size          int64  // bytes; 0: unknown
	From          string // the source of the checksum, where the index names one
}

// fileShape matches the names of NVIDIA's archives: NVIDIA-Linux-x86_64-535.261.03.run.
var fileShape = regexp.MustCompile(`^NVIDIA-Linux-(x86_64|aarch64)-([0-9.]+)\.run$`)

const maxSums = 20000

// ParseIndex parses a list of checksums of NVIDIA's archives. Its lines have the form of sha256sum, with
// version and architecture in the file names (NVIDIA's own .sha256sum files have this form), or are
// tab-separated as in the table of this program: version, architecture, URL, sha256 and optionally size,
// number of sources, and names of the sources. ParseIndex skips other lines. A text without any checksum of a
// driver is ErrFormat.
func ParseIndex(text []byte) ([]Sum, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes are too many for a list of checksums (at most %d)", ErrFormat, len(text), MaxSize)
	}
	var sums []Sum
	for line := range strings.Lines(string(text)) {
		s, ok := parseSum(strings.TrimRight(line, "\r\n"))
		if !ok {
			continue
		}
		if sums = append(sums, s); len(sums) > maxSums {
			return nil, fmt.Errorf("%w: more than %d checksums", ErrFormat, maxSums)
		}
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("%w: no sha256 of a driver's .run file in it (lines as sha256sum writes them are expected)", ErrFormat)
	}
	return sums, nil
}

func parseSum(line string) (Sum, bool) {
	if row := strings.Split(line, "\t"); len(row) >= 4 {
		return parseRow(row)
	}
	sum, file, ok := strings.Cut(strings.TrimSpace(line), " ")
	m := fileShape.FindStringSubmatch(path.Base(strings.TrimLeft(file, " *")))
	if !ok || m == nil || !versionShape.MatchString(m[2]) || !sumShape.MatchString(strings.ToLower(sum)) {
		return Sum{}, false
	}
	arch, _ := archOf(m[1])
	return Sum{Version: m[2], Arch: arch, File: strings.TrimLeft(file, " *"), SHA256: strings.ToLower(sum)}, true
}

// address is where the archive is, of a checksum whose index is at this address: an index on a server lies
// beside its archives, and any other is of NVIDIA's own, at the address that most of them have.
func (s Sum) address(index string) string {
	if s.URL != "" {
		return s.URL
	}
	if u, err := url.Parse(index); err == nil && strings.HasPrefix(u.Scheme, "http") {
		if u, err = u.Parse(s.File); err == nil && isRun(u.String()) {
			return u.String()
		}
	}
	folder := map[string]string{"amd64": "Linux-x86_64", "arm64": "aarch64"}[s.Arch]
	return archiveHost + "/XFree86/" + folder + "/" + s.Version + "/" + path.Base(s.File)
}

func parseRow(row []string) (Sum, bool) {
	arch, known := archOf(row[1])
	s := Sum{Version: row[0], Arch: arch, SHA256: strings.ToLower(row[3])}
	if !known || !versionShape.MatchString(s.Version) || !sumShape.MatchString(s.SHA256) {
		return Sum{}, false
	}
	if u := row[2]; strings.HasPrefix(u, "/") && isRun(archiveHost+u) {
		s.URL = archiveHost + u
	} else if isRun(u) {
		s.URL = u
	}
	if len(row) > 4 {
		if n, err := strconv.ParseInt(row[4], 10, 64); err == nil && n > 0 {
			s.Size = n
		}
	}
	if len(row) > 6 {
		s.From = printableText(row[6])
	}
	return s, true
}

// printableText keeps the characters that are safe in a comment: printable ASCII, of bounded length.
func printableText(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), 200)]
}
