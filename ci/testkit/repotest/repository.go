package repotest

import (
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/template"
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

// list is a list of a repository, and what repomd.xml says of it.
type list struct {
	Kind, Digest, Open, Name string
	Size, Unpacked           int
}

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
	primary := Primary(packages)
	if r.Edit != nil {
		primary = r.Edit(primary)
	}
	var lists []list
	for _, l := range []struct{ kind, name, text string }{
		{"primary", "primary.xml", primary},
		{"filelists", "filelists.xml", Filelists(packages)},
		{"other", "other.xml", "<otherdata/>"}, {"modules", "modules.yaml", r.Modules},
	} {
		if l.text == "" || slices.Contains(r.Omit, l.kind) {
			continue
		}
		data := Compress(r.t, r.Ending, []byte(l.text))
		name := "repodata/" + l.name + r.Ending
		r.put(dir+"/"+name, data)
		_, sum := r.digest(data)
		_, open := r.digest([]byte(l.text))
		lists = append(lists, list{l.kind, sum, open, name, len(data), len(l.text) + r.Plus})
	}
	algorithm, _ := r.digest(nil)
	text := document("repomd", map[string]any{
		"Revision": r.Revision, "Timestamp": cmp.Or(r.Timestamp, r.Revision),
		"Algorithm": algorithm, "Lists": lists,
	})
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
	name := fmt.Sprintf("Packages/%s-%s-%s.%s.rpm", p.Name, v.Version, v.Release, p.arch())
	l.DigestType = cmp.Or(l.DigestType, "sha256")
	l.Size = cmp.Or(l.Size, 1234)
	l.Digest = cmp.Or(l.Digest, fmt.Sprintf("%x", sha256.Sum256([]byte(p.Name+p.EVR+p.Arch))))
	l.Href = cmp.Or(l.Href, name)
	return l
}

// listed is a package as the lists have it.
type listed struct {
	Listing
	Name, Arch string
	EVR        evr
	Relations  map[string][]relation
	Files      []string
	Primary    []string // those that the list of packages has
}

func listedOf(packages []RPM) (all []listed) {
	for _, p := range packages {
		l := listed{Listing: p.listing(), Name: p.Name, Arch: p.arch(), EVR: p.evr(), Files: p.AllFiles}
		l.Relations = map[string][]relation{
			"provides": relationsOf(p.provided()), "requires": relationsOf(p.Requires),
			"conflicts": relationsOf(p.Conflicts), "obsoletes": relationsOf(p.Obsoletes),
		}
		for _, f := range p.Files {
			name := pathOf(f)
			l.Files = append(l.Files, name)
			if strings.HasPrefix(name, "/etc/") || strings.Contains(name, "bin/") {
				l.Primary = append(l.Primary, name)
			}
		}
		all = append(all, l)
	}
	return all
}

// Primary returns the list of packages. Digests and sizes are invented unless a Listing has them.
func Primary(packages []RPM) string { return document("primary", listedOf(packages)) }

// Filelists returns the list of all files.
func Filelists(packages []RPM) string { return document("filelists", listedOf(packages)) }

// document writes one of the documents, on one line.
func document(name string, content any) string {
	var b strings.Builder
	err := documents.ExecuteTemplate(&b, name, content)
	if err != nil {
		panic(err) //nolint:forbidigo // the templates are constants
	}
	return strings.ReplaceAll(b.String(), "\n", "")
}

// documents are those of a repository; html escapes for XML, too.
var documents = template.Must(template.New("").Parse(`
{{define "version"}}epoch="{{or .Epoch "0"}}" ver="{{.Version}}"{{with .Release}} rel="{{.}}"{{end}}{{end}}

{{define "repomd"}}<?xml version="1.0" encoding="UTF-8"?>
<repomd xmlns="http://linux.duke.edu/metadata/repo"><revision>{{.Revision}}</revision>
{{range .Lists}}
<data type="{{.Kind}}">
<checksum type="{{$.Algorithm}}">{{.Digest}}</checksum>
<open-checksum type="{{$.Algorithm}}">{{.Open}}</open-checksum>
<location href="{{.Name}}"/><timestamp>{{$.Timestamp}}</timestamp>
<size>{{.Size}}</size><open-size>{{.Unpacked}}</open-size>
</data>
{{end}}
</repomd>{{end}}

{{define "primary"}}<?xml version="1.0" encoding="UTF-8"?>
<metadata xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm">
{{range .}}
<package type="rpm">
<name>{{.Name}}</name><arch>{{.Arch}}</arch><version {{template "version" .EVR}}/>
<checksum type="{{.DigestType}}" pkgid="YES">{{.Digest}}</checksum>
<summary>x</summary><description/><time file="1" build="1700000000"/>
<size package="{{.Size}}" installed="5678" archive="1"/>
<location {{with .Base}}xml:base="{{.}}" {{end}}href="{{.Href}}"/>
<format><rpm:license>x</rpm:license>
{{range $kind, $list := .Relations}}{{if $list}}
<rpm:{{$kind}}>
{{range $list}}
<rpm:entry name="{{html .Name}}"{{if .Op}} flags="{{.Flags}}" {{template "version" .EVR}}{{end}}/>
{{end}}
</rpm:{{$kind}}>
{{end}}{{end}}
{{range .Primary}}<file>{{html .}}</file>{{end}}
</format></package>
{{end}}
</metadata>{{end}}

{{define "filelists"}}<?xml version="1.0"?>
<filelists xmlns="http://linux.duke.edu/metadata/filelists">
{{range .}}
<package pkgid="{{.Digest}}" name="{{.Name}}" arch="{{.Arch}}"><version {{template "version" .EVR}}/>
{{range .Files}}<file>{{html .}}</file>{{end}}
</package>
{{end}}
</filelists>{{end}}`))
