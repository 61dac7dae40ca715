package apt

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"  //nolint:gosec // a digest that must be refused
	"crypto/sha1" //nolint:gosec // likewise
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
)

const (
	wanted  = "linux-headers-6.1.0-99-site"
	content = "a package"
)

// form is a repository in the form in which some tool writes it.
type form struct {
	name   string
	change func(*site)
	// refused is a part of the error; it is "" if the package is taken.
	refused string
	// apart is set where apt decides otherwise: it takes what is refused here, or refuses what is taken.
	apart bool
}

// site is a repository that tests change before it is written.
type site struct {
	head        string            // the fields of the Release file before its digests
	hashes      []string          // of the Release file
	packageHash []string          // of the package's entry
	entry       string            // the fields of the entry before its digests
	before      string            // the text of the index before the entry
	after       string            // and after it
	file        string            // the package's Filename
	index       string            // the path of the index below the Release file
	lists       map[string]string // more indexes
	endings     []string
	name        func(string) string // of an index in the list of digests
	digest      func(string) string
	text        func(string) string // changes the Release file
	packages    func(string) string // changes the index
	suite       string              // as the source has it
	flat        string              // the suite of a flat repository
	detached    bool                // Release and Release.gpg
	signers     []*openpgp.Entity
	unpacked    bool // the plain index is listed and not served, as in Debian
}

func same(s string) string { return s }

func newSite() *site {
	return &site{
		head: "Origin: site\nSuite: site\nCodename: site\nDate: " + dateOf(-48) + "\nArchitectures: amd64\nComponents: main\n",
		entry: "Package: " + wanted + "\nVersion: 6.1.99-1\nArchitecture: amd64\nMaintainer: x <x@example.com>\nInstalled-Size: 8\n" +
			"Description: headers\nFilename: FILE\n" + fmt.Sprintf("Size: %d\n", len(content)),
		hashes: []string{"SHA256"}, packageHash: []string{"SHA256"}, file: "pool/h.deb", index: "main/binary-amd64/Packages",
		endings: []string{""}, name: same, digest: same, text: same, packages: same, signers: []*openpgp.Entity{keys().ed},
		lists: map[string]string{}, suite: "site",
	}
}

