package repotest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// Repository is a repository of .rpm packages. Tests change its fields and publish again.
type Repository struct {
	Packages  []RPM
	ListsOnly bool // there are no packages, and their digests and sizes are invented
	// of packages without a signer of their own, and of the index if Signed
	Signer    *openpgp.Entity
	Signed    bool              // repomd.xml has a signature
	Signers   []*openpgp.Entity // sign repomd.xml, at SignedAt, instead of Signer an hour ago
	SignedAt  time.Time
	SHA512    bool   // the index has no other digests
	Revision  int64  // orders the states of a repository: seconds since 1970
	Timestamp int64  // of the lists; 0: Revision
	Ending    string // of the lists' names, which tells their compression: ".gz"
	Modules   string // modules.yaml; "": no such list

	Lie    bool     // repomd.xml describes other lists than those that are served
	Plus   int      // added to the unpacked sizes in repomd.xml
	Omit   []string // lists that there are not
	Mangle func(repomd string) string
	Edit   func(primary string) string

	t   testing.TB
	url string // of the server
	dir string // path under which it is served
	put func(path string, data []byte)
}

// Listing is the entry of a package in the list of packages.
type Listing struct {
	DigestType, Digest, Base, Href string
	Size                           int
}

// NewRepository makes a repository in a folder of a server. It calls put with each file to be
// served.
func NewRepository(t testing.TB, url, dir string, put func(path string, data []byte)) *Repository {
	return &Repository{t: t, url: url, dir: dir, put: put, Revision: FileTime, Ending: ".gz"}
}

// BaseURL returns the repository's URL.
func (r *Repository) BaseURL() string { return r.url + r.dir }

// Path returns the path under which a package is served.
func (r *Repository) Path(p RPM) string { return r.dir + "/" + p.listing().Href }

// Find returns the first package of a name.
func (r *Repository) Find(name string) *RPM {
	i := slices.IndexFunc(r.Packages, func(p RPM) bool { return p.Name == name })
	if i < 0 {
		r.t.Fatalf("repotest: no package %s", name)
	}
	return &r.Packages[i]
}

// Publish writes packages, lists and repomd.xml.
func (r *Repository) Publish() { r.PublishIn(r.dir) }

