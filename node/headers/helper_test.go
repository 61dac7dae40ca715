package headers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/driver-container/driver-container/node/logging/logtest"
)

const testRelease = "6.1.0-38-amd64"

// entry is a member of a package; a file unless the type says otherwise.
type entry struct {
	name, body, link string
	kind             byte
	mode             int64
}

// deb is a package: its control paragraph and its files.
type deb struct {
	control string
	entries []entry
	damage  func([]byte) []byte
}

func (d deb) field(name string) string {
	for line := range strings.Lines(d.control) {
		if v, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (d deb) bytes(t testing.TB) []byte {
	t.Helper()
	b := bytes.NewBufferString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{
		{"debian-binary", []byte("2.0\n")}, {"control.tar", tarOf(t, entry{name: "./control", body: d.control + "\n"})}, {"data.tar", tarOf(t, d.entries...)},
	} {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, 0, 0, 0, "100644", len(m.data))
		b.Write(m.data)
		if len(m.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	if d.damage != nil {
		return d.damage(b.Bytes())
	}
	return b.Bytes()
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.body)), ModTime: time.Unix(1700000000, 0), Format: tar.FormatGNU}
		switch {
		case e.kind != 0:
		case e.link != "":
			h.Typeflag = tar.TypeSymlink
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag = tar.TypeDir
		default:
			h.Typeflag = tar.TypeReg
		}
		if e.mode == 0 {
			h.Mode = 0o644
		}
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, e.body)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var signer = sync.OnceValue(func() *openpgp.Entity {
	e, err := openpgp.NewEntity("test", "", "test@example.com", &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, Time: func() time.Time { return time.Now().Add(-48 * time.Hour) },
	})
	if err != nil {
		panic(err)
	}
	return e
})

// archive is a signed repository at /debian, suite bookworm, component main.
type archive struct {
	t        testing.TB
	debs     []deb
	head     string // more Release fields
	unsigned bool
	files    map[string][]byte
	gate     func(http.ResponseWriter, *http.Request) bool // returns false when it has answered the request
	server   *httptest.Server
	mu       sync.Mutex
	asked    map[string]int
}

func newArchive(t testing.TB, debs ...deb) *archive {
	t.Helper()
	a := &archive{t: t, debs: debs, files: map[string][]byte{}, asked: map[string]int{}}
	a.server = httptest.NewUnstartedServer(a)
	t.Cleanup(a.server.Close)
	return a
}

func (a *archive) start() *archive {
	a.publish()
	a.server.Start()
	return a
}