func dateOf(hours int) string {
	return time.Now().Add(time.Duration(hours) * time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05 UTC")
}

func sumOf(kind string, data []byte) string {
	switch strings.ToUpper(kind) {
	case "MD5SUM":
		return fmt.Sprintf("%x", md5.Sum(data)) //nolint:gosec // see the import
	case "SHA1":
		return fmt.Sprintf("%x", sha1.Sum(data)) //nolint:gosec // see the import
	case "SHA256":
		return fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return fmt.Sprintf("%x", sha512.Sum512(data))
}

// write returns the files of the repository by their paths.
func (s *site) write(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{path.Join("/", s.file): []byte(content)}
	dir := "/dists/" + s.suite
	if s.flat != "" {
		dir = path.Join("/", s.flat)
	}
	var entry, release strings.Builder
	entry.WriteString(strings.Replace(s.entry, "FILE", s.file, 1))
	for _, kind := range s.packageHash {
		fmt.Fprintf(&entry, "%s: %s\n", kind, s.digest(sumOf(kind, []byte(content))))
	}
	lists := maps.Clone(s.lists)
	lists[s.index] = s.packages(s.before + entry.String() + "\n" + s.after)
	release.WriteString(s.head)
	for _, kind := range s.hashes {
		release.WriteString(kind + ":\n")
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			for _, ending := range s.endings {
				data := repotest.Compress(t, ending, []byte(lists[name]))
				files[path.Join(dir, name+ending)] = data
				fmt.Fprintf(&release, " %s %d %s\n", s.digest(sumOf(kind, data)), len(data), s.name(name+ending))
			}
		}
	}
	text := s.text(release.String())
	when := time.Now().Add(-24 * time.Hour)
	if s.detached {
		files[dir+"/Release"] = []byte(text)
		files[dir+"/Release.gpg"] = repotest.Detached(t, text, when, s.signers...)
	} else {
		files[path.Join(dir, "InRelease")] = repotest.Clearsigned(t, text, when, s.signers...)
	}
	if s.unpacked {
		delete(files, path.Join(dir, s.index))
	}
	return files
}

var code = "Package: code\nVersion: 1\nArchitecture: amd64\nMaintainer: x <x@example.com>\nFilename: pool/code.deb\nSize: 8\nSHA256: " +
	strings.Repeat("0", 64) + "\n"

// forms are what tools write, and what attackers may.
var forms = []form{
	{name: "usual", change: func(*site) {}},
	{name: "Nexus: Filename begins with a slash", change: func(s *site) { s.file = "/pool/h.deb" }},
	{name: "two slashes in Filename", change: func(s *site) { s.file = "pool//h.deb" }},
	{name: "Filename with ./", change: func(s *site) { s.file = "./pool/./h.deb" }},
	{name: "Filename that leaves the repository", change: func(s *site) { s.file = "pool/../h.deb" }, refused: "Filename", apart: true},
	{name: "Filename with signs", change: func(s *site) { s.file = "pool/h+a~b:c d_e@f=%25.deb" }},
	{name: "no Filename", change: func(s *site) { s.entry = strings.Replace(s.entry, "Filename: FILE\n", "", 1) }, refused: "Filename"},
	{name: "field names in lower case", change: func(s *site) {
		s.packages = func(p string) string {
			return strings.NewReplacer("Filename", "filename", "SHA256", "sha256", "Package", "package").Replace(p)
		}
	}},
	{name: "field names with blanks before the colon", change: func(s *site) {
		s.packages = func(p string) string { return strings.Replace(p, "Filename:", "Filename :", 1) }
	}},
	{name: "SHA512 only, Release", change: func(s *site) { s.hashes = []string{"SHA512"} }},
	{name: "SHA512 only, Packages", change: func(s *site) { s.packageHash = []string{"SHA512"} }},
	{name: "SHA512 only, both", change: func(s *site) { s.hashes, s.packageHash = []string{"SHA512"}, []string{"SHA512"} }},
	{name: "all digests", change: func(s *site) {
		s.hashes, s.packageHash = []string{"MD5Sum", "SHA1", "SHA256", "SHA512"}, []string{"MD5sum", "SHA1", "SHA256", "SHA512"}
	}},
	{name: "MD5 and SHA1 only, Release", change: func(s *site) { s.hashes = []string{"MD5Sum", "SHA1"} }, refused: "MD5Sum, SHA1"},
	{name: "MD5 and SHA1 only, Packages", change: func(s *site) { s.packageHash = []string{"MD5sum", "SHA1"} }, refused: "no SHA256 and no SHA512"},
	{name: "digests in capitals", change: func(s *site) { s.digest = strings.ToUpper }, apart: true},
	{name: "Visual Studio Code: a line of one blank in a description", change: func(s *site) {
		s.before = code + "Description: Code editing.\n Visual Studio Code is a tool.\n \n See the site\n\n"
	}},
	{name: "a line of one tab in a description", change: func(s *site) { s.before = code + "Description: x\n\t\n y\n\n" }},
	{name: "ProxySQL: a stray line in Release", change: func(s *site) { s.head = strings.Replace(s.head, "amd64\n", "amd64\narm64\n", 1) }},
	{name: "a stray line before the digests", change: func(s *site) { s.head += "stray\n" }, refused: "no digests"},
	{name: "a stray line in an entry", change: func(s *site) { s.entry = strings.Replace(s.entry, "Maintainer", "stray\nMaintainer", 1) }},
	{name: "a stray line that hides Filename", change: func(s *site) { s.entry = strings.Replace(s.entry, "Filename", "stray\nFilename", 1) }, refused: "Filename"},
	{name: "a stray line at the end of an entry", change: func(s *site) { s.before = code + "stray\n\n" }, refused: `"stray`},
	{name: "a stray line at the end of Release", change: func(s *site) { s.text = func(r string) string { return r + "stray\n" } }, refused: `"stray`},
	{name: "a continuation before the first field", change: func(s *site) { s.before = " x\n" }},
	{name: "a field twice: the last one counts", change: func(s *site) { s.entry = "Filename: pool/other.deb\n" + s.entry }},
	{name: "a field twice, the last one wrong", change: func(s *site) { s.packageHash = []string{"SHA256", "Filename"}; s.digest = same }, refused: "404"},
	{name: "an entry twice", change: func(s *site) { s.packages = func(p string) string { return p + p } }},
	{name: "an entry without a version", change: func(s *site) { s.before = "Package: other\nArchitecture: amd64\n\n" }},
	{name: "an entry without an architecture", change: func(s *site) { s.entry = strings.Replace(s.entry, "Architecture: amd64\n", "", 1) }},
	{name: "an entry without a name", change: func(s *site) { s.before = "Version: 1\nArchitecture: amd64\n\n" }, refused: "without a name"},
	{name: "an entry with a bad version", change: func(s *site) { s.before = strings.Replace(code, "Version: 1", "Version: no_version", 1) + "\n" }},
	{name: "comments", change: func(s *site) { s.before = "# a comment: of Packages\n" }},
	{name: "no Size", change: func(s *site) { s.entry = strings.Replace(s.entry, "Size: 9\n", "", 1) }, refused: "Size"},
	{name: "Size 0", change: func(s *site) { s.entry = strings.Replace(s.entry, "Size: 9\n", "Size: 0\n", 1) }, refused: "Size"},
	{name: "CRLF in Packages", change: func(s *site) { s.packages = func(p string) string { return strings.ReplaceAll(p, "\n", "\r\n") } }},
	{name: "CRLF in Release", change: func(s *site) { s.text = func(p string) string { return strings.ReplaceAll(p, "\n", "\r\n") } }},
	{name: "CRLF in Release with a detached signature", change: func(s *site) {
		s.detached = true
		s.text = func(p string) string { return strings.ReplaceAll(p, "\n", "\r\n") }
	}},
	{name: "no Date", change: func(s *site) { s.head = regexp.MustCompile(`Date: .*\n`).ReplaceAllString(s.head, "") }},
	{name: "a Date that is none", change: func(s *site) { s.head = regexp.MustCompile(`Date: .*\n`).ReplaceAllString(s.head, "Date: yesterday\n") }},
	{name: "a Date with +0000", change: func(s *site) { s.head = strings.Replace(s.head, " UTC", " +0000", 1) }},
	{name: "a Date with GMT", change: func(s *site) { s.head = strings.Replace(s.head, " UTC", " GMT", 1) }},
	{name: "a Date with Z", change: func(s *site) { s.head = strings.Replace(s.head, " UTC", " Z", 1) }},
	{name: "a Date with another zone", change: func(s *site) { s.head = strings.Replace(s.head, " UTC", " +0200", 1) }},
	{name: "Valid-Until with +0000", change: func(s *site) { s.head += "Valid-Until: " + strings.Replace(dateOf(48), "UTC", "+0000", 1) + "\n" }},
	{name: "Valid-Until with -0000", change: func(s *site) { s.head += "Valid-Until: " + strings.Replace(dateOf(48), "UTC", "-0000", 1) + "\n" }},
	{name: "Valid-Until with +0200", change: func(s *site) { s.head += "Valid-Until: " + strings.Replace(dateOf(48), "UTC", "+0200", 1) + "\n" }, apart: true},
	{name: "Valid-Until with EST", change: func(s *site) { s.head += "Valid-Until: " + strings.Replace(dateOf(48), "UTC", "EST", 1) + "\n" }, refused: "Valid-Until"},
	{name: "Valid-Until as asctime", change: func(s *site) { s.head += "Valid-Until: " + time.Now().UTC().AddDate(0, 0, 2).Format(time.ANSIC) + "\n" }},
	{name: "Valid-Until in the past", change: func(s *site) { s.head += "Valid-Until: " + dateOf(-24) + "\n" }, refused: "Valid-Until"},
	{name: "another Suite", change: func(s *site) { s.head = strings.ReplaceAll(s.head, "e: site", "e: other") }, refused: "other", apart: true},
	{name: "the suite is an alias", change: func(s *site) { s.head = strings.Replace(s.head, "Suite: site", "Suite: stable", 1) }},
	{name: "Pulp: Codename is the first part of a deep suite", change: func(s *site) { s.suite = "site/product/7" }},
	{name: "Codename is the middle of a deep suite", change: func(s *site) { s.suite = "product/site/7" }, refused: "it is for", apart: true},
	{name: "Artifactory: sizes are padded", change: func(s *site) {
		s.text = func(r string) string { return strings.Replace(r, " main/", "           main/", 1) }
	}},
	{name: "Nexus: the first line of a list is a blank", change: func(s *site) {
		s.text = func(r string) string { return strings.Replace(r, "SHA256:\n", "SHA256: \n", 1) }
	}},
	{name: "no Suite and no Codename", change: func(s *site) {
		s.head = strings.NewReplacer("Suite: site\n", "", "Codename: site\n", "").Replace(s.head)
	}},
	{name: "Components with a folder", change: func(s *site) { s.head = strings.Replace(s.head, "s: main", "s: updates/main", 1) }},
	{name: "no Components", change: func(s *site) { s.head = strings.Replace(s.head, "Components: main\n", "", 1) }},
	{name: "other Components", change: func(s *site) { s.head = strings.Replace(s.head, "s: main", "s: contrib", 1) }},
	{name: "no Architectures", change: func(s *site) { s.head = strings.Replace(s.head, "Architectures: amd64\n", "", 1) }},
	{name: "other Architectures", change: func(s *site) { s.head = strings.Replace(s.head, "s: amd64", "s: arm64", 1) }},
	{name: "Architectures: all only", change: func(s *site) {
		s.head = strings.Replace(s.head, "s: amd64", "s: all", 1)
		s.index = "main/binary-all/Packages"
		s.entry = strings.Replace(s.entry, "e: amd64", "e: all", 1)
	}},
	{name: "Architectures: all with a package for amd64 in binary-all", change: func(s *site) {
		s.head = strings.Replace(s.head, "s: amd64", "s: amd64 all", 1)
		s.index = "main/binary-all/Packages"
	}},
	{name: "No-Support-for-Architecture-all", change: func(s *site) {
		s.head = strings.Replace(s.head, "s: amd64", "s: all amd64", 1) + "No-Support-for-Architecture-all: Packages\n"
		s.lists["main/binary-all/Packages"] = ""
	}},
	{name: "No-Support-for-Architecture-all with more words", change: func(s *site) {
		s.head = strings.Replace(s.head, "s: amd64", "s: all amd64", 1) + "No-Support-for-Architecture-all: Packages Contents\n"
		s.lists["main/binary-all/Packages"] = ""
	}},
	{name: "an empty index", change: func(s *site) {
		s.head = strings.Replace(s.head, "s: amd64", "s: all amd64", 1)
		s.lists["main/binary-all/Packages"] = ""
	}},
	{name: "gz only", change: func(s *site) { s.endings = []string{".gz"} }, apart: true},
	{name: "xz only", change: func(s *site) { s.endings = []string{".xz"} }, apart: true},
	{name: "zst only", change: func(s *site) { s.endings = []string{".zst"} }, apart: true},
	{name: "the plain index is listed and not there", change: func(s *site) { s.endings, s.unpacked = []string{"", ".gz"}, true }},
	{name: "Acquire-By-Hash without by-hash", change: func(s *site) { s.head += "Acquire-By-Hash: yes\n" }},
	{name: "names in the list begin with ./", change: func(s *site) { s.name = func(n string) string { return "./" + n } }, refused: "lists no index"},
	{name: "an entry of the list leaves the folder", change: func(s *site) {
		s.text = func(r string) string { return r + " " + strings.Repeat("0", 64) + " 7 ../x/Packages\n" }
	}},
	{name: "a line of the list is cut", change: func(s *site) { s.text = func(r string) string { return r + " " + strings.Repeat("0", 64) + "\n" } }, refused: "SHA256"},
	{name: "a line of the list has four words", change: func(s *site) { s.text = func(r string) string { return strings.TrimSuffix(r, "\n") + " x\n" } }, refused: "SHA256"},
	{name: "the list begins in the line of its name", change: func(s *site) { s.text = func(r string) string { return strings.Replace(r, "SHA256:\n", "SHA256:", 1) } }},
	{name: "the list is indented by a tab", change: func(s *site) {
		s.text = func(r string) string { return strings.Replace(r, "SHA256:\n ", "SHA256:\n\t", 1) }
	}},
	{name: "flat", change: func(s *site) { s.flat, s.index, s.head = "./", "Packages", "Date: "+dateOf(-48)+"\n" }},
	{name: "flat in a folder", change: func(s *site) { s.flat, s.index = "deb/", "Packages" }},
	{name: "flat, the list has ./Packages", change: func(s *site) { s.flat, s.index, s.name = "./", "Packages", func(n string) string { return "./" + n } }, refused: "does not list it"},
	{name: "flat for another architecture", change: func(s *site) {
		s.flat, s.index = "./", "Packages"
		s.head = strings.Replace(s.head, "s: amd64", "s: arm64", 1)
	}},
	{name: "Release and Release.gpg only", change: func(s *site) { s.detached = true }},
	{name: "Release.gpg by a stranger and by the key", change: func(s *site) { s.detached, s.signers = true, []*openpgp.Entity{keys().stranger, keys().ed} }},
	{name: "InRelease by a stranger and by the key", change: func(s *site) { s.signers = []*openpgp.Entity{keys().stranger, keys().ed} }},
	{name: "Signed-By in Release", change: func(s *site) { s.head += "Signed-By: " + repotest.Fingerprint(keys().ed) + "\n" }},
	{name: "two paragraphs in Release", change: func(s *site) { s.text = func(r string) string { return r + "\nSuite: other\n" } }},
	{name: "a Release file that begins with an empty line", change: func(s *site) { s.text = func(r string) string { return "\n" + r } }},
	{name: "the key of a stranger", change: func(s *site) { s.signers = []*openpgp.Entity{keys().stranger} }, refused: "trusted"},
	{name: "the wrong digest", change: func(s *site) { s.digest = func(d string) string { return strings.Repeat("0", len(d)) } }, refused: "inconsistent"},
}

// TestForms reads repositories as tools write them. With DRIVER_E2E=1, Debian's apt reads them as well and must decide
// the same.
func TestForms(t *testing.T) {
	t.Parallel()
	judged := os.Getenv("DRIVER_E2E") == "1"
	for _, tt := range forms {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite()
			tt.change(s)
			files := s.write(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, ok := files[path.Clean(r.URL.Path)] // like servers of files
				if !ok {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write(data)
			}))
			t.Cleanup(server.Close)
			err := get(t, server.URL, s)
			if tt.refused == "" {
				assert.NoError(t, err)
			} else if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%v; want a refusal with %q", err, tt.refused)
			}
			if judged {
				takes, said := aptTakes(t, server.URL, s)
				if takes != ((tt.refused == "") != tt.apart) {
					t.Errorf("apt takes it: %v\n%s", takes, said)
				}
			}
		})
	}
}

