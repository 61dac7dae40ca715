package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/drivertoolkit"
)

// operatorsCommand is the command line of openshift-driver-toolkit-ctr, as the GPU Operator writes it.
const operatorsCommand = "until [ -f /mnt/shared-nvidia-driver-toolkit/dir_prepared ]; do echo  Waiting for nvidia-driver-ctr container to prepare the shared directory ...; sleep 10; done; exec /mnt/shared-nvidia-driver-toolkit/ocp_dtk_entrypoint dtk-build-driver"

// containers are those of a pod with a toolkit, in mount namespaces with roots of their own: the driver
// container has no compiler and no shell, the toolkit container nothing of the driver.
type containers struct {
	image, toolkit, shared string
	path                   string // of the toolkit's programs
	info                   driverinfo.Description
	log                    tool.Buffer // of the toolkit container
}

func newContainers(t *testing.T, script string) *containers {
	t.Helper()
	tool.AsRoot(t, "for mount namespaces")
	c := &containers{image: t.TempDir(), toolkit: t.TempDir(), shared: t.TempDir()}
	c.info = kbuildtest.Image(t, c.image)
	c.path = kbuildtest.Toolkit(t, c.toolkit, kbuildtest.Kernel, script)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(c.image, "usr/local/bin", drivertoolkit.Program), ".").CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	for _, dir := range []string{"/proc", "/dev", "/sys", "/tmp", "/var/tmp", drivertoolkit.DefaultDir} {
		require.NoError(t, os.MkdirAll(filepath.Join(c.image, dir), 0o755))
	}
	return c
}

// driver runs the program in the driver container.
func (c *containers) driver(t *testing.T, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	const script = `set -e; mount --bind "$SHARED" "$IMAGE/mnt/shared-nvidia-driver-toolkit"; mount -t proc proc "$IMAGE/proc"; mount --rbind /sys "$IMAGE/sys"; exec chroot "$IMAGE" "$@"`
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-c", script, "sh", "/usr/local/bin/" + drivertoolkit.Program}, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "SHARED=" + c.shared, "IMAGE=" + c.image}, env...)
	var stdoutText, stderrText strings.Builder
	cmd.Stdout, cmd.Stderr = &stdoutText, &stderrText
	err = cmd.Run()
	return stdoutText.String(), stderrText.String(), err
}

