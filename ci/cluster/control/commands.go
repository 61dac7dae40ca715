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
)

// commandLimit bounds every command; helm waits for a roll-out of its own accord, with limits of its own.
const commandLimit = 15 * time.Minute

// Kubeconfig is the path of this user's kubeconfig.
func (p *Plane) Kubeconfig() string { return p.config }

// Kubectl runs kubectl and returns what it prints to stdout. Its failure ends the test.
func (p *Plane) Kubectl(args ...string) string {
	p.t.Helper()
	return p.need(p.TryKubectl(args...))
}

// TryKubectl runs kubectl and returns what it prints to stdout; the error has what it prints to stderr.
func (p *Plane) TryKubectl(args ...string) (string, error) {
	p.t.Helper()
	return p.command("", "kubectl", args...)
}

// KubectlInput is TryKubectl with something on stdin, for `kubectl apply -f -` and the like.
func (p *Plane) KubectlInput(stdin string, args ...string) (string, error) {
	p.t.Helper()
	return p.command(stdin, "kubectl", args...)
}

// Helm runs helm and returns what it prints to stdout. Its failure ends the test.
func (p *Plane) Helm(args ...string) string {
	p.t.Helper()
	return p.need(p.TryHelm(args...))
}

// TryHelm runs helm and returns what it prints to stdout; the error has what it prints to stderr.
func (p *Plane) TryHelm(args ...string) (string, error) {
	p.t.Helper()
	return p.command("", "helm", args...)
}

// As is the same plane seen by another user, by impersonation: the API server decides as if that user were asking. For a
// service account: As("system:serviceaccount:NAMESPACE:NAME", "system:serviceaccounts", "system:serviceaccounts:NAMESPACE",
// "system:authenticated"), which ServiceAccount does.
func (p *Plane) As(user string, groups ...string) *Plane {
	p.t.Helper()
	home, err := os.MkdirTemp(p.dir, "user-") //nolint:usetesting // inside of the plane's folder, which goes with it
	must(p.t, err)
	other := *p
	other.home, other.config = home, filepath.Join(home, "kubeconfig")
	must(p.t, p.pki.kubeconfig(other.config, p.server, "admin", &identity{user, groups}))
	return &other
}

// ServiceAccount is the plane as a pod with this service account sees it.
func (p *Plane) ServiceAccount(namespace, name string) *Plane {
	p.t.Helper()
	return p.As("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated")
}

// With is the same plane for another test, such as a subtest: what fails, fails there.
func (p *Plane) With(t testing.TB) *Plane {
	other := *p
	other.t = t
	return &other
}

// Wait calls check until it returns nil, at most for limit; then the test ends with what was waited for and the last error.
func (p *Plane) Wait(limit time.Duration, what string, check func() error) {
	p.t.Helper()
	p.patience.Wait(p.t, limit, what, check)
}

func (p *Plane) need(out string, err error) string {
	p.t.Helper()
	must(p.t, err)
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

// environment keeps a command's caches and settings in a folder of its own, away from those of whoever runs the tests.
func environment(home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "KUBECACHEDIR=" + filepath.Join(home, "cache"),
		"KUBECTL_KUBERC=false", "HELM_NO_PLUGINS=1",
	}
}

// Helm runs the helm of Bin for what needs no cluster: lint, template, package. It returns stdout; the error has stderr.
func Helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	p := &Plane{t: t, bin: Bin(t), home: t.TempDir(), config: "/dev/null"}
	return p.TryHelm(args...)
}