// get downloads the package, and returns also what the notes say where it is not there.
func get(t *testing.T, url string, s *site) error {
	t.Helper()
	source := Source{Origin: "test", URIs: []string{url}, Suites: []string{s.suite}, Components: []string{"main"}, Key: string(public(t, true, keys().ed))}
	if s.flat != "" {
		source.Suites, source.Components = []string{s.flat}, nil
	}
	client := &fetch.Client{Store: require.Value(fetch.OpenStore(t.TempDir()))(t), Attempts: 1, Backoff: time.Millisecond}
	x, err := openIndex(t.Context(), Options{Fetch: client, Root: testfile.FS(nil), Arch: "amd64", Sources: []Source{source}})
	if err != nil {
		return err
	}
	p, err := x.Find(wanted)
	if err != nil {
		return fmt.Errorf("%w; notes: %q", err, x.Notes())
	}
	return download(t.Context(), client, p.Package)
}

func download(ctx context.Context, client *fetch.Client, p distros.Package) error {
	file, _, err := client.Get(ctx, fetch.File{URL: p.URL, SHA256: p.SHA256, SHA512: p.SHA512, Size: p.Size}, nil)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file) //nolint:gosec // of the test
	if err == nil && string(data) != content {
		err = fmt.Errorf("the package is %q", data)
	}
	return err
}

