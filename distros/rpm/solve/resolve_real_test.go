package solve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/gate"
	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmdb"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// referenceCase is the input of testdata/dnf_reference.py.
type referenceCase struct {
	Root  string          `json:"root"`
	Repos []referenceRepo `json:"repos"`
	Cache string          `json:"cache"`
	Wants [][]string      `json:"wants"`
}

type referenceRepo struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Priority int    `json:"priority"`
}

// referenceAnswer is its output for each list of wants.
type referenceAnswer struct {
	Add    []string `json:"add"`
	Remove []string `json:"remove"`
	Error  string   `json:"error"`
}

// askDNF lets dnf resolve the cases.
func askDNF(t testing.TB, cases []referenceCase) [][]referenceAnswer {
	t.Helper()
	in := require.Value(json.Marshal(cases))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "/usr/bin/python3", "testdata/dnf_reference.py")
	c.Env = append(os.Environ(), "HOME="+referenceHome(t), "LC_ALL=C")
	c.Stdin = bytes.NewReader(in)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("dnf: %v\n%s", err, errs.String())
	}
	var answers [][]referenceAnswer
	if err := json.Unmarshal(out.Bytes(), &answers); err != nil {
		t.Fatalf("dnf: %v\n%s", err, errs.String())
	}
	return answers
}

// referenceHome tells rpm where systems have their database: Debian's rpm searches for it below the user's
// home folder.
func referenceHome(t testing.TB) string {
	t.Helper()
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, ".rpmmacros"), []byte("%_dbpath /var/lib/rpm\n"), 0o644))
	return home
}

// world is a system and its repositories, both as real packages and as an index of this project.
type world struct {
	system, index []rpm.Package
	reference     referenceCase
}

// realPackages converts descriptions to packages that rpmbuild can make.
func realPackages(packages []rpm.Package) []realrepo.Package {
	var out []realrepo.Package
	for _, p := range packages {
		r := realrepo.Package{Name: p.Name, Version: p.Version, Arch: p.Arch}
		if !strings.Contains(r.Version, "-") {
			r.Version += "-1"
		}
		for _, q := range p.Metadata.Requires {
			r.Requires = append(r.Requires, q.String())
		}
		for _, q := range p.Metadata.Conflicts {
			r.Conflicts = append(r.Conflicts, q.String())
		}
		for _, q := range p.Metadata.Provides[1:] { // without itself
			r.Provides = append(r.Provides, q.String())
		}
		for _, q := range p.Metadata.Obsoletes {
			r.Obsoletes = append(r.Obsoletes, q.String())
		}
		for _, f := range p.Metadata.Files {
			r.Files = append(r.Files, realrepo.File{Path: f, Body: "x"})
		}
		out = append(out, r)
	}
	return out
}

// makeWorlds builds the packages of all worlds at once, their repositories and systems.
func makeWorlds(t testing.TB, worlds []*world) {
	t.Helper()
	var all []realrepo.Package
	for _, w := range worlds {
		all = append(append(all, realPackages(w.system)...), realPackages(w.index)...)
	}
	paths := realrepo.Build(t, all...)
	for _, w := range worlds {
		root := realrepo.NewRoot(t)
		if n := len(w.system); n > 0 {
			root.RPM(t, append([]string{"-i", "--force-debian", "--justdb", "--nodeps", "--nodigest", "--force"}, paths[:n]...)...)
		}
		paths = paths[len(w.system):]
		byOrigin := map[string][]string{}
		w.reference = referenceCase{Root: root.Dir, Cache: t.TempDir()}
		for i, p := range w.index {
			if byOrigin[p.Origin] == nil {
				w.reference.Repos = append(w.reference.Repos, referenceRepo{ID: p.Origin, Priority: p.Priority})
			}
			byOrigin[p.Origin] = append(byOrigin[p.Origin], paths[i])
		}
		paths = paths[len(w.index):]
		for i := range w.reference.Repos {
			r := &w.reference.Repos[i]
			r.URL = realrepo.Repository{Packages: byOrigin[r.ID]}.Create(t, filepath.Dir(w.reference.Cache))
		}
	}
}

// ours returns this package's answer in the form of the reference.
func ours(t testing.TB, w *world, want []string) referenceAnswer {
	t.Helper()
	x := newRepositories("x86_64", w.index)
	return answer(Resolve(context.Background(), x, metadataOf(w.system), want))
}

