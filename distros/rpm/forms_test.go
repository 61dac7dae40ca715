package rpm

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// form is a repository in the form in which some tool writes it.
type form struct {
	name   string
	change func(r *repotest.Repository)
	// refused is a part of the error; it is "" if the package is taken.
	refused string
	// apart is set where dnf decides otherwise: it takes what is refused here, or refuses what is taken.
	apart bool
}

// inRepomd changes a repomd.xml with a regular expression.
func inRepomd(expression, to string) func(r *repotest.Repository) {
	return func(r *repotest.Repository) {
		r.Mangle = func(text string) string { return regexp.MustCompile(expression).ReplaceAllString(text, to) }
	}
}

// inPrimary changes a primary.xml with a regular expression.
func inPrimary(expression, to string) func(r *repotest.Repository) {
	return func(r *repotest.Repository) {
		r.Edit = func(text string) string { return regexp.MustCompile(expression).ReplaceAllString(text, to) }
	}
}

// forms are what tools write. URL stands for the address of the server.
var forms = []form{
	{name: "usual", change: func(*repotest.Repository) {}},
	{name: "xz", change: func(r *repotest.Repository) { r.Ending = ".xz" }},
	{name: "zstd", change: func(r *repotest.Repository) { r.Ending = ".zst" }},
	{name: "not compressed", change: func(r *repotest.Repository) { r.Ending = "" }},
	{name: "sha512", change: func(r *repotest.Repository) { r.SHA512 = true }},
	{name: "names of digests in capitals", change: inRepomd(`type="sha256"`, `type="SHA256"`)},
	// dnf would take right digests of these kinds.
	{name: "sha1 of the lists", change: inRepomd(`<checksum type="sha256">[0-9a-f]+`, `<checksum type="sha">0`), refused: "does not count"},
	{name: "sha384 of the lists", change: inRepomd(`<checksum type="sha256">[0-9a-f]+`, `<checksum type="sha384">0`), refused: "does not count"},
	{name: "sha1 of packages", change: inPrimary(`<checksum type="sha256" pkgid="YES">[0-9a-f]+`, `<checksum type="sha" pkgid="YES">`+strings.Repeat("0", 40)), refused: "does not count"},
	{name: "sha1 of the modules", change: func(r *repotest.Repository) {
		r.Modules = "---\n...\n"
		inRepomd(`(<data type="modules"><checksum type=)"sha256">[0-9a-f]+`, `$1"sha">0`)(r)
	}, apart: true},
	{name: "lists in another order", change: inRepomd(`(<data type="primary">.*?</data>)(.*)(</repomd>)`, `$2$1$3`)},
	{name: "an unknown list with nothing in it", change: inRepomd(`<data type="primary">`, `<data type="x"><location href="x"/></data><data type="y"><location href="y"/><size>-</size></data>$0`)},
	{name: "a list twice", change: inRepomd(`<data type="primary">.*?</data>`, `$0$0`)},
	{name: "no lists of files", change: func(r *repotest.Repository) { r.Omit = []string{"filelists", "other"} }},
	{name: "a database only", change: inRepomd(`type="primary"`, `type="primary_db"`), refused: "as a database only"},
	{name: "timestamps with fractions", change: inRepomd(`<timestamp>(\d+)`, `<timestamp>$1.25`)},
	{name: "timestamps that are none", change: inRepomd(`<timestamp>\d+`, `<timestamp>now`)},
	{name: "no timestamps", change: inRepomd(`<timestamp>\d+</timestamp>`, ``)},
	{name: "no sizes of the lists", change: inRepomd(`<(open-)?size>\d+</(open-)?size>`, ``)},
	{name: "no open checksums", change: inRepomd(`<open-checksum.*?</open-checksum>`, ``)},
	{name: "no revision", change: inRepomd(`<revision>\d+</revision>`, ``)},
	{name: "a byte order mark", change: inRepomd(`^`, "\ufeff")},
	{name: "lists with a slash at the beginning", change: inRepomd(`href="`, `href="/`)},
	{name: "lists with ./", change: inRepomd(`href="`, `href="./`)},
	{name: "lists with two slashes", change: inRepomd(`href="repodata/`, `href="repodata//`)},
	{name: "lists at whole addresses", change: inRepomd(`href="`, `href="URL/os/`), apart: true}, // librepo 1.14 ends in an assertion
	{name: "lists with xml:base", change: inRepomd(`href="`, `xml:base="URL/os" href="`)},
	{name: "packages with a slash at the beginning", change: inPrimary(`href="`, `href="/`)},
	{name: "packages with ./", change: inPrimary(`href="`, `href="./`)},
	{name: "packages with two slashes", change: inPrimary(`href="Packages/`, `href="Packages//`)},
	{name: "packages at whole addresses", change: inPrimary(`href="`, `href="URL/os/`)},
	{name: "packages with xml:base", change: inPrimary(`href="`, `xml:base="URL/os" href="`)},
	{name: "packages beside the repository", change: inPrimary(`href="`, `href="../os/`)},
	{name: "packages at a path with ..", change: inPrimary(`href="`, `href="x/../`), refused: "not a path below", apart: true},
	{name: "no epochs", change: inPrimary(`epoch="0" `, ``)},
	{name: "no sizes of packages", change: inPrimary(`<size [^>]*>`, ``), refused: "its size", apart: true},
	{name: "a package that has no digest beside it", change: inPrimary(`<package type="rpm">`, `<package type="rpm"><name>other</name><arch>x86_64</arch><version ver="1" rel="1"/></package>$0`)},
}

