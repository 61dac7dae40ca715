package rpm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
)

// maxRepomd is the most bytes that a repomd.xml may have; the largest real ones have 20 KiB.
const maxRepomd = 4 << 20

// repomd is the part of a repomd.xml that is used here.
type repomd struct {
	Revision string              // mostly its time in seconds since 1970, but any text is allowed
	Newest   int64               // the largest timestamp of its lists
	Lists    map[string]listFile // by type, those of usedLists
	notes    []string
}

// usedLists are the types of lists that this package reads.
var usedLists = []string{"primary", "filelists", "modules"}

// listFile is one file of a repository.
type listFile struct {
	Href, Base string     // relative to the repository, or to base
	Sum        fetch.File // without its URL
	Unpacked   int64      // bytes of its content; 0: not known
}

// dataXML is the entry of a list in a repomd.xml. Times and sizes are texts: some repositories write
// fractions.
type dataXML struct {
	Type, Href, Base          string
	SumType, Sum              string
	Size, OpenSize, Timestamp string
}

// read reads a child of the entry.
func (d *dataXML) read(x *xmlReader) (err error) {
	switch string(x.Name) {
	case "location":
		d.Href = string(x.Attr("href"))
		d.Base = string(x.Attr("base"))
	case "checksum":
		d.SumType = string(x.Attr("type"))
		d.Sum, err = x.text()
	case "size":
		d.Size, err = x.text()
	case "open-size":
		d.OpenSize, err = x.text()
	case "timestamp":
		d.Timestamp, err = x.text()
	}
	return err
}

// readRepomd reads the elements of a repomd.xml that count.
func readRepomd(text []byte) (revision string, all []dataXML, err error) {
	x := newXMLReader(bytes.NewReader(text))
	inData := false
	for {
		token, err := x.Next()
		if errors.Is(err, io.EOF) {
			return revision, all, nil
		}
		if err != nil {
			return "", nil, err
		}
		if token != xmlStart {
			continue
		}
		name := string(x.Name)
		switch {
		case x.Depth == 1 && name != "repomd":
			return "", nil, fmt.Errorf("it begins with <%.40s>, want <repomd>", name)
		case x.Depth == 2 && name == "revision":
			revision, err = x.text()
		case x.Depth == 2:
			inData = name == "data"
			all = append(all, dataXML{Type: string(x.Attr("type"))})
		case x.Depth == 3 && inData:
			err = all[len(all)-1].read(x)
		}
		if err != nil {
			return "", nil, err
		}
	}
}

// parseRepomd reads a repomd.xml. Lists that are not used do not matter, nor does a timestamp that
// is none. It leaves out a list of files or modules that cannot be used, and notes that. Mistakes
// are distros.ErrIndex.
func parseRepomd(text []byte) (*repomd, error) {
	bad := func(err error) (*repomd, error) { return nil, distros.BadIndex("repomd.xml: %w", err) }
	revision, all, err := readRepomd(text)
	if err != nil {
		return bad(err)
	}
	r := &repomd{Revision: strings.TrimSpace(revision), Lists: map[string]listFile{}}
	missing := errors.New("it names no list primary")
	for _, d := range all {
		time, _ := whole(d.Timestamp)
		r.Newest = max(r.Newest, time)
		if d.Type == "primary_db" {
			missing = errors.New(
				"it lists its packages as a database only; createrepo_c makes lists that can be read",
			)
		}
		_, twice := r.Lists[d.Type]
		if twice || !slices.Contains(usedLists, d.Type) {
			continue
		}
		l, err := d.file()
		if err != nil && d.Type == "primary" {
			return bad(err)
		}
		if err != nil {
			r.notes = append(r.notes, "it is read without its "+err.Error())
			continue
		}
		r.Lists[d.Type] = l
	}
	_, found := r.Lists["primary"]
	if !found {
		return bad(missing)
	}
	return r, nil
}

// file checks the entry of a list.
func (d dataXML) file() (l listFile, err error) {
	size, err1 := whole(d.Size)
	open, err2 := whole(d.OpenSize)
	_, err3 := joinURL("https://x", d.Base, d.Href)
	l = listFile{Href: d.Href, Base: d.Base, Unpacked: open}
	l.Sum, err = fetch.NewFile(d.SumType, d.Sum, size)
	err = errors.Join(err, err1, err2, err3)
	if err != nil {
		return l, fmt.Errorf("list %s at %.80q: %w", d.Type, l.Href, err)
	}
	return l, nil
}

// whole returns a number without its fraction; that of no text is 0.
func whole(text string) (int64, error) {
	text, _, _ = strings.Cut(strings.TrimSpace(text), ".")
	return number([]byte(text))
}

// joinURL returns the URL of a file: below base if the metadata has one (xml:base, as RHEL's
// extended repositories and merged ones do), where a whole address says, otherwise below the
// repository. Its path may begin with "..", but must not leave the host's root or a local folder:
// Amazon's repositories of each release have their packages in a folder beside them
// ("../../../../blobstore/"). The content is safe in any case, because its digest is known.
func joinURL(repository, base, href string) (string, error) {
	if strings.Contains(href, "://") {
		at := strings.LastIndex(href, "/")
		base = href[:at]
		href = href[at:]
	}
	if base != "" {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
			u.User != nil ||
			strings.Contains(u.Path, "..") {
			return "", fmt.Errorf(
				"its base %.80q is not a URL of http or https; media are not read",
				base,
			)
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
	_, ok := distros.CleanPath(plain)
	clean, same := distros.CleanPath(href)
	if !ok || !same || plain != href && strings.ContainsAny(href, "?#") {
		return "", errors.New("it is not a path below the repository")
	}
	if plain == href || err != nil {
		// most metadata has names as they are, with + and ~ in them
		clean = (&url.URL{Path: clean}).EscapedPath()
	}
	return repository + "/" + clean, nil
}

// climb removes one element from the end of the folder for each ".." at the beginning of the path.
// It returns the remaining folder and path.
func climb(folder, href string) (above, rest string, err error) {
	for strings.HasPrefix(href, "../") {
		u, err := url.Parse(folder)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" ||
			strings.Trim(u.Path, "/") == "" {
			return "", "", errors.New(
				"it leads out of a local folder, or above the root of the server",
			)
		}
		folder = strings.TrimRight(u.JoinPath("..").String(), "/")
		href = href[3:]
	}
	return folder, href, nil
}
