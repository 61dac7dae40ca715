package inside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Options say what to examine. All paths are those of the calling process.
type Options struct {
	Consumer string // a small system with the programs, made by package conformance
	Root     string // the driver root
	Dev      string // folder with the driver's device nodes, usually /dev
	Version  string // driver version that the root should have
	HostDev  bool   // device nodes are on the host's /dev, so the root may have no dev (for the project's linter)
}

// Run enters the world and runs every program. The calling process must do nothing else afterwards, and must
// be the first process of a mount and pid namespace of its own. An error means that the programs could not be
// run; what they report, and that they fail, is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	r := Report{Root: o.Root, Version: o.Version, DevRoot: "/", Lint: append([]string{}, Lint(o.Root, o.Version, o.HostDev)...)}
	if err := world(o.Consumer, o.Root, o.Dev); err != nil {
		return r, fmt.Errorf("prepare a private world for the consumers of %s: %w", o.Root, err)
	}
	r.Loaded = loaded()
	// Validator, device plugin and DRA driver share this rule.
	if info, err := os.Stat(filepath.Join(driverRoot, "dev")); err == nil && info.IsDir() {
		r.DevRoot = driverRoot
	}
	want, err := Expect(driverRoot, o.Version)
	if err != nil {
		return r, err
	}
	s := session{Report: &r, want: want}
	s.validator(ctx)
	s.prestart(ctx)
	s.administrator(ctx)
	s.specifications(ctx)
	return r, nil
}

// session is one examination of one root.
type session struct {
	*Report
	want Inventory
}

// loaded returns the version of the module, from a line such as "NVRM version: NVIDIA UNIX x86_64 Kernel
// Module  535.261.03  ...".
func loaded() string {
	text, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	for word := range strings.FieldsSeq(string(text)) {
		if len(word) > 5 && word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return word
		}
	}
	return "unknown"
}

// start runs a program with the environment of a root shell, and more variables.
func (s session) start(ctx context.Context, name string, env []string, command ...string) (Client, []byte, []byte) {
	return s.execute(ctx, name, append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}, env...), command...)
}

// execute runs a program with an environment, with a deadline for programs that hang. It is long enough for
// an emulated machine.
func (s session) execute(ctx context.Context, name string, env []string, command ...string) (Client, []byte, []byte) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c := Client{Name: name, Command: command}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
	begin := time.Now()
	err := cmd.Run()
	c.Millis = time.Since(begin).Milliseconds()
	c.Code = cmd.ProcessState.ExitCode() // -1 for nil: it never started
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.Code = -1
		c.problem("%v", err)
	}
	c.Warnings = Warnings(stderr.Bytes())
	return c, stdout.Bytes(), stderr.Bytes()
}

// end records a client, with the end of its output when it has problems.
func (s session) end(c Client, output ...[]byte) {
	if len(c.Problems) > 0 {
		c.Output = string(tail(bytes.Join(output, []byte("\n"))))
	}
	s.Clients = append(s.Clients, c)
}

func tail(b []byte) []byte {
	const most = 4 << 10
	b = bytes.TrimSpace(b)
	return b[max(0, len(b)-most):]
}
