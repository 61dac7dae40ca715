package headers

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

const testRelease = "6.1.0-38-amd64"

var signer = sync.OnceValue(func() *openpgp.Entity { return repotest.Key("test", 0) })

// archive is a signed repository at /debian, suite bookworm, component main.
type archive struct {
	*repotest.Archive
	t      testing.TB
	files  map[string][]byte
	gate   func(http.ResponseWriter, *http.Request) bool // returns false when it has answered the request
	server *httptest.Server
	mu     sync.Mutex
	asked  map[string]int
}

func newArchive(t testing.TB, debs ...repotest.Deb) *archive {
	t.Helper()
	a := &archive{t: t, files: map[string][]byte{}, asked: map[string]int{}}
	a.Archive = repotest.NewArchive(t, "/debian", "bookworm", []string{"amd64"}, []string{"main"}, func(path string, data []byte) { a.files[path] = data })
	a.Packages, a.Signer = debs, signer()
	a.server = httptest.NewUnstartedServer(a)
	t.Cleanup(a.server.Close)
	return a
}

func (a *archive) start() *archive {
	a.Publish()
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

// spoilt are what a server may have in place of a file; nil: nothing.
var spoilt = map[string]func(data []byte) []byte{
	"missing": func([]byte) []byte { return nil },
	"cut":     func(data []byte) []byte { return data[:len(data)/2] },
	"longer":  func(data []byte) []byte { return append(bytes.Clone(data), 0) },
	"another": func(data []byte) []byte { return bytes.Repeat([]byte("x"), len(data)) },
}

// spoil changes the files that have a part in their path.
func (a *archive) spoil(part string, change func(data []byte) []byte) {
	for path, data := range a.files {
		if !strings.Contains(path, part) {
			continue
		}
		delete(a.files, path)
		if changed := change(data); changed != nil {
			a.files[path] = changed
		}
	}
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
	into string // the folder with the headers
	said logtest.Log
	env  map[string]string
}

func newImage(t testing.TB, urls ...string) *image {
	t.Helper()
	i := &image{t: t, dir: t.TempDir(), into: filepath.Join(t.TempDir(), "headers"), env: map[string]string{}}
	i.write("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n")
	i.write("var/lib/dpkg/status", status("libc6 2.36-9+deb12u10", "gcc-12 12.2.0-14", "libelf1 0.188-2.1"))
	var key bytes.Buffer
	require.NoError(t, signer().Serialize(&key))
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
	testfile.Write(i.t, i.dir+"/"+name, text)
}

func (i *image) options() Options {
	return Options{
		Root: i.dir, Into: i.into, Release: testRelease, Arch: "amd64", Store: filepath.Join(i.dir, "tmp/store"),
		Getenv: func(name string) string { return i.env[name] },
		Log:    i.said.Logger(), backoff: time.Millisecond,
	}
}

func (i *image) fetch() ([]string, error) { return Fetch(i.t.Context(), i.options()) }

// debian returns Debian's packages for a kernel: its headers, those of all flavours, the tools. The compiler
// and the kernel image that they depend on are not there, so nothing can fetch them.
func debian(release, version string) []repotest.Deb {
	base := strings.TrimSuffix(release, "-amd64")
	src := "./usr/src/linux-headers-" + release + "/"
	common := "./usr/src/linux-headers-" + base + "-common/"
	control := func(name, depends string) string {
		return fmt.Sprintf("Package: %s\nSource: linux\nVersion: %s\nArchitecture: amd64\nInstalled-Size: 100\nDepends: %s\nDescription: x", name, version, depends)
	}
	return []repotest.Deb{
		{Control: control("linux-headers-"+release, fmt.Sprintf("linux-headers-%s-common (= %s), linux-kbuild-6.1 (>= %s), linux-compiler-gcc-12-x86, "+
			"linux-image-%s (= %s) | linux-image-%[3]s-unsigned, gcc-12", base, version, version, release, version)), Raw: true, Files: []repotest.File{
			{Name: "./"}, {Name: "./usr/"}, {Name: "./usr/src/"}, {Name: src},
			{Name: src + "include/config/kernel.release", Body: "6.1.147\n"},
			{Name: src + "include/generated/utsrelease.h", Body: "#define UTS_RELEASE \"" + release + "\"\n"},
			{Name: src + "Makefile", Body: "include ../\n"}, {Name: src + ".config", Body: "CONFIG_X86=y\n"},
			{Name: src + "scripts", Link: "../../lib/linux-kbuild-6.1/scripts"},
			{Name: "./lib/modules/" + release + "/build", Link: "/usr/src/linux-headers-" + release},
			{Name: "./lib/modules/" + release + "/source", Link: "/usr/src/linux-headers-" + base + "-common"},
			{Name: "./usr/share/doc/linux-headers/copyright", Body: "GPL"},
		}},
		{Control: control("linux-headers-"+base+"-common", ""), Raw: true, Files: []repotest.File{
			{Name: common + "include/linux/kernel.h", Body: "#pragma once\n"}, {Name: common + "scripts", Link: "../../lib/linux-kbuild-6.1/scripts"},
		}},
		{Control: control("linux-kbuild-6.1", "libc6 (>= 2.34), libelf1 (>= 0.142), libssl3 (>= 3.0.0)"), Raw: true, Files: []repotest.File{
			{Name: "./usr/lib/linux-kbuild-6.1/scripts/basic/fixdep", Body: "fixdep of " + version, Mode: 0o755, Time: 1700000000},
			{Name: "./usr/src/linux-kbuild-6.1", Link: "../lib/linux-kbuild-6.1"},
		}},
	}
}