// start starts the toolkit container. Its root is this machine's, with other headers, another folder at /mnt,
// a scratch folder of its own and, at the operator's mount, the sources of an RDMA driver.
func (c *containers) start(t *testing.T) {
	t.Helper()
	const script = `set -e; mount -t tmpfs tmpfs /var/tmp; mount -t tmpfs tmpfs /mnt; mkdir /mnt/shared-nvidia-driver-toolkit; mount --bind "$SHARED" /mnt/shared-nvidia-driver-toolkit
mount --bind "$TOOLKIT/usr/src" /usr/src; mkdir -p "$TOOLKIT/ofed"; mount -t tmpfs tmpfs /run; mkdir -p /run/mellanox/drivers/usr/src; mount --bind "$TOOLKIT/ofed" /run/mellanox/drivers/usr/src
exec bash -xc "$1"`
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", operatorsCommand) //nolint:noctx // killed below
	cmd.Env = []string{"PATH=" + c.path + ":" + os.Getenv("PATH"), "SHARED=" + c.shared, "TOOLKIT=" + c.toolkit}
	cmd.Stdout, cmd.Stderr = &c.log, &c.log
	cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, time.Minute
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

// compiles runs the verb compile in the driver container, and returns the folder with the modules.
func (c *containers) compiles(t *testing.T, env ...string) (dir, stderr string) {
	t.Helper()
	made, stderr, err := c.driver(t, env, "compile", "--kernel", kbuildtest.Kernel, "--fetch-headers=false")
	require.NoErrorf(t, err, "%s\ntoolkit: %s", stderr, c.log.String())
	return filepath.Join(c.image, strings.TrimSpace(made)), stderr
}

// TestDriverToolkit runs this program in both containers of a pod: with a key, a companion and the node's RDMA driver, all
// modules come from the toolkit container and are signed in the driver container. Neither the key nor its passphrase get
// into the folder that both share, and a key that is mounted there is refused.
func TestDriverToolkit(t *testing.T) {
	t.Parallel()
	c := newContainers(t, "[ -e /usr/src/ofa_kernel/x86_64/"+kbuildtest.Kernel+"/Module.symvers ] || exit 7\ncp KOS/*.ko .")
	c.info.Companions = kbuildtest.Companions(t, c.image, filepath.Join(c.path, "gcc-12"))
	testfile.Write(t, filepath.Join(c.image, driverinfo.Path), string(require.Value(c.info.Encode())(t)))
	for _, dir := range []string{filepath.Join(c.image, "run/mellanox/drivers/usr/src"), filepath.Join(c.toolkit, "ofed")} {
		testfile.Write(t, filepath.Join(dir, "ofa_kernel/x86_64", kbuildtest.Kernel, "Module.symvers"), "0x1 ib_register_peer_memory_client")
	}
	const phrase = "a phrase for tests only"
	pair := testcert.New(x509.Certificate{Subject: pkix.Name{CommonName: "The node's modules"}}, nil)
	pair.Write(t, filepath.Join(c.image, "keys/cert.pem"), filepath.Join(c.image, "keys/key.pem"))
	env := []string{"GDRCOPY_ENABLED=true", "GPU_DIRECT_RDMA_ENABLED=true", "DRIVER_MODULE_SIGNING_PASSPHRASE=" + phrase,
		"DRIVER_MODULE_SIGNING_CERT=/keys/cert.pem", "DRIVER_MODULE_SIGNING_KEY=/keys/key.pem"}
	// No GPU: the start ends before modules matter, and the toolkit container may start.
	_, stderr, err := c.driver(t, env, "nv-ctr-run-with-dtk")
	assert.Equalf(t, true, exitsWith(err, exitUnsupported), "without a GPU: %v", err)
	assert.Contains(t, stderr, "gpu: ")
	assert.Same(t, []string{"dir_prepared", drivertoolkit.Program}, testfile.List(t, c.shared))
	c.start(t)
	made, stderr := c.compiles(t, env...)
	assert.Contains(t, stderr, "waiting for the Driver Toolkit container")
	assert.Contains(t, stderr, `signing the modules certificate="The node's modules" hash=sha256`)
	for _, name := range append(kbuildtest.Modules[:len(kbuildtest.Modules):len(kbuildtest.Modules)], driverinfo.GDRDrv) {
		_, err := sign.VerifyFile(t.Context(), filepath.Join(made, name+".ko"), []*x509.Certificate{pair.Certificate})
		assert.NoErrorf(t, err, "%s", name)
	}
	noKey(t, pair, c.shared)
	out, err := exec.CommandContext(t.Context(), "grep", "-rl", phrase, c.shared).CombinedOutput()
	if !exitsWith(err, 1) || len(out) > 0 {
		t.Errorf("files with the passphrase: %s, %v", out, err)
	}

	// The toolkit is for one kernel only.
	_, stderr, err = c.driver(t, env, "compile", "--kernel", "6.1.0-57-amd64", "--fetch-headers=false")
	if !exitsWith(err, exitUnsupported) || !strings.Contains(stderr, "the toolkit is for kernel "+kbuildtest.Kernel) && !strings.Contains(stderr, ", "+kbuildtest.Kernel) {
		t.Errorf("%v: %s", err, stderr)
	}

	shared := filepath.Join(drivertoolkit.DefaultDir, "key.pem")
	testfile.WriteMode(t, filepath.Join(c.shared, "key.pem"), pair.KeyPEM(), 0o400)
	_, stderr, err = c.driver(t, append(env[:len(env)-1:len(env)-1], "DRIVER_MODULE_SIGNING_KEY="+shared), "compile", "--kernel", kbuildtest.Kernel)
	assert.Equalf(t, true, exitsWith(err, exitUsage), "%v", err)
	assert.Contains(t, stderr, "--module-signing-key is "+shared+", in the folder that is shared with the Driver Toolkit container")
}

// noKey looks for the private key in the files below a folder: in PEM, in DER, or the number of the key.
func noKey(t *testing.T, pair *testcert.Pair, dir string) {
	t.Helper()
	der := require.Value(x509.MarshalPKCS8PrivateKey(pair.Key))(t)
	number := require.Value(pair.Key.(*ecdsa.PrivateKey).Bytes())(t) //nolint:errcheck,forcetypeassert // testcert makes such keys
	secrets := [][]byte{der, number, []byte(strings.Split(pair.KeyPEM(), "\n")[1])}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		for _, secret := range secrets {
			assert.Equalf(t, false, bytes.Contains(data, secret), "%s has the key", name)
		}
		return err
	}))
}

func exitsWith(err error, code int) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == code
}

// TestMissingToolkit: the image stream tag that the operator did not find is named.
func TestMissingToolkit(t *testing.T) {
	t.Parallel()
	for want, env := range map[string][]string{
		"":                                      {"RHCOS_VERSION=418.94.1", "RHCOS_IMAGE_MISSING=false"},
		"driver-toolkit:418.94.1":               {"RHCOS_VERSION=418.94.1", "RHCOS_IMAGE_MISSING=true"},
		"driver-toolkit of this node's version": {"RHCOS_IMAGE_MISSING=true"},
	} {
		c := config.Defaults()
		c.Toolkit = drivertoolkit.DefaultDir
		complete(&c, env)
		assert.Equal(t, want, c.ToolkitMissing)
		assert.Equal(t, want == "", c.HasToolkit())
	}
}

// TestSidecars: the verbs that stand in for NVIDIA's sidecars do not wait without end.
func TestSidecars(t *testing.T) {
	t.Parallel()
	for verb, variable := range map[string]string{"nv-fs-ctr-run-with-dtk": "GDS_ENABLED=true", "gdrcopy-ctr-run-with-dtk": "GDRCOPY_ENABLED=true"} {
		var stdout, stderr bytes.Buffer
		code := run([]string{drivertoolkit.Program, verb, "--timeout", "10ms"}, nil, true, nil, &stdout, &stderr)
		assert.Equalf(t, exitNotReady, code, "%s", verb)
		assert.Contains(t, stderr.String(), variable+" is set for nvidia-driver-ctr")
	}
}
