package apt

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
)

// TestMachine reads the repositories that this machine configures, and compares the result with apt-get's.
func TestMachine(t *testing.T) {
	tool.Real(t, "needs the network and a Debian machine")
	root := os.DirFS("/")
	sources := require.Value(ReadSources(root))(t)
	sources = slices.DeleteFunc(sources, func(s Source) bool { return !strings.Contains(strings.Join(s.URIs, " "), "debian") })
	if len(sources) == 0 {
		t.Skip("no Debian source in /etc/apt")
	}
	dir := os.Getenv("DRIVER_E2E_CACHE")
	if dir == "" {
		dir = t.TempDir()
	}
	store := require.Value(fetch.OpenStore(dir))(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	proxy := require.Value(url.Parse(once(t)))(t)
	o := Options{Fetch: &fetch.Client{Store: store, HTTP: &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}}, Root: root, Sources: sources, Arch: runtime.GOARCH, Components: []string{"non-free"}}
	begin := time.Now()
	r := require.Value(OpenReleases(ctx, o))(t)
	t.Logf("releases: %v, digest %s", time.Since(begin), r.Digest())
	begin = time.Now()
	x := require.Value(r.Load(ctx))(t)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("indexes: %v, %d packages, heap %d MB, from the system %d MB", time.Since(begin), x.Len(), m.HeapAlloc>>20, m.Sys>>20)
	lists := aptUpdate(t, proxy)
	f := require.Value(os.Open("/var/lib/dpkg/status"))(t)
	defer f.Close() //nolint:errcheck // read only
	machine := require.Value(dpkg.ReadStatus(f))(t)
	empty := t.TempDir() + "/status"
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, want := range [][]string{
		{"gcc-12", "make", "libc6-dev", "kmod"},
		{"openjdk-17-jdk-headless"},
		{"build-essential"},
		{"libelf-dev", "bc", "bison", "flex"},
		{"exim4"},
		{"xorg"},
		{"gnome-core"},
		{"texlive-latex-extra"},
		{"python3-scipy"},
		{"postgresql"},
		{"default-mta"},
		{"mail-transport-agent"},
		{"dkms"},
		{"linux-headers-amd64"},
		{"samba"},
		{"kde-plasma-desktop"},
	} {
		for name, st := range map[string]*dpkg.Status{"empty": nil, "machine": machine} {
			path := "/var/lib/dpkg/status"
			if st == nil {
				path = empty
			}
			t.Run(name+" "+strings.Join(want, " "), func(t *testing.T) {
				t.Parallel()
				compareWithApt(t, x, st, lists, path, want)
			})
		}
	}
}

// compareWithApt resolves want over the installed packages (status is apt's file of them) and requires apt's
// choice.
func compareWithApt(t *testing.T, x *Index, installed *dpkg.Status, lists, status string, want []string) {
	t.Helper()
	begin := time.Now()
	got := require.Value(x.Resolve(installed, want))(t)
	t.Logf("%d packages in %v", len(got), time.Since(begin))
	apt, ours := aptGet(t, lists, status, want), versions(got)
	if apt == nil {
		return // apt does not choose a provider of a virtual package
	}
	// On an empty system both must choose the same. On a full one apt also upgrades the requested packages and
	// the siblings of what it upgrades; this package changes nothing that suffices.
	extra := slices.DeleteFunc(slices.Clone(ours), func(p string) bool { return slices.Contains(apt, p) })
	if diff := cmp.Diff(apt, ours); installed == nil && diff != "" || len(extra) > 0 {
		t.Errorf("(-apt +ours):\n%s", diff)
	}
}

func versions(pkgs []Package) []string {
	var out []string
	for _, p := range pkgs {
		out = append(out, p.Name+" "+p.Version)
	}
	return out
}

// once is a proxy that asks for each URL once: both readers see the same state of an archive that changes meanwhile.
func once(t *testing.T) string {
	t.Helper()
	type answer struct {
		code int
		body []byte
	}
	var mu sync.Mutex
	seen := map[string]answer{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		a, ok := seen[r.URL.String()]
		if !ok {
			resp, err := http.Get(r.URL.String()) //nolint:noctx // the transfer ends with the test
			if err == nil {
				a.code = resp.StatusCode
				a.body, err = io.ReadAll(resp.Body)
				err = errors.Join(err, resp.Body.Close())
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			seen[r.URL.String()] = a
		}
		w.WriteHeader(a.code)
		_, _ = w.Write(a.body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// aptUpdate gives apt the indexes that the test has, in a directory of the test: the machine's may be older.
func aptUpdate(t *testing.T, proxy *url.URL) (lists string) {
	t.Helper()
	lists = t.TempDir()
	require.NoError(t, os.Mkdir(lists+"/partial", 0o700))
	if out, err := exec.Command("apt-get", "update", "-o", "Dir::State::lists="+lists, "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=", "-o", "APT::Sandbox::User=root", "-o", "Acquire::http::Proxy="+proxy.String()).CombinedOutput(); err != nil { //nolint:gosec // the test's own arguments
		t.Fatalf("apt-get update: %v\n%s", err, out)
	}
	return lists
}

// aptGet simulates the same request with apt.
func aptGet(t *testing.T, lists, status string, want []string) []string {
	t.Helper()
	args := append([]string{"install", "-s", "--no-install-recommends", "-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=", "-o", "Dir::State::status=" + status}, want...)
	out, err := exec.Command("apt-get", args...).CombinedOutput() //nolint:gosec // the test's own arguments
	if err != nil {
		t.Logf("apt-get: %v\n%s", err, out)
		return nil
	}
	return installed(string(out))
}

// installed returns what apt-get -s says that it installs.
func installed(out string) []string {
	list := []string{}
	for _, m := range regexp.MustCompile(`(?m)^Inst (\S+) (?:\[\S+\] )?\((\S+) `).FindAllStringSubmatch(out, -1) {
		list = append(list, m[1]+" "+m[2])
	}
	slices.Sort(list)
	return list
}