// PublishIn writes them to another folder of the server.
func (r *Repository) PublishIn(dir string) {
	packages := slices.Clone(r.Packages)
	for i, p := range packages {
		if r.ListsOnly {
			break
		}
		p.Signer = cmp.Or(p.Signer, r.Signer)
		data := p.Bytes(r.t)
		r.put(dir+"/"+p.listing().Href, data)
		l := &packages[i].Listing
		l.DigestType, l.Digest = r.digest(data)
		l.Size = len(data)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?><repomd xmlns="http://linux.duke.edu/metadata/repo"><revision>%d</revision>`, r.Revision)
	for _, l := range []struct{ kind, name, text string }{
		{"primary", "primary.xml", Primary(packages)},
		{"filelists", "filelists.xml", Filelists(packages)},
		{"other", "other.xml", "<otherdata/>"}, {"modules", "modules.yaml", r.Modules},
	} {
		if l.text == "" || slices.Contains(r.Omit, l.kind) {
			continue
		}
		if l.kind == "primary" && r.Edit != nil {
			l.text = r.Edit(l.text)
		}
		data := Compress(r.t, r.Ending, []byte(l.text))
		name := "repodata/" + l.name + r.Ending
		r.put(dir+"/"+name, data)
		kind, sum := r.digest(data)
		_, open := r.digest([]byte(l.text))
		if r.Lie {
			_, sum = r.digest([]byte("something else"))
		}
		fmt.Fprintf(&b, `<data type="%s"><checksum type="%s">%s</checksum><open-checksum type="%[2]s">%[4]s</open-checksum><location href="%s"/>`+
			`<timestamp>%d</timestamp><size>%d</size><open-size>%d</open-size></data>`, l.kind, kind, sum, open, name, cmp.Or(r.Timestamp, r.Revision), len(data), len(l.text)+r.Plus)
	}
	text := b.String() + "</repomd>\n"
	if r.Mangle != nil {
		text = r.Mangle(text)
	}
	r.put(dir+"/repodata/repomd.xml", []byte(text))
	signers := r.Signers
	when := r.SignedAt
	if r.Signed {
		signers = []*openpgp.Entity{r.Signer}
		when = time.Now().Add(-time.Hour)
	}
	if len(signers) > 0 {
		r.put(dir+"/repodata/repomd.xml.asc", Detached(r.t, text, when, signers...))
	}
}

func (r *Repository) digest(data []byte) (kind, sum string) {
	if r.SHA512 {
		return "sha512", fmt.Sprintf("%x", sha512.Sum512(data))
	}
	return "sha256", fmt.Sprintf("%x", sha256.Sum256(data))
}

// listing returns the entry of a package; its digest and size are invented unless they are given.
func (p RPM) listing() Listing {
	l := p.Listing
	v := p.evr()
	l.DigestType = cmp.Or(l.DigestType, "sha256")
	l.Size = cmp.Or(l.Size, 1234)
	l.Digest = cmp.Or(l.Digest, fmt.Sprintf("%x", sha256.Sum256([]byte(p.Name+p.EVR+p.Arch))))
	l.Href = cmp.Or(
		l.Href,
		fmt.Sprintf("Packages/%s-%s-%s.%s.rpm", p.Name, v.version, v.release, p.arch()),
	)
	return l
}

// Primary returns the list of packages. Digests and sizes are invented unless a Listing has them.
func Primary(packages []RPM) string {
	var b strings.Builder
	b.WriteString(
		`<?xml version="1.0" encoding="UTF-8"?><metadata xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm">` + "\n",
	)
	for _, p := range packages {
		l := p.listing()
		fmt.Fprintf(
			&b,
			`<package type="rpm"><name>%s</name><arch>%s</arch>%s<checksum type="%s" pkgid="YES">%s</checksum>`+
				`<summary>x</summary><description/><time file="1" build="%d"/><size package="%d" installed="5678" archive="1"/><location `,
			p.Name,
			p.arch(),
			p.evr().xml(),
			l.DigestType,
			l.Digest,
			FileTime,
			l.Size,
		)
		if l.Base != "" {
			fmt.Fprintf(&b, `xml:base="%s" `, l.Base)
		}
		fmt.Fprintf(&b, `href="%s"/><format><rpm:license>x</rpm:license>`, l.Href)
		for _, list := range []struct {
			name string
			all  []string
		}{{"provides", p.provided()}, {"requires", p.Requires}, {"conflicts", p.Conflicts}, {"obsoletes", p.Obsoletes}} {
			if len(list.all) > 0 {
				fmt.Fprintf(&b, "<rpm:%s>%s</rpm:%[1]s>", list.name, relationsXML(list.all))
			}
		}
		for _, f := range p.Files { // files of other folders are in the lists of files
			if name := pathOf(f); strings.HasPrefix(name, "/etc/") ||
				strings.Contains(name, "bin/") {
				fmt.Fprintf(&b, "<file>%s</file>", escaped(name))
			}
		}
		b.WriteString("</format></package>\n")
	}
	return b.String() + "</metadata>\n"
}

func (v evr) xml() string {
	return fmt.Sprintf(
		`<version epoch="%s" ver="%s" rel="%s"/>`,
		cmp.Or(v.epoch, "0"),
		v.version,
		v.release,
	)
}

func relationsXML(list []string) string {
	var b strings.Builder
	for _, r := range relationsOf(list) {
		fmt.Fprintf(&b, `<rpm:entry name="%s"`, escaped(r.name))
		if v := parseEVR(r.version); r.op != "" {
			flags := map[string]string{"<": "LT", "<=": "LE", "=": "EQ", ">=": "GE", ">": "GT"}[r.op]
			fmt.Fprintf(
				&b,
				` flags="%s" epoch="%s" ver="%s"`,
				flags,
				cmp.Or(v.epoch, "0"),
				v.version,
			)
			if v.release != "" {
				fmt.Fprintf(&b, ` rel="%s"`, v.release)
			}
		}
		b.WriteString("/>")
	}
	return b.String()
}

// Filelists returns the list of all files.
func Filelists(packages []RPM) string {
	var b strings.Builder
	b.WriteString(
		`<?xml version="1.0"?><filelists xmlns="http://linux.duke.edu/metadata/filelists">`,
	)
	for _, p := range packages {
		l := p.listing()
		fmt.Fprintf(
			&b,
			`<package pkgid="%s" name="%s" arch="%s">%s`,
			l.Digest,
			p.Name,
			p.arch(),
			p.evr().xml(),
		)
		for _, f := range p.Files {
			fmt.Fprintf(&b, "<file>%s</file>", escaped(pathOf(f)))
		}
		for _, f := range p.AllFiles {
			fmt.Fprintf(&b, "<file>%s</file>", escaped(f))
		}
		b.WriteString("</package>")
	}
	return b.String() + "</filelists>"
}

func escaped(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // to memory
	return b.String()
}
