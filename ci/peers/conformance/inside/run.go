package inside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Options say what to examine. All paths are those of the calling process.
type Options struct {
	Consumer string // a small system with the programs, made by package conformance
	Root     string // the driver root
	Dev      string // folder with the driver's device nodes, usually /dev
	Version  string // driver version that the root should have
}

// Run enters the world and runs every program. The calling process must do nothing else afterwards, and must
// be the first process of a mount and pid namespace of its own. An error means that the programs could not be
// run; what they report, and that they fail, is in the report.
func Run(ctx context.Context, o Options) (Report, error) {
	r := Report{Root: o.Root, Version: o.Version, DevRoot: "/"}
	if err := world(o.Consumer, o.Root, o.Dev); err != nil {
		return r, fmt.Errorf("prepare a private world for the consumers of %s: %w", o.Root, err)
	}
	r.Loaded = loaded()
	// Validator, device plugin and DRA driver share this rule.
	if info, err := os.Stat(filepath.Join(driverRoot, "dev")); err == nil && info.IsDir() {
		r.DevRoot = driverRoot
	}
	s := session{&r}
	s.validator(ctx)
	s.prestart(ctx)
	s.administrator(ctx)
	s.specifications(ctx)
	return r, nil
}

// session is one examination of one root.
type session struct{ *Report }

// start runs a program with the environment of a root shell, and more variables. Its deadline is long enough
// for an emulated machine.
func (s session) start(ctx context.Context, name string, env []string, command ...string) (c Client, stdout, stderr []byte) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c = Client{Name: name}
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}, env...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &log, time.Second
	err := cmd.Run()
	c.Code = cmd.ProcessState.ExitCode() // -1 for nil: it never started
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.Code = -1
		c.problem("%v", err)
	}
	return c, out.Bytes(), log.Bytes()
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
