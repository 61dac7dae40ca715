package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
)

// The README's command makes an image that standard tools accept, whose programs run and whose sources
// compile.
func Test01Image(t *testing.T) {
	root := journey(t)
	out := filepath.Join(scratch(t), "dist")
	r := command{dir: root, args: []string{"ci/image", "--os", "debian12", "--driver", "535.261.03", "--output", "oci:" + out}}.want(t, 0)
	assert.Containsf(t, r.stderr, "base image: ", "stderr does not say where the base image came from %s", r)
	i := image{dir: out, tag: "535.261.03-debian12", digest: digest(t, r)}
	checkWithSkopeo(t, i)
	command{args: []string{program(t), "verify", i.ref()}}.want(t, 0)
	system := i.unpack(t)
	t.Run("dpkg", func(t *testing.T) { checkDpkg(t, system) })
	t.Run("programs", func(t *testing.T) { checkPrograms(t, system) })
	t.Run("modules", func(t *testing.T) { checkModules(t, system) })
}

func checkWithSkopeo(t *testing.T, i image) {
	t.Helper()
	var seen struct {
		Digest, Os, Architecture string
		Labels                   map[string]string
		Env, Layers              []string
	}
	text := sh(t, "skopeo", "--insecure-policy", "inspect", i.ref())
	require.NoError(t, json.Unmarshal([]byte(text), &seen))
	if seen.Digest != i.digest || seen.Os != "linux" || seen.Architecture != "amd64" || seen.Labels["org.opencontainers.image.version"] != i.tag ||
		!slices.Contains(seen.Env, "NVIDIA_VISIBLE_DEVICES=void") || !slices.Contains(seen.Env, "DRIVER_VERSION=535.261.03") {
		t.Errorf("skopeo inspect, want digest %s:\n%s", i.digest, text)
	}
	copied := filepath.Join(scratch(t), "copy")
	sh(t, "skopeo", "--insecure-policy", "copy", i.ref(), "dir:"+copied)
	if text := sh(t, "skopeo", "--insecure-policy", "inspect", "--format", "{{.Digest}}", "dir:"+copied); text != i.digest {
		t.Errorf("the copy has digest %s, want %s", text, i.digest)
	}
}

// documents matches files of packages that base images leave out (dpkg's path-exclude), and files that the
// packages' own scripts change.
var documents = regexp.MustCompile(`/usr/share/(doc|man|locale|info|lintian|bug)/`)

func checkDpkg(t *testing.T, root string) {
	list := chroot(root, "dpkg", "-l", "gcc-12", "make", "libc6-dev", "kmod", "libelf1").want(t, 0)
	assert.Equalf(t, 5, len(regexp.MustCompile(`(?m)^ii `).FindAllString(list.stdout, -1)), "want 5 installed packages %s", list)
	if audit := chroot(root, "dpkg", "--audit").want(t, 0); audit.stdout != "" {
		t.Errorf("dpkg --audit has findings\n%s", audit)
	}
	verify := chroot(root, "dpkg", "--verify").do(t)
	for line := range strings.Lines(verify.stdout) {
		if !documents.MatchString(line) {
			t.Errorf("dpkg --verify: %s", line)
		}
	}
	assert.Equalf(t, "", verify.stderr, "dpkg --verify complains %s", verify)
	chroot(root, "apt-get", "check").want(t, 0)
}

func checkPrograms(t *testing.T, root string) {
	smi := chroot(root, "nvidia-smi").want(t, 9)
	assert.Containsf(t, smi.stdout, "couldn't communicate with the NVIDIA driver", "nvidia-smi says something else %s", smi)
	version := chroot(root, "nvidia-driver", "version").want(t, 0)
	assert.Containsf(t, version.stdout, "driver 535.261.03", "no driver version %s", version)
	evict := chroot(root, "/usr/bin/driver-evict", "--help").want(t, 0) // as the chart names it
	assert.Containsf(t, evict.stdout, "nvidia-driver evict [flags]", "no command evict %s", evict)
	status := chroot(root, "nvidia-driver", "status").want(t, 0)
	assert.Containsf(t, status.stdout, "absent", "nvidia-driver status %s", status)
	chroot(root, "driver-entrypoint", "version").want(t, 0)
	for _, name := range []string{"libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4", "libnvcuvid.so.1", "libnvidia-cfg.so.1"} {
		ldd := chroot(root, "ldd", "/usr/lib/x86_64-linux-gnu/"+name).want(t, 0)
		if strings.Contains(ldd.stdout, "not found") {
			t.Errorf("%s misses libraries\n%s", name, ldd)
		}
	}
	chroot(root, "ldconfig").want(t, 0)
	if cache := chroot(root, "ldconfig", "-p").want(t, 0); !strings.Contains(cache.stdout, "libcuda.so.1 ") {
		t.Errorf("ldconfig does not see libcuda.so.1\n%s", cache)
	}
}