// aptTakes reports whether apt downloads the package, and what it said.
func aptTakes(t *testing.T, url string, s *site) (takes bool, said string) {
	t.Helper()
	dir := require.Value(os.MkdirTemp("", "apt"))(t) //nolint:usetesting // apt takes a comma in a path, of a test's name, for the end of it
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	key := testfile.Write(t, filepath.Join(dir, "key.asc"), string(public(t, true, keys().ed)))
	list := testfile.Write(t, filepath.Join(dir, "sources.list"), "deb [signed-by="+key+"] "+url+" "+cmp.Or(s.flat, s.suite+" main")+"\n")
	for _, folder := range []string{"lists/partial", "archives/partial", "out"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
	}
	testfile.Write(t, filepath.Join(dir, "status"), "")
	var out bytes.Buffer
	for _, args := range [][]string{{"update"}, {"download", wanted}} {
		options := []string{
			"Dir::Etc::sourcelist=" + list, "Dir::Etc::sourceparts=-", "Dir::State=" + dir, "Dir::State::status=" + dir + "/status",
			"Dir::State::lists=" + dir + "/lists", "Dir::Cache=" + dir, "APT::Architecture=amd64", "APT::Architectures=amd64",
			"APT::Sandbox::User=root", "Acquire::Languages=none", "Acquire::Retries=0", "Acquire::http::Proxy=DIRECT",
			"Acquire::Check-Valid-Until=true", "Acquire::Check-Date=true",
		}
		for _, o := range options {
			args = append(args, "-o", o)
		}
		cmd := exec.Command("apt-get", args...) //nolint:gosec,noctx // the test's own arguments
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = filepath.Join(dir, "out"), &out, &out, append(os.Environ(), "LC_ALL=C")
		err := cmd.Run()
		fmt.Fprintf(&out, "%s: %v\n", args[0], err)
		takes = err == nil
	}
	found := testfile.List(t, filepath.Join(dir, "out"))
	return takes && len(found) == 1, out.String()
}
