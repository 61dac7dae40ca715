package rpm

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
)

// ErrIndex says that a repository contradicts itself: content that is not what its repomd.xml promises, or files that do not
// parse.
var ErrIndex = errors.New("inconsistent repository")

const maxRepomd = 4 << 20 // bytes; the largest have 20 KiB

// repomd is what a repomd.xml says, as far as it matters here.
type repomd struct {
	revision string          // mostly the seconds since 1970 when it was made, but any text is allowed
	newest   int64           // the largest timestamp of its lists
	lists    map[string]list // by type: "primary", "filelists", "modules", "primary_db"...
}

// list is one file of a repository.
type list struct {
	href, base    string // below the repository, or below base
	sum, unpacked sum    // of the file, and of what it unpacks to; unpacked is zero if not known
}

// sum is what a file must be.
type sum struct {
	sha256, sha512 string // hex, lower case; one of them
	size           int64  // bytes; 0: not known
}

func (s sum) digest() string {
	if s.sha256 != "" {
		return s.sha256
	}
	return s.sha512
}

// newSum takes the digests that count: sha256 and sha512 by the names that metadata gives them.
func newSum(kind, value string, size int64) (sum, error) {
	value = strings.ToLower(strings.TrimSpace(value))
	b, err := hex.DecodeString(value)
	switch kind = strings.ToLower(kind); {
	case err == nil && kind == "sha256" && len(b) == 32:
		return sum{sha256: value, size: size}, nil
	case err == nil && kind == "sha512" && len(b) == 64:
		return sum{sha512: value, size: size}, nil
	case kind == "sha256" || kind == "sha512":
		return sum{}, fmt.Errorf("%.80q is not a %s", value, kind)
	}
	return sum{}, fmt.Errorf("its digest is a %.20q, which does not count; want sha256 or sha512", kind)
}

// parseRepomd reads a repomd.xml. Lists whose digests do not count are left out: they cannot be used. Mistakes are ErrIndex.
func parseRepomd(text []byte) (*repomd, error) {
	r := &repomd{lists: map[string]list{}}
	weak := map[string]error{}
	x := newXML(bytes.NewReader(text))
	root := false
	for {
		token, err := x.next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%w: repomd.xml: %w", ErrIndex, err)
		}
		if token != xmlStart {
			continue
		}
		switch {
		case !root && string(x.name) != "repomd":
			return nil, fmt.Errorf("%w: repomd.xml: it begins with <%.40s>", ErrIndex, x.name)
		case !root:
			root = true
		case x.depth == 2 && string(x.name) == "revision":
			r.revision, err = x.readString()
		case x.depth == 2 && string(x.name) == "data":
			kind := string(x.attr("type"))
			var l list
			if l, err = r.readList(x); errors.Is(err, errWeak) {
				weak[kind], err = err, nil
			} else if _, twice := r.lists[kind]; err == nil && !twice {
				r.lists[kind] = l
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: repomd.xml: %w", ErrIndex, err)
		}
	}
	if _, ok := r.primary(); !ok {
		if err := weak["primary"]; err != nil {
			return nil, fmt.Errorf("%w: repomd.xml: list primary: %w", ErrIndex, err)
		}
		return nil, fmt.Errorf("%w: repomd.xml: it names no list primary", ErrIndex)
	}
	return r, nil
}

var errWeak = errors.New("unusable")

// primary is the list of packages: as XML, or else as a database.
func (r *repomd) primary() (list, bool) {
	l, ok := r.lists["primary"]
	if !ok {
		l, ok = r.lists["primary_db"]
	}
	return l, ok
}

// readList reads one data element.
func (r *repomd) readList(x *xmlReader) (l list, err error) {
	var kind, openKind, value, openValue string
	for end := x.depth - 1; x.depth > end; {
		token, err := x.next()
		if err != nil {
			return l, err
		}
		if token != xmlStart {
			continue
		}
		switch string(x.name) {
		case "checksum":
			kind = string(x.attr("type"))
			value, err = x.readString()
		case "open-checksum":
			openKind = string(x.attr("type"))
			openValue, err = x.readString()
		case "size":
			l.sum.size, err = x.readNumber()
		case "open-size":
			l.unpacked.size, err = x.readNumber()
		case "timestamp":
			var n int64
			if n, err = x.readNumber(); err == nil {
				r.newest = max(r.newest, n)
			}
		case "location":
			l.href, l.base = string(x.attr("href")), string(x.attr("base"))
		}
		if err != nil {
			return l, err
		}
	}
	size, open := l.sum.size, l.unpacked.size
	if l.sum, err = newSum(kind, value, size); err != nil {
		return l, fmt.Errorf("%w: %w", errWeak, err)
	}
	if l.unpacked, err = newSum(openKind, openValue, open); err != nil { // it is no more than a help
		l.unpacked = sum{size: open}
	}
	if _, err := join("https://x", l.base, l.href); err != nil {
		return l, fmt.Errorf("location %.80q: %w", l.href, err)
	}
	return l, nil
}

// join makes the URL of a file: below base where the metadata gives one (xml:base, as RHEL's extended repositories and
// merged ones have it), else below the repository. Its path may begin with steps up, but not above the host's root, nor out of
// a local folder: Amazon's repositories of each release have their packages in a folder beside them ("../../../../blobstore/").
// The digest of what is there is known in any case.
func join(repository, base, href string) (string, error) {
	if base != "" {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return "", fmt.Errorf("its base %.80q is not a URL of http or https; media are not read", base)
		}
		repository = strings.TrimRight(base, "/")
	}
	repository, href, err := climb(repository, strings.TrimPrefix(href, "./"))
	if err != nil {
		return "", err
	}
	plain, err := url.PathUnescape(href)
	if err != nil {
		plain = href // a lone percent sign
	}
	if !safePath(plain) || !safePath(href) || plain != href && strings.ContainsAny(href, "?#") {
		return "", errors.New("it is not a path below the repository")
	}
	if plain == href || err != nil {
		href = (&url.URL{Path: href}).EscapedPath() // most write names as they are, with + and ~ in them
	}
	return repository + "/" + href, nil
}

// climb takes the steps up that a path begins with off the end of the folder that it is in.
func climb(folder, href string) (above, rest string, err error) {
	rest, up := strings.CutPrefix(href, "../")
	if !up {
		return folder, href, nil
	}
	u, err := url.Parse(folder)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", "", errors.New("it leads out of a folder that is not on a web server")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	host := strings.TrimSuffix(strings.TrimRight(folder, "/"), path)
	for ; up; rest, up = strings.CutPrefix(rest, "../") {
		last := strings.LastIndexByte(path, '/')
		if last < 0 {
			return "", "", errors.New("it leads above the root of the server")
		}
		path = path[:last]
	}
	return host + path, rest, nil
}

// of tells whether the sum is that of some bytes. The size is not compared: the digest says all.
func (s sum) of(data []byte) bool {
	if s.sha256 != "" {
		have := sha256.Sum256(data)
		return s.sha256 == hex.EncodeToString(have[:])
	}
	have := sha512.Sum512(data)
	return s.sha512 == hex.EncodeToString(have[:])
}

// safePath tells whether a relative path stays below where it starts and needs no cleaning.
func safePath(p string) bool {
	return fs.ValidPath(p) && p != "." && !strings.ContainsAny(p, "\\\x00\n\r")
}
