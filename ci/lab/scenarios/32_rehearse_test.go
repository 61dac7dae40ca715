package scenarios

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/cluster/control"
	"github.com/driver-container/driver-container/ci/lab"
	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/rehearse"
)

const project = "../../.."

// rehearsal calls driver-build rehearse as a user does, and returns its report. Without failed, all goes well;
// otherwise that row fails, alone, for a reason that matches.
func rehearsal(t *testing.T, failed, reason string, args ...string) rehearse.Report {
	t.Helper()
	args = append([]string{"rehearse", "-o", "json", "--progress", "plain", "--timeout", "20m", "--base", debianBase(t)}, args...)
	begin := time.Now()
	cmd := exec.CommandContext(t.Context(), project+"/bin/driver-build", args...) //nolint:gosec // the test's own words
	cmd.Stderr = t.Output()
	if slices.Contains(args, "--chart") { // helm
		cmd.Env = append(os.Environ(), "PATH="+control.Bin(t)+":"+os.Getenv("PATH"))
	}
	out, err := cmd.Output()
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	t.Logf("%q: exit code %d after %s\n%s", args, code, time.Since(begin).Round(time.Second), out)
	goldentest.Schema(t, "rehearse.schema.json", string(out))
	var report rehearse.Report
	require.NoError(t, json.Unmarshal(out, &report))
	want := 0
	if failed != "" {
		want = 5
	}
	assert.Equalf(t, want, code, "exit code")
	for _, row := range report.Rows {
		assert.Equalf(t, row.Name == failed, row.Verdict == rehearse.Failed, "the row %s failed", row.Name)
		if row.Name == failed {
			contains(t, row.Message+"\n"+strings.Join(row.Log, "\n"), reason)
		}
	}
	return report
}

// debianBase is the base that Debian's repositories are read with.
func debianBase(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(require.Value(tool.Run(t.Context(), project, nil, "ci/base", "debian12"))(t))
}

// newestKernel is the newest kernel that Debian 12's repositories have, of a later series than its own.
func newestKernel(t *testing.T) string {
	t.Helper()
	out := require.Value(tool.Run(t.Context(), project, nil, "bin/driver-build", "kernels", "--os", "debian12", "--base", debianBase(t), "-o", "json", "--progress", "quiet"))(t)
	var list struct{ Items []struct{ Kernel string } }
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	return list.Items[0].Kernel
}

// oci is a folder as an argument.
func oci(dir string) string { return "oci:" + dir }

// thinFolder is the layout of the thin image for a kernel.
func thinFolder(t *testing.T, kernel *lab.HostKernel) string {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	return thinLayout(t, "thin", []*lab.HostKernel{kernel})
}

// Test32Upgrade: from 470 to 535 and back, idle and in use.
func Test32Upgrade(t *testing.T) {
	lab.Gate(t)
	t.Parallel()
	kernel := lab.Kernel(t, "debian12")
	making.Lock()
	old := d470.layoutOf(t, "thin-"+d470.tag()+"-"+kernel.Release, "--kernel", kernel.Release, "--builder", "chroot")
	making.Unlock()
	report := rehearsal(t, "", "", oci(thinFolder(t, kernel)), "--from", oci(old))
	assert.Equal(t, 15, len(report.Rows))
}

// Test32Rehearse: driver-build rehearse passes an image that nodes can run, with Secure Boot too, and names the
// reason for which they cannot run another one.
func Test32Rehearse(t *testing.T) {
	lab.Gate(t)
	t.Parallel()
	kernel := lab.Kernel(t, "debian12")
	image := oci(thinFolder(t, kernel))
	t.Run("passes", func(t *testing.T) {
		t.Parallel()
		report := rehearsal(t, "", "", image)
		assert.Equal(t, kernel.Release, report.Kernel)
		assert.Equal(t, 11, len(report.Rows))
		assert.Equal(t, true, report.Passed && len(report.Packages) > 2)
	})
	t.Run("unsigned", func(t *testing.T) {
		t.Parallel()
		rehearsal(t, "signatures", "Secure Boot is on .* the modules have no signature", image, "--secure-boot")
	})
	t.Run("modules of another kernel", func(t *testing.T) {
		t.Parallel()
		other := lab.OlderKernel(t, "debian12", 3) // the second may be the newest of a cache that is older
		rehearsal(t, "preflight", "modules-found: .* this node runs "+other.Release, image, "--kernel", other.Release)
	})
}

// Test32Refused: a kernel that is too new for the driver, a module that the kernel refuses, by values of the
// chart, and a certificate that makes the signatures good.
func Test32Refused(t *testing.T) {
	lab.Gate(t)
	t.Parallel()
	kernel := lab.Kernel(t, "debian12")
	image := oci(thinFolder(t, kernel))
	t.Run("a kernel that is too new", func(t *testing.T) {
		t.Parallel()
		making.Lock()
		dir := d470.layout(t)
		making.Unlock()
		rehearsal(t, "preflight", "kernel-limit: ", oci(dir), "--kernel", newestKernel(t))
	})
	t.Run("a refused module", func(t *testing.T) {
		t.Parallel()
		values := filepath.Join(t.TempDir(), "values.yaml")
		testfile.Write(t, values, "image: {repository: h.example/driver, tag: 535.261.03-debian12}\nmoduleParameters: {nvidia: {NVreg_EnableMSI: nonsense}}\n")
		rehearsal(t, "load", "(?s)nonsense.*invalid for parameter", image, "--values", values, "--chart", project+"/deploy/chart")
	})
	t.Run("signed", func(t *testing.T) {
		t.Parallel()
		site := newKey("The site's modules")
		dir := testfile.Tree(t, t.TempDir(), map[string]string{"key.pem": site.KeyPEM(), "cert.pem": site.CertPEM()})
		making.Lock()
		signed := thinLayout(t, "rehearsed", []*lab.HostKernel{kernel}, "--module-key", dir+"/key.pem", "--module-cert", dir+"/cert.pem")
		making.Unlock()
		rehearsal(t, "", "", oci(signed), "--secure-boot", "--module-cert", dir+"/cert.pem")
	})
}
