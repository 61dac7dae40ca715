package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// The driver versions of which the node has images. Both are for its kernel, with closed modules.
const (
	Older = "470.256.02"
	Newer = "535.261.03"
)

const (
	driverSystem = "debian12"
	driverName   = "driver"
	// BusyboxImage is the image of a static busybox, which sleeps. It is the sandbox of all pods as
	// well.
	BusyboxImage = guestRegistry + "/" + busyboxName
	busyboxName  = "pause:1"
)

// images makes the images that are on the node from the beginning, and puts them into the registry
// as "NAME:TAG".
func images(t testing.TB, b base, registry int) []string {
	t.Helper()
	all := map[string]v1.Image{busyboxName: busybox(t)}
	for _, driver := range []string{Older, Newer} {
		all[driverName+":"+driverTag(b, driver)] = driverImage(t, b, driver)
	}
	for ref, image := range all {
		to := require.Value(
			name.ParseReference(fmt.Sprintf("127.0.0.1:%d/%s", registry, ref), name.Insecure),
		)(
			t,
		)
		require.NoError(t, remote.Write(to, image, remote.WithContext(t.Context())))
	}
	return slices.Sorted(maps.Keys(all))
}

// driverTag returns the tag that driver-build gives the image with modules for the guest's kernel.
func driverTag(b base, driver string) string {
	return driver + "-" + b.kernel.Release + "-" + driverSystem
}

// driverImage returns the image that driver-build of bin or DRIVER_E2E_BIN makes, rebuilt when one
// of the programs has changed.
func driverImage(t testing.TB, b base, driver string) v1.Image {
	t.Helper()
	root := require.Value(tool.Project())(t)
	// as in the real tier of ci/e2e
	bin := cmp.Or(os.Getenv("DRIVER_E2E_BIN"), filepath.Join(root, "bin"))
	program := filepath.Join(bin, "driver-build")
	programs := require.Value(filepath.Glob(filepath.Join(bin, "driver-*-linux-amd64")))(t)
	if _, err := os.Stat(program); err != nil || len(programs) == 0 {
		t.Fatalf("there are no programs in %s: run make build (%v)", bin, err)
	}
	inputs := append(
		programs,
		program,
		filepath.Join(root, "matrix.yaml"),
		filepath.Join(root, "ci/cluster/images.go"),
	)
	key := require.Value(tool.CacheKey([]string{b.kernel.Release, driver}, inputs...))(t)
	dir := cached(t, "driver-"+driver, key, func(dir string) {
		from := tool.Must(t, filepath.Join(root, "ci/base"), driverSystem)
		tool.Must(
			t,
			program,
			"--os",
			driverSystem,
			"--driver",
			driver,
			"--kernel",
			b.kernel.Release,
			"--builder",
			"chroot",
			"--base",
			from,
			// On an emulated node unpacking images takes long: the image has only what serving
			// needs.
			"--profile",
			"compute",
			"--flavour",
			"proprietary",
			"--matrix",
			filepath.Join(root, "matrix.yaml"),
			"--output",
			"oci:"+dir,
			"--progress",
			"plain",
		)
	})
	l := require.Value(layout.FromPath(dir))(t)
	index := require.Value(l.ImageIndex())(t)
	manifest := require.Value(index.IndexManifest())(t)
	// all tags refer to the same image
	return require.Value(index.Image(manifest.Manifests[0].Digest))(t)
}

// busybox makes an image of this machine's static busybox.
func busybox(t testing.TB) v1.Image {
	t.Helper()
	file := repotest.File{Name: "busybox", Body: testfile.Read(t, "/bin/busybox"), Mode: 0o755}
	config := v1.Config{Entrypoint: []string{"/busybox", "sleep", "infinity"}}
	return imagetest.Image(
		t,
		"amd64",
		config,
		repotest.Compress(t, ".gz", repotest.RawTar(t, file)),
	)
}

// startRegistry starts an image registry on this machine's loopback and returns its port. The guest
// reaches it as guestRegistry, whatever the port is.
func startRegistry(t testing.TB) (port int) {
	t.Helper()
	quiet := ggcr.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelError))
	server := httptest.NewServer(
		ggcr.New(quiet, ggcr.WithBlobHandler(ggcr.NewDiskBlobHandler(t.TempDir()))),
	)
	t.Cleanup(server.Close)
	return portOf(server.Listener)
}

func portOf(l net.Listener) int {
	return l.Addr().(*net.TCPAddr).Port //nolint:errcheck // listeners of TCP
}