func answer(got []rpm.Package, err error) referenceAnswer {
	if err != nil {
		return referenceAnswer{Error: err.Error()}
	}
	a := referenceAnswer{}
	for _, p := range got {
		a.Add = append(a.Add, fmt.Sprintf("%s %s %s", p.Name, p.Version, p.Arch))
	}
	slices.Sort(a.Add)
	return a
}

func (a referenceAnswer) same(b referenceAnswer) bool {
	return (a.Error == "") == (b.Error == "") && slices.Equal(a.Add, b.Add)
}

// TestRealCases compares the cases of TestResolve with dnf.
func TestRealCases(t *testing.T) {
	gate.Real(t, "needs the programs of rpm")
	var worlds []*world
	var cases []referenceCase
	var names []resolveCase
	for _, tt := range resolveCases() {
		names = append(names, tt)
		worlds = append(worlds, &world{system: described(t, tt.system), index: described(t, tt.index)})
	}
	makeWorlds(t, worlds)
	for i, w := range worlds {
		w.reference.Wants = [][]string{wants(names[i].want)}
		cases = append(cases, w.reference)
	}
	for i, a := range askDNF(t, cases) {
		mine := ours(t, worlds[i], cases[i].Wants[0])
		if !mine.same(a[0]) {
			t.Logf("%s: dnf %+v, we %+v (%s)", names[i].name, a[0], mine, names[i].unlike)
			if names[i].unlike == "" {
				t.Errorf("%s differs", names[i].name)
			}
		}
	}
}

// TestRealRepository tests the whole process: a signed repository that createrepo_c made, a system that rpm
// made, and a requirement that only the lists of files can answer. It compares the result with dnf's.
func TestRealRepository(t *testing.T) {
	gate.Real(t, "needs the programs of rpm")
	describedFiles := func(path string) []realrepo.File { return []realrepo.File{{Path: path, Body: "x"}} }
	packages := realrepo.Build(t,
		realrepo.Package{Name: "a", Requires: []string{"/usr/share/x/data", "(c if d)", "glibc-devel"}},
		realrepo.Package{Name: "b", Arch: "noarch", Files: describedFiles("/usr/share/x/data")},
		realrepo.Package{Name: "c"},
		realrepo.Package{Name: "glibc-devel", Version: "2-1", Requires: []string{"glibc = 2-1"}},
		realrepo.Package{Name: "glibc", Version: "2-1", Requires: []string{"glibc-common = 2-1"}},
		realrepo.Package{Name: "glibc-common", Version: "2-1", Requires: []string{"glibc = 2-1"}},
		realrepo.Package{Name: "d"},
		realrepo.Package{Name: "glibc", Version: "1-1", Requires: []string{"glibc-common = 1-1"}},
		realrepo.Package{Name: "glibc-common", Version: "1-1", Requires: []string{"glibc = 1-1"}},
	)
	root := realrepo.NewRoot(t)
	root.Install(t, packages[6:]...)
	key := realrepo.NewKey(t, "rsa2048")
	dir := realrepo.Repository{Packages: packages[:6], Key: key, Compression: "xz"}.Create(t, t.TempDir())
	store := require.Value(fetch.OpenStore(t.TempDir()))(t)
	releases := require.Value(rpm.OpenReleases(t.Context(), rpm.Options{
		Fetch: &fetch.Client{Store: store}, Root: os.DirFS(root.Dir), Arch: "x86_64",
		Sources: []repoconf.Source{{ID: "r", Name: "r", BaseURLs: []string{realrepo.Serve(t, dir)}, RepoGPGCheck: true, Key: string(key.Public)}},
	}))(t)
	x := require.Value(releases.Load(t.Context()))(t)
	db := require.Value(rpmdb.Read(os.DirFS(root.Dir)))(t)
	var installed []rpmfile.Metadata
	for _, h := range db.Packages() {
		m := require.Value(h.Metadata())(t)
		installed = append(installed, m)
	}
	got := require.Value(Resolve(t.Context(), x, installed, []string{"a"}))(t)
	want := "a 1-1, b 1-1.noarch, c 1-1, glibc 2-1<1-1, glibc-common 2-1<1-1, glibc-devel 2-1"
	assert.Equalf(t, want, short(got), "Resolve(a)")
	theirs := askDNF(t, []referenceCase{{
		Root: root.Dir, Cache: t.TempDir(), Repos: []referenceRepo{{ID: "r", URL: dir, Priority: 99}}, Wants: [][]string{{"a"}},
	}})[0][0]
	if mine := answer(got, nil); !mine.same(theirs) {
		t.Errorf("dnf %+v, we %+v", theirs, mine)
	}
}
