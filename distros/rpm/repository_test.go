package rpm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/repotest"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

var (
	testNow = repotest.Now
	at      = repotest.At
)

// testKeys returns keys that are generated once.
var testKeys = sync.OnceValue(func() (k struct{ good, stranger, expired *openpgp.Entity }) {
	k.good, k.stranger, k.expired = repotest.Key("good", 0), repotest.Key("stranger", 0), repotest.Key("expired", 365*24*time.Hour)
	return k
})

func armoured(t testing.TB, e *openpgp.Entity) string {
	t.Helper()
	return repotest.Armour(t, openpgp.PublicKeyType, e.Serialize)
}

func fingerprintOf(e *openpgp.Entity) string { return fmt.Sprintf("%X", e.PrimaryKey.Fingerprint) }

// testPackage is a package of a repository that a test writes. Relations are "name" or "name EQ epoch ver
// rel".
type testPackage struct {
	name, evr, arch                          string // evr: "version release [epoch]"
	requires, provides, conflicts, obsoletes []string
	files, allFiles                          []string
	digest, digestType, base, href           string
}

func (p testPackage) filled() testPackage {
	p.evr, p.arch = cmp.Or(p.evr, "1 1"), cmp.Or(p.arch, "x86_64")
	parts := strings.Fields(p.evr)
	p.digestType = cmp.Or(p.digestType, "sha256")
	p.digest = cmp.Or(p.digest, fmt.Sprintf("%x", sha256.Sum256([]byte(p.name+p.evr+p.arch))))
	p.href = cmp.Or(p.href, fmt.Sprintf("Packages/%s-%s-%s.%s.rpm", p.name, parts[0], parts[1], p.arch))
	return p
}

func (p testPackage) version() string {
	parts := append(strings.Fields(p.evr), "0")
	return fmt.Sprintf(`<version epoch="%s" ver="%s" rel="%s"/>`, parts[2], parts[0], parts[1])
}

func primaryOf(packages []testPackage) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><metadata xmlns="http://linux.duke.edu/metadata/common" xmlns:rpm="http://linux.duke.edu/metadata/rpm">`)
	for _, p := range packages {
		p = p.filled()
		fmt.Fprintf(&b, `<package type="rpm"><name>%s</name><arch>%s</arch>%s<checksum type="%s" pkgid="YES">%s</checksum>`+
			`<summary>x</summary><description/><time file="1" build="1700000000"/><size package="1234" installed="5678" archive="1"/><location `,
			p.name, p.arch, p.version(), p.digestType, p.digest)
		if p.base != "" {
			fmt.Fprintf(&b, `xml:base="%s" `, p.base)
		}
		fmt.Fprintf(&b, `href="%s"/><format><rpm:license>x</rpm:license>`, p.href)
		parts := append(strings.Fields(p.evr), "0")
		provided := append(slices.Clone(p.provides), fmt.Sprintf("%s EQ %s %s %s", p.name, parts[2], parts[0], parts[1]))
		for _, l := range []struct {
			name string
			list []string
		}{{"provides", provided}, {"requires", p.requires}, {"conflicts", p.conflicts}, {"obsoletes", p.obsoletes}} {
			if len(l.list) == 0 {
				continue
			}
			fmt.Fprintf(&b, "<rpm:%s>", l.name)
			for _, r := range l.list {
				words := strings.Fields(r)
				if len(words) < 4 || strings.HasPrefix(r, "(") {
					fmt.Fprintf(&b, `<rpm:entry name="%s"/>`, strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(r))
					continue
				}
				fmt.Fprintf(&b, `<rpm:entry name="%s" flags="%s" epoch="%s" ver="%s"`, words[0], words[1], words[2], words[3])
				if len(words) > 4 {
					fmt.Fprintf(&b, ` rel="%s"`, words[4])
				}
				b.WriteString("/>")
			}
			fmt.Fprintf(&b, "</rpm:%s>", l.name)
		}
		for _, f := range p.files {
			fmt.Fprintf(&b, "<file>%s</file>", f)
		}
		b.WriteString("</format></package>\n")
	}
	return b.String() + "</metadata>\n"
}

func filelistsOf(packages []testPackage) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><filelists xmlns="http://linux.duke.edu/metadata/filelists">`)
	for _, p := range packages {
		p = p.filled()
		fmt.Fprintf(&b, `<package pkgid="%s" name="%s" arch="%s">%s`, p.digest, p.name, p.arch, p.version())
		for _, f := range append(slices.Clone(p.files), p.allFiles...) {
			fmt.Fprintf(&b, "<file>%s</file>", strings.ReplaceAll(f, "&", "&amp;"))
		}
		b.WriteString("</package>")
	}
	return b.String() + "</filelists>"
}

