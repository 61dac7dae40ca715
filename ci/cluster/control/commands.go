package control

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// commandLimit bounds every command; helm's waits for a roll-out have shorter limits of their own.
const commandLimit = 15 * time.Minute

// Kubeconfig returns the path of this user's kubeconfig.
func (p *Plane) Kubeconfig() string { return p.config }

// Kubectl runs kubectl and returns its stdout. If kubectl fails, the test ends.
func (p *Plane) Kubectl(args ...string) string {
	p.t.Helper()
	return p.need(p.TryKubectl(args...))
}

// TryKubectl runs kubectl and returns its stdout; the error has its stderr.
func (p *Plane) TryKubectl(args ...string) (string, error) {
	p.t.Helper()
	return p.command("", "kubectl", args...)
}

// KubectlInput is TryKubectl with data on stdin, for `kubectl apply -f -` and the like.
func (p *Plane) KubectlInput(stdin string, args ...string) (string, error) {
	p.t.Helper()
	return p.command(stdin, "kubectl", args...)
}

// Helm runs helm and returns its stdout. If helm fails, the test ends.
func (p *Plane) Helm(args ...string) string {
	p.t.Helper()
	return p.need(p.TryHelm(args...))
}

// TryHelm runs helm and returns its stdout; the error has its stderr.
func (p *Plane) TryHelm(args ...string) (string, error) {
	p.t.Helper()
	return p.command("", "helm", args...)
}

// As returns the same plane with another user, by impersonation: the API server decides as if that user sent
// the requests. For a service account: As("system:serviceaccount:NAMESPACE:NAME", "system:serviceaccounts",
// "system:serviceaccounts:NAMESPACE", "system:authenticated"), which ServiceAccount does.
func (p *Plane) As(user string, groups ...string) *Plane {
	p.t.Helper()
	home, err := os.MkdirTemp(p.dir, "user-") //nolint:usetesting // inside the plane's folder, which is removed with the plane
	require.NoError(p.t, err)
	other := *p
	other.home, other.config = home, filepath.Join(home, "kubeconfig")
	require.NoError(p.t, p.pki.kubeconfig(other.config, p.server, "admin", &identity{user, groups}))
	return &other
}

// ServiceAccount returns the plane as a pod with this service account uses it.
func (p *Plane) ServiceAccount(namespace, name string) *Plane {
	p.t.Helper()
	return p.As("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated")
}

// With returns the same plane for another test, such as a subtest: failures are reported to that test.
func (p *Plane) With(t testing.TB) *Plane {
	other := *p
	other.t = t
	return &other
}

// Wait calls check until it returns nil, at most for limit. Then the test fails with the description of the
// condition and the last error.
func (p *Plane) Wait(limit time.Duration, what string, check func() error) {
	p.t.Helper()
	p.patience.Wait(p.t, limit, what, check)
}

func (p *Plane) need(out string, err error) string {
	p.t.Helper()
	require.NoError(p.t, err)
	return out
}

func (p *Plane) command(stdin, name string, args ...string) (string, error) {
	p.t.Helper()
	return Command{Program: filepath.Join(p.bin, name), Home: p.home, Kubeconfig: p.config}.Run(p.t.Context(), stdin, args...)
}

// Command is kubectl or helm with a folder for its caches and the kubeconfig of a user.
type Command struct{ Program, Home, Kubeconfig string }

// Run returns what it prints to stdout; the error has what it prints to stderr.
func (c Command) Run(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Program, args...)
	cmd.Env = append(environment(c.Home), "KUBECONFIG="+c.Kubeconfig)
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(c.Program), strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// environment keeps a command's caches and settings in a folder of its own, separate from those of the user
// who runs the tests.
func environment(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "KUBECACHEDIR=" + filepath.Join(home, "cache"),
		"KUBECTL_KUBERC=false", "HELM_NO_PLUGINS=1",
	}
}

// Helm runs the helm of Bin for commands that need no cluster: lint, template, package. It returns stdout;
// the error has stderr.
func Helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	p := &Plane{t: t, bin: Bin(t), home: t.TempDir(), config: "/dev/null"}
	return p.TryHelm(args...)
}