func (a *archive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked[r.URL.Path]++
	data, ok := a.files[r.URL.Path]
	a.mu.Unlock()
	if a.gate != nil && !a.gate(w, r) {
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

func (a *archive) publish() {
	var index strings.Builder
	for _, d := range a.debs {
		data := d.bytes(a.t)
		name := fmt.Sprintf("pool/%s_%s.deb", d.field("Package"), d.field("Version"))
		a.files["/debian/"+name] = data
		fmt.Fprintf(&index, "%s\nFilename: %s\nSize: %d\nSHA256: %x\n\n", d.control, name, len(data), sha256.Sum256(data))
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, index.String())
	must(a.t, err)
	must(a.t, w.Close())
	const dir = "/debian/dists/bookworm/"
	a.files[dir+"main/binary-amd64/Packages.gz"] = packed.Bytes()
	text := fmt.Sprintf("Origin: Test\nSuite: stable\nCodename: bookworm\nDate: %s\nArchitectures: amd64\nComponents: main\n%sSHA256:\n %x %d main/binary-amd64/Packages.gz\n",
		time.Now().Add(-24*time.Hour).UTC().Format(time.RFC1123), a.head, sha256.Sum256(packed.Bytes()), packed.Len())
	key := signer().PrivateKey
	if a.unsigned {
		e, err := openpgp.NewEntity("stranger", "", "s@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
		must(a.t, err)
		key = e.PrivateKey
	}
	var b bytes.Buffer
	s, err := clearsign.Encode(&b, key, &packet.Config{DefaultHash: crypto.SHA512, Time: func() time.Time { return time.Now().Add(-time.Minute) }})
	must(a.t, err)
	_, err = io.WriteString(s, text)
	must(a.t, err)
	must(a.t, s.Close())
	a.files[dir+"InRelease"] = append(b.Bytes(), '\n')
}

func (a *archive) count(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[path]
}

// image is a root with the repositories' key, as a merged-usr Debian.
type image struct {
	t    testing.TB
	dir  string
	said logtest.Log
	env  map[string]string
}

func newImage(t testing.TB, urls ...string) *image {
	t.Helper()
	i := &image{t: t, dir: t.TempDir(), env: map[string]string{}}
	for _, d := range []string{"usr/lib", "usr/src", "etc/apt/trusted.gpg.d", "var/lib/dpkg", "tmp"} {
		must(t, os.MkdirAll(filepath.Join(i.dir, d), 0o755))
	}
	must(t, os.Symlink("usr/lib", filepath.Join(i.dir, "lib")))
	i.write("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n")
	i.write("var/lib/dpkg/status", status("libc6 2.36-9+deb12u10", "gcc-12 12.2.0-14", "libelf1 0.188-2.1"))
	var key bytes.Buffer
	must(t, signer().Serialize(&key))
	i.write("etc/apt/trusted.gpg.d/test.gpg", key.String())
	var list strings.Builder
	for _, u := range urls {
		fmt.Fprintf(&list, "deb %s/debian bookworm main\n", u)
	}
	i.write("etc/apt/sources.list", list.String())
	return i
}

func status(packages ...string) string {
	var b strings.Builder
	for _, p := range packages {
		name, version, _ := strings.Cut(p, " ")
		fmt.Fprintf(&b, "Package: %s\nStatus: install ok installed\nVersion: %s\nArchitecture: amd64\n\n", name, version)
	}
	return b.String()
}

func (i *image) write(name, text string) {
	i.t.Helper()
	file := filepath.Join(i.dir, name)
	must(i.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(i.t, os.WriteFile(file, []byte(text), 0o644))
}

func (i *image) read(name string) string {
	data, err := os.ReadFile(filepath.Join(i.dir, name))
	if err != nil {
		return "missing"
	}
	return string(data)
}

func (i *image) options() Options {
	return Options{
		Root: i.dir, Release: testRelease, Arch: "amd64", Store: filepath.Join(i.dir, "tmp/store"),
		Getenv: func(name string) string { return i.env[name] },
		Log:    i.said.Logger(),
	}
}

func (i *image) fetch() ([]string, error) { return Fetch(i.t.Context(), i.options()) }

func (i *image) log() string { return i.said.String() }

// debian returns Debian's packages for a kernel: its headers, those of all flavours, the tools. The compiler
// and the kernel image that they depend on are not there, so nothing can fetch them.
func debian(release, version string) []deb {
	base := strings.TrimSuffix(release, "-amd64")
	src := "./usr/src/linux-headers-" + release + "/"
	common := "./usr/src/linux-headers-" + base + "-common/"
	control := func(name, depends string) string {
		return fmt.Sprintf("Package: %s\nSource: linux\nVersion: %s\nArchitecture: amd64\nInstalled-Size: 100\nDepends: %s\nDescription: x", name, version, depends)
	}
	return []deb{
		{control: control("linux-headers-"+release, fmt.Sprintf("linux-headers-%s-common (= %s), linux-kbuild-6.1 (>= %s), linux-compiler-gcc-12-x86, "+
			"linux-image-%s (= %s) | linux-image-%[3]s-unsigned, gcc-12", base, version, version, release, version)), entries: []entry{
			{name: "./"}, {name: "./usr/"}, {name: "./usr/src/"}, {name: src},
			{name: src + "include/config/kernel.release", body: "6.1.147\n"},
			{name: src + "include/generated/utsrelease.h", body: "#define UTS_RELEASE \"" + release + "\"\n"},
			{name: src + "Makefile", body: "include ../\n"}, {name: src + ".config", body: "CONFIG_X86=y\n"},
			{name: src + "scripts", link: "../../lib/linux-kbuild-6.1/scripts"},
			{name: "./lib/modules/" + release + "/build", link: "/usr/src/linux-headers-" + release},
			{name: "./lib/modules/" + release + "/source", link: "/usr/src/linux-headers-" + base + "-common"},
			{name: "./usr/share/doc/linux-headers/copyright", body: "GPL"},
		}},
		{control: control("linux-headers-"+base+"-common", ""), entries: []entry{
			{name: common + "include/linux/kernel.h", body: "#pragma once\n"}, {name: common + "scripts", link: "../../lib/linux-kbuild-6.1/scripts"},
		}},
		{control: control("linux-kbuild-6.1", "libc6 (>= 2.34), libelf1 (>= 0.142), libssl3 (>= 3.0.0)"), entries: []entry{
			{name: "./usr/lib/linux-kbuild-6.1/scripts/basic/fixdep", body: "fixdep of " + version, mode: 0o755},
			{name: "./usr/src/linux-kbuild-6.1", link: "../lib/linux-kbuild-6.1"},
		}},
	}
}
