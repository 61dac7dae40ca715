package repotest

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// Archive is an apt archive with one suite. Tests change its fields and publish again.
type Archive struct {
	Dir, Suite        string // "/debian", "bookworm"
	Archs, Components []string
	Packages          []Deb
	ValidUntil        time.Time       // zero: no such field
	Signer            *openpgp.Entity // of the Release file
	// the Release file lists other indexes than those that are served
	Lie bool

	t   testing.TB
	put func(path string, data []byte)
}

// NewArchive makes an archive without packages. It calls put with each file to be served.
func NewArchive(
	t testing.TB,
	dir, suite string,
	archs, components []string,
	put func(path string, data []byte),
) *Archive {
	return &Archive{t: t, put: put, Dir: dir, Suite: suite, Archs: archs, Components: components}
}

// Path returns the path under which a package is served.
func (a *Archive) Path(p Deb) string {
	return fmt.Sprintf(
		"%s/pool/%s_%s_%s.deb",
		a.Dir,
		p.Field("Package"),
		p.Field("Version"),
		p.Field("Architecture"),
	)
}

// Find returns the package of a name and architecture.
func (a *Archive) Find(name, arch string) *Deb {
	i := slices.IndexFunc(
		a.Packages,
		func(p Deb) bool { return p.Field("Package") == name && p.Field("Architecture") == arch },
	)
	if i < 0 {
		a.t.Fatalf("repotest: no package %s for %s", name, arch)
	}
	return &a.Packages[i]
}

// Publish writes packages, indexes and the signed Release file.
func (a *Archive) Publish() {
	lists := map[string]string{}
	for _, c := range a.Components {
		for _, arch := range a.Archs {
			lists[c+"/binary-"+arch] = ""
		}
	}
	for _, p := range a.Packages {
		deb := p.Bytes(a.t)
		a.put(a.Path(p), deb)
		lists[cmp.Or(p.Component, "main")+"/binary-"+p.Field("Architecture")] += fmt.Sprintf(
			"%s\nFilename: %s\nSize: %d\nSHA256: %x\n\n",
			p.Control,
			strings.TrimPrefix(a.Path(p), a.Dir+"/"),
			len(deb),
			sha256.Sum256(deb),
		)
	}
	head := fmt.Sprintf(
		"Origin: Test\nSuite: %s\nCodename: %s\nDate: %s\n",
		a.Suite,
		a.Suite,
		time.Now().Add(-24*time.Hour).UTC().Format(time.RFC1123),
	)
	if !a.ValidUntil.IsZero() {
		head += fmt.Sprintf("Valid-Until: %s\n", a.ValidUntil.UTC().Format(time.RFC1123))
	}
	head += fmt.Sprintf(
		"Architectures: %s\nComponents: %s\n",
		strings.Join(a.Archs, " "),
		strings.Join(a.Components, " "),
	)
	dir := a.Dir + "/dists/" + a.Suite
	text := Indexes{
		Head:    head,
		Lists:   lists,
		Endings: []string{".gz"},
		Lie:     a.Lie,
	}.Write(a.t, dir, a.put)
	a.put(dir+"/InRelease", Clearsigned(a.t, text, time.Now().Add(-time.Hour), a.Signer))
}

// Indexes are the indexes of a suite.
type Indexes struct {
	Head    string            // fields of the Release file before its digests
	Lists   map[string]string // "main/binary-amd64" -> text
	Endings []string          // compressions; "" is none
	Plus    int               // added to the size of plain indexes in the Release file
	ByHash  bool
	Hidden  bool // by-hash is announced but does not exist
	Lie     bool // other digests than the right ones
}

// Write writes the indexes below a folder and returns the text of the Release file.
func (x Indexes) Write(t testing.TB, dir string, put func(path string, data []byte)) string {
	t.Helper()
	var text strings.Builder
	text.WriteString(x.Head)
	if x.ByHash {
		text.WriteString("Acquire-By-Hash: yes\n")
	}
	text.WriteString(
		"MD5Sum:\n d41d8cd98f00b204e9800998ecf8427e 0 main/binary-amd64/Packages\nSHA256:\n",
	)
	for _, part := range slices.Sorted(maps.Keys(x.Lists)) {
		for _, ending := range x.Endings {
			data := Compress(t, ending, []byte(x.Lists[part]))
			sum := sha256.Sum256(data)
			name := path.Join(part, "Packages"+ending)
			size := len(data)
			if x.Lie {
				sum = sha256.Sum256([]byte("something else"))
			}
			if ending == "" {
				size += x.Plus
			}
			fmt.Fprintf(&text, " %x %d %s\n", sum, size, name)
			if x.ByHash && !x.Hidden {
				name = path.Join(part, fmt.Sprintf("by-hash/SHA256/%x", sum))
			}
			if ending != "" || len(x.Endings) == 1 { // like Debian, which lists only the plain ones
				put(path.Join(dir, name), data)
			}
		}
	}
	fmt.Fprintf(&text, " %s 7 main/Contents-amd64.gz\n", strings.Repeat("0", 64))
	return text.String()
}