// repository is served over HTTP. Tests may change its fields before publish, and its files after it.
type repository struct {
	*repotest.Server
	packages  []testPackage
	modules   string
	ending    string // compression of the lists
	SHA512    bool
	revision  string
	timestamp int64
	plus      int // added to the open-size in repomd.xml
	omit      []string
	mangle    func(repomd string) string
	url       string
}

func newRepository(t *testing.T, packages ...testPackage) *repository {
	t.Helper()
	s := repotest.Serve(t)
	return &repository{Server: s, url: s.URL + "/os", packages: packages, ending: ".gz", revision: "1750000000", timestamp: 1750000000}
}

// publish writes the lists and repomd.xml to /os, signed with the keys.
func (r *repository) publish(t *testing.T, es ...*openpgp.Entity) {
	t.Helper()
	r.publishAt(t, "/os", testNow.AddDate(0, 0, -10), es...)
}

func (r *repository) publishAt(t *testing.T, dir string, when time.Time, es ...*openpgp.Entity) {
	t.Helper()
	r.Lock()
	defer r.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?><repomd xmlns="http://linux.duke.edu/metadata/repo"><revision>%s</revision>`, r.revision)
	lists := []struct{ kind, name, text string }{
		{"primary", "primary.xml", primaryOf(r.packages)}, {"filelists", "filelists.xml", filelistsOf(r.packages)}, {"other", "other.xml", "<otherdata/>"},
	}
	if r.modules != "" {
		lists = append(lists, struct{ kind, name, text string }{"modules", "modules.yaml", r.modules})
	}
	for _, l := range lists {
		if slices.Contains(r.omit, l.kind) {
			continue
		}
		data := repotest.Compress(t, r.ending, []byte(l.text))
		name := "repodata/" + l.name + r.ending
		r.Files[dir+"/"+name] = data
		kind, sum, open := "sha256", fmt.Sprintf("%x", sha256.Sum256(data)), fmt.Sprintf("%x", sha256.Sum256([]byte(l.text)))
		if r.SHA512 {
			kind, sum, open = "sha512", fmt.Sprintf("%x", sha512.Sum512(data)), fmt.Sprintf("%x", sha512.Sum512([]byte(l.text)))
		}
		fmt.Fprintf(&b, `<data type="%s"><checksum type="%s">%s</checksum><open-checksum type="%[2]s">%[4]s</open-checksum><location href="%s"/>`+
			`<timestamp>%d</timestamp><size>%d</size><open-size>%d</open-size></data>`, l.kind, kind, sum, open, name, r.timestamp, len(data), len(l.text)+r.plus)
	}
	text := b.String() + "</repomd>\n"
	if r.mangle != nil {
		text = r.mangle(text)
	}
	r.Files[dir+"/repodata/repomd.xml"] = []byte(text)
	if len(es) > 0 {
		r.Files[dir+"/repodata/repomd.xml.asc"] = detachedBy(t, text, when, es...)
	}
}

func detachedBy(t *testing.T, text string, when time.Time, es ...*openpgp.Entity) []byte {
	t.Helper()
	var raw bytes.Buffer
	for _, e := range es {
		must(t, openpgp.DetachSign(&raw, e, strings.NewReader(text), at(when)))
	}
	return []byte(strings.TrimSuffix(repotest.Armour(t, openpgp.SignatureType, func(w io.Writer) error { _, err := w.Write(raw.Bytes()); return err }), "\n"))
}

// options returns options that check the signature of repomd.xml with the good key.
func (r *repository) options(t *testing.T) Options {
	t.Helper()
	store, err := fetch.OpenStore(t.TempDir())
	must(t, err)
	return Options{
		Fetch: &fetch.Client{Store: store, Attempts: 2, Backoff: time.Millisecond}, Arch: "x86_64", Now: testNow,
		Sources: []repoconf.Source{{Origin: "test", ID: "os", BaseURLs: []string{r.url}, RepoGPGCheck: true, Key: armoured(t, testKeys().good)}},
	}
}

func textFS(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

// openIndex opens the repositories and loads their lists.
func openIndex(ctx context.Context, o Options) (*Index, error) {
	r, err := OpenReleases(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.Load(ctx)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
