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

	"github.com/driver-container/driver-container/distros"
)

// maxRepomd is the most bytes that a repomd.xml may have; the largest real ones have 20 KiB.
const maxRepomd = 4 << 20

// repomd is the part of a repomd.xml that is used here.
type repomd struct {
	Revision string              // mostly its time in seconds since 1970, but any text is allowed
	Newest   int64               // the largest timestamp of its lists
	Lists    map[string]listFile // by type: "primary", "filelists", "modules"...
}

// listFile is one file of a repository.
type listFile struct {
	Href, Base    string   // relative to the repository, or to base
	Sum, Unpacked checksum // of the file and of its unpacked content; Unpacked is zero if not known
}

// checksum is the expected digest and size of a file.
type checksum struct {
	SHA256, SHA512 string // hex, lower case; one of the two is set
	Size           int64  // bytes; 0: not known
}

// Digest returns the SHA-256, or the SHA-512 if there is no SHA-256, in hex.
func (s checksum) Digest() string {
	if s.SHA256 != "" {
		return s.SHA256
	}
	return s.SHA512
}

// newChecksum returns the checksum for a digest of kind "sha256" or "sha512", the names that metadata uses.
// Other kinds are an error, as they are too weak.
func newChecksum(kind, value string, size int64) (checksum, error) {
	value = strings.ToLower(strings.TrimSpace(value))
	b, err := hex.DecodeString(value)
	switch kind = strings.ToLower(kind); {
	case err == nil && kind == "sha256" && len(b) == 32:
		return checksum{SHA256: value, Size: size}, nil
	case err == nil && kind == "sha512" && len(b) == 64:
		return checksum{SHA512: value, Size: size}, nil
	case kind == "sha256" || kind == "sha512":
		return checksum{}, fmt.Errorf("%.80q is not a %s", value, kind)
	}
	return checksum{}, fmt.Errorf("its digest is a %.20q, which does not count; want sha256 or sha512", kind)
}

// parseRepomd reads a repomd.xml. It leaves out lists that have only a weak digest, because they cannot be
// used. Mistakes are distros.ErrIndex.
func parseRepomd(text []byte) (*repomd, error) {
	r := &repomd{Lists: map[string]listFile{}}
	weak := map[string]error{}
	x := newXMLReader(bytes.NewReader(text))
	root := false
	for {
		token, err := x.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%w: repomd.xml: %w", distros.ErrIndex, err)
		}
		if token != xmlStart {
			continue
		}
		switch {
		case !root && string(x.Name) != "repomd":
			return nil, fmt.Errorf("%w: repomd.xml: it begins with <%.40s>", distros.ErrIndex, x.Name)
		case !root:
			root = true
		case x.Depth == 2 && string(x.Name) == "revision":
			r.Revision, err = x.readString()
		case x.Depth == 2 && string(x.Name) == "data":
			kind := string(x.Attr("type"))
			var l listFile
			if l, err = r.readList(x); errors.Is(err, errWeak) {
				weak[kind], err = err, nil
			} else if _, twice := r.Lists[kind]; err == nil && !twice {
				r.Lists[kind] = l
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: repomd.xml: %w", distros.ErrIndex, err)
		}
	}
	if _, ok := r.Lists["primary"]; !ok {
		if err := weak["primary"]; err != nil {
			return nil, fmt.Errorf("%w: repomd.xml: list primary: %w", distros.ErrIndex, err)
		}
		if _, database := r.Lists["primary_db"]; database {
			return nil, fmt.Errorf("%w: repomd.xml: it lists its packages as a database only; "+
				"createrepo_c makes lists that can be read", distros.ErrIndex)
		}
		return nil, fmt.Errorf("%w: repomd.xml: it names no list primary", distros.ErrIndex)
	}
	return r, nil
}

var errWeak = errors.New("unusable")

// readList reads one data element.
func (r *repomd) readList(x *xmlReader) (l listFile, err error) {
	var kind, openKind, value, openValue string
	for end := x.Depth - 1; x.Depth > end; {
		token, err := x.Next()
		if err != nil {
			return l, err
		}
		if token != xmlStart {
			continue
		}
		switch string(x.Name) {
		case "checksum":
			kind = string(x.Attr("type"))
			value, err = x.readString()
		case "open-checksum":
			openKind = string(x.Attr("type"))
			openValue, err = x.readString()
		case "size":
			l.Sum.Size, err = x.readNumber()
		case "open-size":
			l.Unpacked.Size, err = x.readNumber()
		case "timestamp":
			var n int64
			if n, err = x.readNumber(); err == nil {
				r.Newest = max(r.Newest, n)
			}
		case "location":
			l.Href, l.Base = string(x.Attr("href")), string(x.Attr("base"))
		}
		if err != nil {
			return l, err
		}
	}
	size, open := l.Sum.Size, l.Unpacked.Size
	if l.Sum, err = newChecksum(kind, value, size); err != nil {
		return l, fmt.Errorf("%w: %w", errWeak, err)
	}
	// the digest of the unpacked content is only an additional check
	if l.Unpacked, err = newChecksum(openKind, openValue, open); err != nil {
		l.Unpacked = checksum{Size: open}
	}
	if _, err := joinURL("https://x", l.Base, l.Href); err != nil {
		return l, fmt.Errorf("location %.80q: %w", l.Href, err)
	}
	return l, nil
}

// joinURL returns the URL of a file: below base if the metadata has one (xml:base, as RHEL's extended
// repositories and merged ones do), otherwise below the repository. Its path may begin with "..", but must
// not leave the host's root or a local folder: Amazon's repositories of each release have their packages in a
// folder beside them ("../../../../blobstore/"). The content is safe in any case, because its digest is
// known.
func joinURL(repository, base, href string) (string, error) {
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
		plain = href // it contains a lone percent sign
	}
	if !safePath(plain) || !safePath(href) || plain != href && strings.ContainsAny(href, "?#") {
		return "", errors.New("it is not a path below the repository")
	}
	if plain == href || err != nil {
		href = (&url.URL{Path: href}).EscapedPath() // most metadata has names as they are, with + and ~ in them
	}
	return repository + "/" + href, nil
}

// climb removes one element from the end of the folder for each ".." at the beginning of the path. It returns
// the remaining folder and path.
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

// Matches reports whether the checksum is that of some bytes. It does not compare the size: the digest is
// enough.
func (s checksum) Matches(data []byte) bool {
	if s.SHA256 != "" {
		have := sha256.Sum256(data)
		return s.SHA256 == hex.EncodeToString(have[:])
	}
	have := sha512.Sum512(data)
	return s.SHA512 == hex.EncodeToString(have[:])
}

// safePath reports whether a relative path stays below its start and needs no cleaning.
func safePath(p string) bool {
	return fs.ValidPath(p) && p != "." && !strings.ContainsAny(p, "\\\x00\n\r")
}
