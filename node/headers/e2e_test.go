package headers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/apt"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

// TestRealArchive fetches the headers of Debian's newest kernel into a real base system, through its
// configured mirrors.
func TestRealArchive(t *testing.T) {
	tool.Real(t, "needs the network and ci/base")
	root := realRoot(t, "debian12")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	// One store for all: what it saw of the repositories stays, whatever server answers next.
	o := Options{Root: root, Into: filepath.Join(t.TempDir(), "headers"), Store: t.TempDir(), Log: logtest.New(t)}
	release := newestRelease(ctx, t, root, o.Store)
	o.Release = release
	begin := time.Now()
	installed := require.Value(Fetch(ctx, o))(t)
	t.Logf("fetched %v in %s", installed, time.Since(begin).Round(time.Millisecond))
	assert.Same(t, aptChoice(t, root, release), slices.Sorted(slices.Values(installed)))
	tree := filepath.Join(o.Into, "usr/src/linux-headers-"+release)
	// Not include/config/kernel.release: Debian's has the upstream version.
	got, err := os.ReadFile(filepath.Join(tree, "include/generated/utsrelease.h"))
	if err != nil || strings.TrimSpace(string(got)) != `#define UTS_RELEASE "`+release+`"` {
		t.Errorf("utsrelease.h is %q, %v", got, err)
	}
	found, err := buildtree.Find(release, []buildtree.Root{{Dir: o.Into, Name: "fetched"}})
	assert.NoErrorf(t, err, "kmod/kbuild does not take them")
	t.Logf("kmod/kbuild found %+v", found)

	begin = time.Now()
	if again, err := Fetch(ctx, o); err != nil || strings.Join(again, " ") != strings.Join(installed, " ") {
		t.Errorf("again: %v, %v", again, err)
	}
	t.Logf("again, everything there: %s", time.Since(begin).Round(time.Millisecond))

	o.Release = strings.Replace(release, "6.1.0-", "6.1.0-1", 1)
	_, err = Fetch(ctx, o)
	t.Logf("a kernel that no longer exists: %v", err)
	assert.ErrorContainsf(t, err, release, "the error does not name")
}

// aptChoice returns the header packages that the real apt-get takes for a kernel, sorted, as "name
// version".
func aptChoice(t *testing.T, root, release string) []string {
	t.Helper()
	dir := t.TempDir()
	conf := fmt.Sprintf("Dir %q;\nDir::State::Lists \"%s/lists\";\nDir::Cache %q;\nDir::Bin::Methods \"/usr/lib/apt/methods\";\nAcquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\n",
		root, dir, dir)
	testfile.Write(t, dir+"/apt.conf", conf)
	testfile.Write(t, dir+"/lists/partial/none", "")
	apt := func(program string, args ...string) string {
		cmd := exec.Command(program, args...) //nolint:gosec,noctx // the test's own arguments
		cmd.Env = append(os.Environ(), "LC_ALL=C", "APT_CONFIG="+dir+"/apt.conf")
		out, err := cmd.CombinedOutput()
		require.NoErrorf(t, err, "%s: %s", program, out)
		return string(out)
	}
	apt("apt-get", "update")
	simulated := apt("apt-get", "install", "--simulate", "--no-install-recommends", "linux-headers-"+release)
	var all []string
	for _, found := range regexp.MustCompile(`(?m)^Inst (\S+) \((\S+) `).FindAllStringSubmatch(simulated, -1) {
		if isHeaders(found[1]) {
			all = append(all, found[1]+" "+found[2])
		}
	}
	slices.Sort(all)
	return all
}

// realRoot unpacks the base image of a system.
func realRoot(t *testing.T, system string) string {
	t.Helper()
	tool.AsRoot(t, "it unpacks a system")
	out := require.Value(exec.Command("../../ci/base", system).Output())(t)
	layout := strings.TrimPrefix(strings.TrimSpace(string(out)), "oci:")
	var index, manifest struct {
		Manifests []struct{ Digest string }
		Layers    []struct{ Digest string }
	}
	read := func(name string, into any) {
		data, err := os.ReadFile(filepath.Join(layout, name))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		require.NoError(t, err)
	}
	blob := func(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
	read("index.json", &index)
	read(blob(index.Manifests[0].Digest), &manifest)
	root := t.TempDir()
	for _, l := range manifest.Layers {
		if out, err := exec.Command("tar", "-xf", filepath.Join(layout, blob(l.Digest)), "-C", root).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return root
}

// newestRelease asks the repositories.
func newestRelease(ctx context.Context, t *testing.T, root, dir string) string {
	t.Helper()
	store := require.Value(fetch.OpenStore(dir))(t)
	files := os.DirFS(root)
	d, err := osrelease.System(files)
	if err != nil || d.ID() != "debian12" {
		t.Fatal(d, err)
	}
	sources := require.Value(apt.ReadSources(files))(t)
	releases := require.Value(apt.OpenReleases(ctx, apt.Options{Fetch: &fetch.Client{Store: store}, Root: files, Sources: sources, Arch: "amd64"}))(t)
	x := require.Value(releases.Load(ctx))(t)
	found := newest(x, "6.1.0-1-amd64")
	if !regexp.MustCompile(`^6\.1\.0-[0-9]+-amd64$`).MatchString(found) {
		t.Fatalf("the newest kernel is %q", found)
	}
	return found
}
