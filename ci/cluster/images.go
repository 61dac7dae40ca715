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
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/ocitest"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// The driver versions of which the node has images, for its kernel and with closed modules. The image of
// Older has its modules; those of Newer are in an image of their own, which kubelet mounts.
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
	kernel := []string{"--kernel", b.kernel.Release, "--profile"}
	for tag, flags := range map[string][]string{
		driverTag(b, Older): append(kernel, "compute", "--driver", Older),
		driverTag(b, Newer): {"--no-toolchain", "--profile", "compute", "--driver", Newer},
		modulesTag(b):       append(kernel, "modules", "--driver", Newer),
	} {
		all[driverName+":"+tag] = driverImage(t, tag, flags)
	}
	for ref, image := range all {
		to := require.Value(
			name.ParseReference(fmt.Sprintf("127.0.0.1:%d/%s", registry, ref), name.Insecure),
		)(t)
		require.NoError(t, remote.Write(to, image, remote.WithContext(t.Context())))
	}
	return slices.Sorted(maps.Keys(all))
}

// driverTag returns the tag that driver-build gives the image of a driver.
func driverTag(b base, driver string) string {
	if driver == Newer {
		return driver + "-" + driverSystem
	}
	return driver + "-" + b.kernel.Release + "-" + driverSystem
}

// modulesTag returns the tag of the image with the modules of Newer.
func modulesTag(b base) string {
	return Newer + "-" + b.kernel.Release + "-" + driverSystem + "-modules"
}

// driverImage returns the image that driver-build of bin or DRIVER_E2E_BIN makes, rebuilt when one
// of the programs has changed.
func driverImage(t testing.TB, tag string, flags []string) v1.Image {
	t.Helper()
	root := require.Value(tool.Project())(t)
	// as in the real tier of ci/e2e
	bin := cmp.Or(os.Getenv("DRIVER_E2E_BIN"), filepath.Join(root, "bin"))
	program := filepath.Join(bin, "driver-build")
	programs := require.Value(filepath.Glob(filepath.Join(bin, "driver-*-linux-amd64")))(t)
	if _, err := os.Stat(program); err != nil || len(programs) == 0 {
		t.Fatalf("there are no programs in %s: run make build (%v)", bin, err)
	}
	matrix := filepath.Join(root, "matrix.yaml")
	dir := tool.Cached(t, cacheDir(t), "driver-"+tag+"-", func(dir string) error {
		from := tool.Must(t, filepath.Join(root, "ci/base"), driverSystem)
		// On an emulated node unpacking images takes long: the flags leave out what serving does not need.
		command := []string{
			program, "--os", driverSystem, "--builder", "chroot", "--base", from, "--flavour", "proprietary",
			"--matrix", matrix, "--output", "oci:" + dir, "--progress", "plain",
		}
		tool.Must(t, append(command, flags...)...)
		return nil
	}, flags, append(programs, program, matrix)...)
	return ocitest.Open(t, dir)
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
	return server.Listener.Addr().(*net.TCPAddr).Port //nolint:errcheck // it listens on TCP
}
