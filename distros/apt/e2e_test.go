package apt

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/fetch"
)

var (
	requestSeed  = flag.Uint64("requests.seed", 52, "seed of the random requests of TestMachine")
	requestCount = flag.Int("requests", 40, "number of the random requests of TestMachine")
)

// largeRequests have most of what makes a resolution hard: hundreds of packages, alternatives, packages of the same name
// in several repositories, names that several packages provide.
var largeRequests = [][]string{
	{"gcc-12", "make", "libc6-dev", "kmod"},
	{"exim4"},
	{"gnome-core"},
	{"texlive-latex-extra"},
	{"default-mta"},
	{"mail-transport-agent"},
	{"linux-headers-amd64"},
	{"kde-plasma-desktop"},
}

// TestMachine reads the repositories that this machine configures, and lets apt judge what is taken for large and random
// requests: packages, their URLs, sizes and digests.
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
	client := &fetch.Client{Store: store, HTTP: &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}}
	o := Options{Fetch: client, Root: root, Sources: sources, Arch: runtime.GOARCH}
	r := require.Value(OpenReleases(ctx, o))(t)
	x := require.Value(r.Load(ctx))(t)
	f := require.Value(os.Open("/var/lib/dpkg/status"))(t)
	defer f.Close() //nolint:errcheck // read only
	machine := require.Value(dpkg.ReadStatus(f))(t)
	empty := t.TempDir() + "/status"
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	onEmpty := updateApt(t, proxy, empty)
	onMachine := updateApt(t, proxy, "/var/lib/dpkg/status")
	t.Logf("-requests %d -requests.seed %d", *requestCount, *requestSeed)
	for _, want := range largeRequests {
		t.Run(strings.Join(want, " "), func(t *testing.T) {
			t.Parallel()
			assert.Equalf(t, "", onEmpty.judge(t, x, nil, want), "the choice")
			assert.Equalf(t, "", onMachine.judge(t, x, machine, want), "the choice")
		})
	}
	// php-json is a package of its own, and one that others provide: of 107 random requests this one differs.
	var different atomic.Int32
	t.Cleanup(func() {
		if count := int(different.Load()); count*20 > *requestCount {
			t.Errorf("%d of %d random requests differ, more than one in twenty", count, *requestCount)
		}
	})
	for _, want := range randomRequests(x) {
		t.Run(strings.Join(want, " "), func(t *testing.T) {
			t.Parallel()
			for _, difference := range []string{onEmpty.judge(t, x, nil, want), onMachine.judge(t, x, machine, want)} {
				if difference != "" {
					different.Add(1)
					t.Log(difference)
				}
			}
		})
	}
}

// randomRequests returns requests for one to four packages: by name, with a version or an architecture, or by a name that
// others provide.
func randomRequests(x *Index) [][]string {
	r := rand.New(rand.NewPCG(*requestSeed, 0))
	virtual := slices.Sorted(maps.Keys(x.providers))
	one := func() string {
		e := x.candidate(x.entries[r.IntN(len(x.entries))].name)
		switch r.IntN(10) {
		case 0:
			return e.name + "=" + e.version
		case 1:
			return e.name + ":" + runtime.GOARCH
		case 2:
			return virtual[r.IntN(len(virtual))]
		}
		return e.name
	}
	requests := make([][]string, *requestCount)
	for i := range requests {
		for range 1 + r.IntN(4) {
			requests[i] = append(requests[i], one())
		}
	}
	return requests
}

// apt is the program with its lists in a folder of the test, where the machine's own may be older, and the status file of
// a system.
type apt struct{ root, status string }

// updateApt gives apt the indexes that the test has.
func updateApt(t *testing.T, proxy *url.URL, status string) apt {
	t.Helper()
	a := apt{t.TempDir(), status}
	require.NoError(t, os.MkdirAll(a.root+"/lists/partial", 0o700))
	require.NoError(t, os.MkdirAll(a.root+"/cache/archives/partial", 0o700))
	out, err := a.get("update", "-o", "Acquire::http::Proxy="+proxy.String())
	if err != nil {
		t.Fatalf("apt-get update: %v\n%s", err, out)
	}
	return a
}

func (a apt) get(args ...string) ([]byte, error) {
	args = append(args, "-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::ForceHash=SHA256")
	args = append(args, "-o", "Dir::State::lists="+a.root+"/lists", "-o", "Dir::State::status="+a.status, "-o", "Dir::Cache="+a.root+"/cache")
	args = append(args, "-o", "Dir::Cache::pkgcache=pkgcache.bin", "-o", "Dir::Cache::srcpkgcache=srcpkgcache.bin")
	return exec.Command("apt-get", args...).CombinedOutput() //nolint:gosec // the test's own arguments
}

// judge resolves want over the installed packages and returns how the choice differs from apt's, or "". Of packages that
// provide a name apt takes one by their order in its cache, this package the first by name: apt is asked again, with
// those that were chosen here.
func (a apt) judge(t *testing.T, x *Index, installed *dpkg.Status, want []string) string {
	t.Helper()
	got, refusal := x.Resolve(installed, want)
	theirs, said := a.install(t, want)
	if said != "" {
		// apt chooses no provider that is asked for, and gives up where this package tries a second alternative.
		t.Logf("apt-get refuses: %s\nours: %d packages, %v", said, len(got), refusal)
		return ""
	}
	require.NoError(t, refusal)
	ours := []string{}
	chosen := slices.Clone(want)
	for _, p := range got {
		line := fmt.Sprintf("%s %d SHA256:%s", require.Value(url.PathUnescape(p.URL))(t), p.Size, p.SHA256)
		ours = append(ours, line)
		if p.Paragraph.Get("Provides") != "" && !slices.Contains(theirs, line) {
			chosen = append(chosen, p.Name)
		}
	}
	slices.Sort(ours)
	if len(chosen) > len(want) {
		t.Logf("other providers: %s", chosen[len(want):])
		theirs, said = a.install(t, chosen)
	}
	// On an empty system both must choose the same. On a full one apt also upgrades the requested packages and
	// the siblings of what it upgrades; this package changes nothing that suffices.
	extra := slices.DeleteFunc(slices.Clone(ours), func(p string) bool { return slices.Contains(theirs, p) })
	if diff := cmp.Diff(theirs, ours); installed == nil && diff != "" || len(extra) > 0 {
		return fmt.Sprintf("installed packages: %v (-apt +ours): %s\n%s", installed != nil, said, diff)
	}
	return ""
}

// install returns what apt would download, each with its size and digest, or its words when it refuses.
func (a apt) install(t *testing.T, want []string) (packages []string, said string) {
	t.Helper()
	args := append([]string{"install", "--print-uris", "--no-install-recommends"}, want...)
	out, err := a.get(args...)
	if err != nil {
		return nil, fmt.Sprintf("%v: %s", err, out)
	}
	packages = []string{}
	for _, m := range regexp.MustCompile(`(?m)^'(.*)' \S+ (.*)$`).FindAllStringSubmatch(string(out), -1) {
		packages = append(packages, require.Value(url.PathUnescape(m[1]))(t)+" "+m[2])
	}
	slices.Sort(packages)
	return packages, ""
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
