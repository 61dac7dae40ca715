package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/images/matrix"
)

// laboratory holds what the compiles of all cells share.
type laboratory struct {
	program, matrixFile, work, builder, only string

	matrix   *matrix.Matrix
	bases    map[string]string  // by system, as --base takes it
	archives map[string]archive // by driver
	say      func(format string, a ...any)
}

// output is what a command printed.
type output struct{ stdout, stderr string }

// limit is the deadline of one command: a compile takes minutes, on a busy machine many of them.
const limit = time.Hour

func command(ctx context.Context, name string, args ...string) (output, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return output{stdout.String(), stderr.String()}, err
}

func (l *laboratory) driverBuild(ctx context.Context, args ...string) (output, error) {
	return command(ctx, l.program, args...)
}

// base makes a base image of a system, once.
func (l *laboratory) base(ctx context.Context, system string) (string, error) {
	if b := l.bases[system]; b != "" {
		return b, nil
	}
	out, err := command(ctx, "ci/base", system, arch)
	if err != nil {
		return "", fmt.Errorf("base of %s: %w: %s", system, err, out.stderr)
	}
	if l.bases == nil {
		l.bases = map[string]string{}
	}
	l.bases[system] = lastLine(out.stdout)
	return l.bases[system], nil
}

// fill sets the result of every cell: from an earlier run, or else by compiling. Trouble with one cell does
// not stop the others.
func (l *laboratory) fill(ctx context.Context, cells []*cell, compile bool) error {
	var errs []error
	for i, c := range cells {
		if err := l.load(c); err != nil {
			return err
		}
		known := c.Result != nil && c.Result.Outcome != trouble
		if known || !compile || !strings.Contains(c.String(), l.only) {
			continue
		}
		r, err := l.try(ctx, c)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		c.Result = r
		l.say("%2d of %d: %s: %s in %d s: %s", i+1, len(cells), c, r.Outcome, r.Seconds, r.Error)
		if r.Outcome == trouble {
			errs = append(errs, fmt.Errorf("%s: %s", c, r.Error))
		}
		if err := l.save(c); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// try compiles all modules. If a module fails that compute nodes do not load, try compiles nvidia and
// nvidia-uvm alone as well.
func (l *laboratory) try(ctx context.Context, c *cell) (*result, error) {
	begin := time.Now()
	flags, source, err := l.source(ctx, c)
	if err != nil {
		return nil, err
	}
	modules := ""
	if c.Companion != nil {
		modules = "nvidia,nvidia-uvm" // companions are compiled against nvidia; driver-build makes no set without both
	}
	r, err := l.compile(ctx, c, flags, modules)
	if err != nil {
		return nil, err
	}
	if r.Outcome == fails && c.Companion == nil && !essential(r.Error) {
		again, err := l.compile(ctx, c, flags, "nvidia,nvidia-uvm")
		if err != nil {
			return nil, err
		}
		r.Compute = again.Outcome
		if again.Outcome == fails {
			r.Error = again.Error
		}
	}
	r.Source, r.Date, r.Seconds = source, begin.UTC().Format(time.DateOnly), int(time.Since(begin).Seconds())
	return r, nil
}

// compile builds the image of a cell and deletes it.
func (l *laboratory) compile(ctx context.Context, c *cell, flags []string, modules string) (r *result, err error) {
	base, err := l.base(ctx, c.System)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.work, "image-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := append([]string{
		"--os", c.System, "--driver", c.Driver.version, "--kernel", c.Kernel.Release, "--flavour", c.Flavour, "--allow-incompatible", "--no-fabric",
		"--builder", l.builder, "--base", base, "--profile", matrix.ProfileCompute, "--progress", "plain", "--output", "oci:" + filepath.Join(dir, "oci"),
	}, flags...)
	if c.Patches == "" {
		args = append(args, "--no-patches")
	}
	if modules != "" {
		args = append(args, "--modules", modules)
	}
	if c.Companion != nil {
		args = append(args, "--companions", c.Companion.Name)
	}
	out, err := l.driverBuild(ctx, args...)
	log := filepath.Join(l.work, "logs", filepath.Base(strings.TrimSuffix(l.file(c), ".json"))+".log")
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o755), write(log, out.stderr)); err != nil {
		return nil, err
	}
	r = &result{Outcome: compiles, Compiler: compilerOf(out.stderr)}
	if err == nil {
		if message, ok := leftOut(out.stderr); ok {
			r.Outcome, r.Error = fails, message
		}
		return r, nil
	}
	if message, ok := compileError(out.stderr); ok {
		r.Outcome, r.Error = fails, message
		return r, nil
	}
	r.Outcome, r.Error = trouble, fmt.Sprintf("%v: %s", err, lastLine(out.stderr))
	return r, nil
}

// source decides where the sources come from: Debian's packages if the matrix has them for the system, as for
// a user of the product; else an archive made from those packages. The matrix of a cell with a companion has
// this companion alone, for every driver. flags are flags of driver-build.
func (l *laboratory) source(ctx context.Context, c *cell) (flags []string, source string, err error) {
	at := slices.IndexFunc(l.matrix.Drivers, func(d matrix.Driver) bool { return d.Version == c.Driver.version })
	if at < 0 {
		return nil, "", fmt.Errorf("%s has no driver %s", l.matrixFile, c.Driver.version)
	}
	if _, _, ok := l.matrix.Drivers[at].Debian.Wants(c.System, arch); ok && c.Companion == nil {
		return []string{"--matrix", l.matrixFile}, "packages", nil
	}
	if c.System == c.Driver.home {
		file, err := l.minimalMatrix(c.Driver)
		if err == nil {
			file, err = l.companionMatrix(c, file)
		}
		return []string{"--matrix", file}, "packages", err
	}
	a, err := l.archive(ctx, c.Driver)
	if err == nil {
		a.matrix, err = l.companionMatrix(c, a.matrix)
	}
	return []string{"--matrix", a.matrix, "--source", a.file}, "archive", err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
