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

	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/rpm"
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
	x := indexOf(w.index)
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
	tool.Real(t, "needs the programs of rpm")
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
