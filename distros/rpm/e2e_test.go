package rpm_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/realrepo"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// style is the way in which a family of distributions publishes its repositories.
type style struct {
	name       string
	repository realrepo.Repository
	zypp       bool
}

// TestCreaterepo reads repositories that createrepo_c made in the style of each family, and compares each
// package in the index with the package itself.
func TestCreaterepo(t *testing.T) {
	t.Parallel()
	tool.Real(t, "needs the programs of rpm")
	key := realrepo.NewKey(t, "rsa2048")
	packages := realrepo.Build(t,
		realrepo.Package{Name: "gcc", Version: "11.4.1-3.el9", Requires: []string{"cpp = 11.4.1-3.el9", "glibc-devel >= 2.2.90-12", "/usr/bin/as", "(a or (b and c >= 1:2~rc1))"},
			Provides: []string{"gcc(major) = 11", "compiler"}, Files: []realrepo.File{{Path: "/usr/bin/gcc", Body: "x", Mode: 0o755}, {Path: "/usr/lib/gcc/specs", Body: "y"}}},
		realrepo.Package{Name: "cpp", Version: "3:11.4.1-3.el9", Obsoletes: []string{"old-cpp < 3"}, Conflicts: []string{"tcc <= 1.0", "lcc", "(cc with cc > 2)"}},
		realrepo.Package{Name: "tzdata", Version: "2024a^git1-1", Arch: "noarch", Files: []realrepo.File{{Path: "/etc/tz&co.conf", Body: "z", Config: true}, {Path: "/usr/share/zoneinfo/ghost", Ghost: true}}},
		realrepo.Package{Name: "libstdc++", Version: "11~rc1-2", Arch: "i686"},
	)
	key.SignPackages(t, packages)
	for _, s := range []style{
		{name: "el7", repository: realrepo.Repository{Flags: []string{"--database", "--simple-md-filenames"}}},
		{name: "el8", repository: realrepo.Repository{Flags: []string{"--no-database", "--general-compress-type=xz"}}},
		{name: "fedora", repository: realrepo.Repository{}},
		{name: "amzn2", repository: realrepo.Repository{Flags: []string{"--no-database", "--general-compress-type=bz2"}}},
		{name: "leap15", repository: realrepo.Repository{Flags: []string{"--no-database", "--checksum=sha512"}, Key: key, PublishKey: true}, zypp: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.repository.Packages = packages
			dir := s.repository.Create(t, t.TempDir())
			server := httptest.NewServer(http.FileServer(http.Dir(dir)))
			t.Cleanup(server.Close)
			store := require.Value(fetch.OpenStore(t.TempDir()))(t)
			root := t.TempDir()
			testfile.Write(t, filepath.Join(root, "etc/pki/rpm-gpg/KEY"), string(key.Public))
			config, text := "etc/yum.repos.d", "[r]\nname=r\nbaseurl="+server.URL+"/\ngpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/KEY\n"
			if s.zypp {
				config, text = "etc/zypp/repos.d", "[r]\nname=r\nbaseurl="+server.URL+"/\ntype=rpm-md\n"
			}
			testfile.Write(t, filepath.Join(root, config, "r.repo"), text)
			releases := require.Value(rpm.OpenReleases(t.Context(), rpm.Options{
				Fetch: &fetch.Client{Store: store}, Root: os.DirFS(root), Arch: "x86_64",
				Sources: require.Value(repoconf.ReadSources(os.DirFS(root), nil))(t),
			}))(t)
			x := require.Value(releases.Load(t.Context()))(t)
			assert.Equalf(t, len(packages), x.Len(), "Len")
			for _, file := range packages {
				compare(t, x, s, file, key.Fingerprint)
			}
		})
	}
}

// compare opens a package and checks that the index has the same data.
func compare(t *testing.T, x *rpm.Index, s style, file, fingerprint string) {
	t.Helper()
	in := require.Value(os.Open(file))(t)
	defer in.Close() //nolint:errcheck // read only
	f := require.Value(rpmfile.Open(in))(t)
	want := require.Value(f.Header.Metadata())(t)
	got, ok := x.Candidate(want.Name)
	if !ok {
		t.Fatalf("no %s in the index", want.Name)
	}
	want.Files = slices.DeleteFunc(want.Files, func(f string) bool { return !strings.HasPrefix(f, "/etc/") && !strings.Contains(f, "bin/") })
	byText := cmp.Transformer("sorted", func(m rpmfile.Metadata) map[string][]string {
		out := map[string][]string{"version": {m.EVR.String()}, "arch": {m.Arch}, "files": slices.Sorted(slices.Values(m.Files))}
		for name, list := range map[string][]rpmfile.Relation{"provides": m.Provides, "obsoletes": m.Obsoletes} {
			for _, r := range list {
				out[name] = append(out[name], r.String())
			}
		}
		for name, list := range map[string][]rpmfile.Requirement{"requires": m.Requires, "conflicts": m.Conflicts} {
			for _, r := range list {
				out[name] = append(out[name], r.String())
			}
		}
		for name := range out {
			slices.Sort(out[name])
		}
		return out
	})
	if diff := cmp.Diff(want, got.Metadata, byText); diff != "" {
		t.Errorf("%s: package (-) and index (+) differ:\n%s", want.Name, diff)
	}
	if s.zypp != (len(got.Keys) == 0) || len(got.Keys) > 0 && got.Keys[0] != fingerprint {
		t.Errorf("%s: Keys = %q", want.Name, got.Keys)
	}
}