// TestForms reads repositories as tools write them. With DRIVER_E2E=1, dnf reads them as well and must decide the same.
func TestForms(t *testing.T) {
	t.Parallel()
	judged := os.Getenv("DRIVER_E2E") == "1"
	for _, tt := range forms {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := map[string][]byte{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, ok := files[path.Clean(r.URL.Path)] // like servers of files
				if !ok {
					http.NotFound(w, r)
					return
				}
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
			}))
			t.Cleanup(server.Close)
			put := func(name string, data []byte) { files[name] = data }
			r := repotest.NewRepository(t, server.URL, "/os", put)
			r.Packages, r.Signer = []repotest.RPM{{Name: "kernel-devel"}}, testKeys().good
			tt.change(r)
			for _, edit := range []*func(string) string{&r.Mangle, &r.Edit} {
				change := *edit
				if change == nil {
					continue
				}
				*edit = func(text string) string { return strings.ReplaceAll(change(text), "URL", server.URL) }
			}
			r.Publish()
			err := get(t, server.URL)
			if tt.refused == "" {
				assert.NoError(t, err)
			} else if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%v; want a refusal with %q", err, tt.refused)
			}
			if !judged {
				return
			}
			takes, said := dnfTakes(t, server.URL)
			if takes != ((tt.refused == "") != tt.apart) {
				t.Errorf("dnf takes it: %v\n%s", takes, said)
			}
		})
	}
}

// get downloads the package, and returns also what the notes say where it is not there.
func get(t *testing.T, url string) error {
	t.Helper()
	client := &fetch.Client{Store: require.Value(fetch.OpenStore(t.TempDir()))(t), Attempts: 1, Backoff: time.Millisecond}
	x, err := openIndex(t.Context(), Options{
		Fetch: client, Root: testfile.FS(nil), Arch: "x86_64", Modules: ParseModules,
		Sources: []repoconf.Source{{Origin: "test", ID: "os", BaseURLs: []string{url + "/os"}, GPGCheck: true, Key: repotest.Public(t, testKeys().good)}},
	})
	if err != nil {
		return err
	}
	p, ok := x.Candidate("kernel-devel")
	if !ok {
		return fmt.Errorf("no package; notes: %q", x.Notes())
	}
	_, _, err = client.Get(t.Context(), fetch.File{URL: p.URL, SHA256: p.SHA256, SHA512: p.SHA512, Size: p.Size}, nil)
	return err
}

// dnfTakes reports whether dnf downloads the package, and what it said.
func dnfTakes(t *testing.T, url string) (takes bool, said string) {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "dnf", "--assumeyes", "--installroot="+dir+"/root", "--releasever=1", "--forcearch=x86_64", //nolint:gosec // the test's own arguments
		"--setopt=reposdir=/dev/null", "--setopt=cachedir="+dir+"/cache", "--setopt=logdir="+dir, "--setopt=persistdir="+dir, "--setopt=gpgcheck=0", "--setopt=retries=1",
		"--repofrompath=os,"+url+"/os", "install", "--downloadonly", "--downloaddir="+dir+"/out", "kernel-devel")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	found, _ := filepath.Glob(dir + "/out/*.rpm")
	return err == nil && len(found) == 1, fmt.Sprintf("%s%v", out, cmp.Or(err, nil))
}