// checkModules compiles the proprietary modules in the image, for the newest kernel of Debian 12, as a node
// would.
func checkModules(t *testing.T, root string) {
	release := installHeaders(t, root)
	made := chroot(root, "nvidia-driver", "compile", "--kernel", release, "--fetch-headers=false").want(t, 0)
	t.Logf("compiled for %s in %.0f s", release, made.took.Seconds())
	for _, name := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm"} {
		info := chroot(root, "modinfo", "-F", "vermagic", filepath.Join(strings.TrimSpace(made.stdout), name+".ko")).want(t, 0)
		if !strings.HasPrefix(info.stdout, release+" ") {
			t.Errorf("%s.ko is for another kernel\n%s", name, info)
		}
	}
	again := chroot(root, "nvidia-driver", "compile", "--kernel", release).want(t, 0)
	if again.stdout != made.stdout || again.took > 20*time.Second {
		t.Errorf("the second compile did not come from the cache\n%s", again)
	}
	keepForLab(t, release, "modules", filepath.Join(root, strings.TrimSpace(made.stdout)))
	keepForLab(t, release, "log", filepath.Join(root, "var/lib/nvidia-driver/log", "compile-535.261.03-proprietary-"+release+".log"))
}

// keepForLab puts a compiled set, or the output of its compile, where the scenarios of the lab look for it
// before they compile.
func keepForLab(t *testing.T, release, folder, path string) {
	t.Helper()
	cache := require.Value(os.UserCacheDir())(t)
	dir := filepath.Join(cache, "driver-build", "lab", "state-"+release, folder)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	if _, err := os.Stat(filepath.Join(dir, filepath.Base(path))); errors.Is(err, os.ErrNotExist) {
		sh(t, "cp", "-a", path, dir)
	}
}

// installHeaders unpacks the newest header packages of Debian 12's kernel into root: no scripts run.
func installHeaders(t *testing.T, root string) string {
	t.Helper()
	names := strings.Fields(sh(t, "apt-cache", "pkgnames", "linux-headers-6.1.0-"))
	newest, release := 0, ""
	for _, name := range names {
		var abi int
		if m := regexp.MustCompile(`^linux-headers-(6\.1\.0-([0-9]+)-amd64)$`).FindStringSubmatch(name); m != nil {
			abi = atoi(t, m[2])
			if abi > newest {
				newest, release = abi, m[1]
			}
		}
	}
	if release == "" {
		t.Fatalf("this machine's apt knows no linux-headers-6.1.0-*-amd64: %v", names)
	}
	dir := scratch(t)
	common := strings.TrimSuffix(release, "-amd64") + "-common"
	command{dir: dir, args: []string{"apt-get", "download", "-q", "linux-headers-" + release, "linux-headers-" + common, "linux-kbuild-6.1"}}.want(t, 0)
	debs := require.Value(filepath.Glob(filepath.Join(dir, "*.deb")))(t)
	tree := filepath.Join(dir, "tree")
	for _, deb := range debs {
		sh(t, "dpkg", "-x", deb, tree)
	}
	for _, top := range []string{"usr", "lib"} { // through the image's link /lib -> usr/lib
		if _, err := os.Stat(filepath.Join(tree, top)); err == nil {
			sh(t, "cp", "-a", filepath.Join(tree, top)+"/.", filepath.Join(root, top)+"/")
		}
	}
	return release
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	return require.Value(strconv.Atoi(s))(t)
}
