package imagetest

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// RPMRepository is a repository of .rpm packages. Tests change its fields and publish again.
type RPMRepository struct {
	Packages []RPM
	Signer   *openpgp.Entity // of packages without a signer of their own, and of the index if Signed
	Signed   bool            // repomd.xml has a signature
	SHA512   bool            // the index has no other digests
	Revision int64           // orders the states of a repository: seconds since 1970
	Lie      bool            // repomd.xml describes another list than the one that is served

	t   testing.TB
	url string // of the server
	dir string // path under which it is served
	put func(path string, data []byte)
}

// NewRPMRepository makes a repository in a folder of a server. It calls put with each file to be served.
func NewRPMRepository(t testing.TB, url, dir string, put func(path string, data []byte)) *RPMRepository {
	return &RPMRepository{t: t, url: url, dir: dir, put: put, Revision: RPMTime}
}

// BaseURL returns the repository's URL.
func (r *RPMRepository) BaseURL() string { return r.url + r.dir }

// Path returns the path under which a package is served.
func (r *RPMRepository) Path(p RPM) string {
	evr := p.evr(r.t)
	return fmt.Sprintf("%s/Packages/%s-%s-%s.%s.rpm", r.dir, p.Name, evr.Version, evr.Release, p.arch())
}

// Find returns the first package of a name.
func (r *RPMRepository) Find(name string) *RPM {
	i := slices.IndexFunc(r.Packages, func(p RPM) bool { return p.Name == name })
	if i < 0 {
		r.t.Fatalf("imagetest: no package %s", name)
	}
	return &r.Packages[i]
}

// Publish writes packages, the list of packages and repomd.xml.
func (r *RPMRepository) Publish() {
	var list strings.Builder
	list.WriteString(`<?xml version="1.0" encoding="UTF-8"?><metadata xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm">` + "\n")
	for _, p := range r.Packages {
		if p.Signer == nil {
			p.Signer = r.Signer
		}
		data := p.Bytes(r.t)
		r.put(r.Path(p), data)
		r.describe(&list, p, data)
	}
	list.WriteString("</metadata>\n")
	data := Gzip(r.t, []byte(list.String()))
	r.put(r.dir+"/repodata/primary.xml.gz", data)
	kind, sum := r.digest(data)
	if r.Lie {
		kind, sum = r.digest([]byte("something else"))
	}
	text := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><repomd xmlns="http://linux.duke.edu/metadata/repo"><revision>%d</revision>`+
		`<data type="primary"><checksum type="%s">%s</checksum><location href="repodata/primary.xml.gz"/><timestamp>%[1]d</timestamp><size>%[4]d</size></data></repomd>`+"\n",
		r.Revision, kind, sum, len(data))
	r.put(r.dir+"/repodata/repomd.xml", []byte(text))
	if r.Signed {
		r.put(r.dir+"/repodata/repomd.xml.asc", detached(r.t, r.Signer, text))
	}
}

func (r *RPMRepository) digest(data []byte) (kind, sum string) {
	if r.SHA512 {
		return "sha512", fmt.Sprintf("%x", sha512.Sum512(data))
	}
	return "sha256", fmt.Sprintf("%x", sha256.Sum256(data))
}

// describe writes the entry of a package in the list of packages.
func (r *RPMRepository) describe(b *strings.Builder, p RPM, data []byte) {
	evr, t := p.evr(r.t), r.t
	epoch := "0"
	if evr.Epoch != "" {
		epoch = evr.Epoch
	}
	kind, sum := r.digest(data)
	fmt.Fprintf(b, `<package type="rpm"><name>%s</name><arch>%s</arch><version epoch="%s" ver="%s" rel="%s"/><checksum type="%s" pkgid="YES">%s</checksum>`+
		`<time file="1" build="%d"/><size package="%d" installed="1" archive="1"/><location href="%s"/><format>`,
		p.Name, p.arch(), epoch, evr.Version, evr.Release, kind, sum, RPMTime, len(data), strings.TrimPrefix(r.Path(p), r.dir+"/"))
	self := rpmfile.Relation{Name: p.Name, Op: "=", EVR: evr}
	for _, l := range []struct {
		name string
		list []string
	}{{"provides", append(slices.Clone(p.Provides), self.String())}, {"requires", p.Requires}, {"conflicts", p.Conflicts}, {"obsoletes", p.Obsoletes}} {
		fmt.Fprintf(b, "<rpm:%s>", l.name)
		for _, rel := range relations(t, l.list) {
			fmt.Fprintf(b, `<rpm:entry name="%s"`, escaped(rel.Name))
			if rel.Op != "" {
				flags := map[string]string{"<": "LT", "<=": "LE", "=": "EQ", ">=": "GE", ">": "GT"}[rel.Op]
				fmt.Fprintf(b, ` flags="%s" epoch="%s" ver="%s" rel="%s"`, flags, rel.EVR.Epoch, rel.EVR.Version, rel.EVR.Release)
			}
			b.WriteString("/>")
		}
		fmt.Fprintf(b, "</rpm:%s>", l.name)
	}
	for _, f := range p.Files { // files of other folders are in the lists of files
		if name := f.rpmPath(); strings.HasPrefix(name, "/etc/") || strings.Contains(name, "bin/") {
			fmt.Fprintf(b, "<file>%s</file>", escaped(name))
		}
	}
	b.WriteString("</format></package>\n")
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // to memory
	return b.String()
}

// detached returns an armoured signature.
func detached(t testing.TB, signer *openpgp.Entity, text string) []byte {
	var b bytes.Buffer
	c := &packet.Config{DefaultHash: crypto.SHA512, Time: func() time.Time { return time.Now().Add(-time.Hour) }}
	if err := openpgp.ArmoredDetachSign(&b, signer, strings.NewReader(text), c); err != nil {
		t.Fatalf("imagetest: sign: %v", err)
	}
	return b.Bytes()
}

// Armoured returns a public key as text.
func Armoured(t testing.TB, key *openpgp.Entity) string {
	t.Helper()
	var b bytes.Buffer
	w, err := armor.Encode(&b, openpgp.PublicKeyType, nil)
	if err == nil {
		err = key.Serialize(w)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		_, err = io.WriteString(&b, "\n")
	}
	if err != nil {
		t.Fatalf("imagetest: %v", err)
	}
	return b.String()
}
