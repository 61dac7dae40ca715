package scenarios

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/logtest"
	"github.com/driver-container/driver-container/ci/require"
)

// journeyImage returns an image with modules that a journey of package e2e leaves in the workspace, in a
// folder named family/system, and the release of the kernel that they are for. It runs the journey if the
// image does not exist.
func journeyImage(t *testing.T, journey, family, system string) (disk lab.Image, release string) {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	dir := filepath.Join(workspace(t), family, system)
	if _, err := os.Stat(filepath.Join(dir, "index.json")); err != nil {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout", "30m", "-run", "^"+journey+"$", "./ci/e2e")
		cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "DRIVER_E2E_DIR="+workspace(t))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the journey that makes the image: %v\n%s", err, out)
		}
	}
	text := require.Value(os.ReadFile(filepath.Join(dir, "index.json")))(t)
	_, rest, found := strings.Cut(string(text), `"`+d535.driver+"-")
	tag, _, _ := strings.Cut(rest, `"`)
	release, ours := strings.CutSuffix(tag, "-"+system)
	if !found || !ours {
		t.Fatalf("no image of %s for %s in %s", d535.driver, system, text)
	}
	return lab.ImageDisk(t, dir, d535.driver+"-"+tag), release
}

// Images of other systems than Debian, on nodes whose kernels have names like those systems' kernels. The
// modules from the image are loaded, the driver root has its libraries where that system has them and works
// from the host, and a stop leaves nothing behind.
func Test23Systems(t *testing.T) {
	lab.Gate(t)
	for _, c := range []struct {
		journey, family, system string
		id                      string   // in os-release
		has                     []string // files in the driver root
	}{
		{"Test08RPM", "rpm", "rocky9", `ID="rocky"`, []string{"usr/lib64/libcuda.so.1", "usr/lib64/libnvidia-ml.so.1", "lib64/libcuda.so.1", "var/lib/rpm/rpmdb.sqlite"}},
		{"Test09Ubuntu", "apt", "ubuntu24.04", "ID=ubuntu", []string{"usr/lib/x86_64-linux-gnu/libcuda.so.1", "lib/x86_64-linux-gnu/libnvidia-ml.so.1", "var/lib/dpkg/status"}},
	} {
		t.Run(c.system, func(t *testing.T) {
			image, release := journeyImage(t, c.journey, c.family, c.system)
			kernel := lab.Kernel(t, "debian12").Renamed(t, release)
			g := stage{boot: kernel, disks: map[string]lab.Image{c.system: image}, edit: func(c *lab.Config) { c.NoHeaders = true }}.start(t)
			if uname := g.Sh("uname -r"); strings.TrimSpace(uname) != release {
				t.Fatalf("the guest runs %s, want %s", uname, release)
			}
			before := look(g)
			p := ready(t, g, driver(c.system))
			t.Logf("ready after %s; phases %v", since(t, g, p, logtest.Ready).Round(time.Millisecond), phasesOf(t, g, p))
			if up := statusOf(t, g).Up; up == nil || up.Source != "image" || driverLoaded(g) != d535.driver {
				t.Errorf("%+v, loaded %q, want modules of the image", up, driverLoaded(g))
			}
			probes(t, p, 0, 0, 0)
			usable(t, g)
			const root = "/run/nvidia/driver/"
			for _, name := range append(c.has, "usr/bin/nvidia-smi") {
				if !g.Exists(root + name) {
					t.Errorf("the driver root has no %s", name)
				}
			}
			if id := g.Sh("grep ^ID= " + root + "etc/os-release"); id != c.id {
				t.Errorf("the driver root is of %s", id)
			}
			stops(t, p, 0)
			if after := look(g); after.withoutLock() != before.withoutLock() {
				t.Errorf("before %+v\nafter %+v", before, after)
			}
			assert.Equalf(t, "", driverLoaded(g), "the driver is still loaded")
		})
	}
}
