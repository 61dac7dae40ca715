package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
)

// laboratory holds what the compiles of all cells share.
type laboratory struct {
	program, matrixFile string
	work                string // folder for results, logs and archives, kept between runs
	matrix              *matrix.Matrix
	bases               map[string]string // by system, as --base takes it
	log                 io.Writer
}

// The outcomes of a cell. Trouble is any failure except a compiler error: it proves nothing about the driver,
// and the next run tries again.
const (
	compiles = "compiles"
	fails    = "fails"
	trouble  = "trouble"
)

// result is what the work folder keeps of a cell.
type result struct {
	Outcome  string
	Error    string `json:",omitempty"` // the first error of the compiler, or a description of the trouble
	Compute  string `json:",omitempty"` // outcome for nvidia and nvidia-uvm alone, if another module failed
	Compiler string `json:",omitempty"` // "gcc 12.2.0"; "" when the modules were in driver-build's cache
	Source   string // where the sources are from: packages or archive
	Date     string // "2026-11-21"
}

// command returns what a program printed. A compile takes minutes, on a busy machine many of them.
func command(ctx context.Context, name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%w: %s", cmp.Or(context.Cause(ctx), err), lastLine(log.String()))
	}
	return out.String(), log.String(), err
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// base makes a base image of a system, once.
func (l *laboratory) base(ctx context.Context, system string) (string, error) {
	if b := l.bases[system]; b != "" {
		return b, nil
	}
	out, _, err := command(ctx, "ci/base", system, arch)
	if l.bases == nil {
		l.bases = map[string]string{}
	}
	l.bases[system] = lastLine(out)
	return l.bases[system], err
}

// newest returns the kernel that --kernel latest means. It asks once; later commands name the kernel.
func (l *laboratory) newest(ctx context.Context, system string) (k kernel, err error) {
	d, err := distros.Lookup(system)
	if err != nil {
		return k, err
	}
	base, err := l.base(ctx, system)
	if err != nil {
		return k, err
	}
	out, _, err := command(ctx, l.program, "kernels", "--os", system, "--matrix", l.matrixFile, "--base", base, "-o", "json",
		"--progress", "quiet")
	if err != nil {
		return k, err
	}
	var offered struct{ Items []kernel }
	if err := json.Unmarshal([]byte(out), &offered); err != nil {
		return k, err
	}
	for _, k := range offered.Items {
		if k.Default && k.Flavour == d.KernelFlavour(arch) {
			return k, nil
		}
	}
	return k, errors.New("driver-build kernels lists no kernel that the system installs")
}

// fill sets the result of every cell: from an earlier run, or else by compiling those with a word in their
// name. Trouble with one cell does not stop the others.
func (l *laboratory) fill(ctx context.Context, cells []*cell, only string) error {
	kept, file := map[string]*result{}, filepath.Join(l.work, "results.json")
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w; delete it", file, err)
	}
	var errs []error
	for i, c := range cells {
		c.Result = kept[c.String()]
		if c.Result != nil && c.Result.Outcome != trouble || !strings.Contains(c.String(), only) {
			continue
		}
		begin := time.Now()
		if c.Result, err = l.try(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c, errors.Join(context.Cause(ctx), err))
		}
		c.Result.Date = begin.UTC().Format(time.DateOnly)
		fmt.Fprintf(l.log, "%2d of %d: %s: %s in %.0f s: %s\n", i+1, len(cells), c, c.Result.Outcome, time.Since(begin).Seconds(), c.Result.Error)
		if c.Result.Outcome == trouble {
			errs = append(errs, fmt.Errorf("%s: %s", c, c.Result.Error))
		}
		kept[c.String()] = c.Result
		if data, err = json.MarshalIndent(kept, "", "  "); err == nil {
			err = write(file, string(data)+"\n")
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// try compiles all modules. If a module fails that compute nodes do not load, try compiles nvidia and
// nvidia-uvm alone as well. Companions are compiled against nvidia; driver-build makes no set without both.
func (l *laboratory) try(ctx context.Context, c *cell) (*result, error) {
	const compute = "nvidia,nvidia-uvm"
	source, flags, err := l.source(ctx, c)
	if err != nil {
		return nil, err
	}
	if c.Companion != nil {
		flags = append(flags, "--modules", compute, "--companions", c.Companion.Name)
	}
	r, err := l.compile(ctx, c, flags)
	if err == nil && r.Outcome == fails && c.Companion == nil && !essential(r.Error) {
		var again *result
		if again, err = l.compile(ctx, c, append(flags, "--modules", compute)); err == nil {
			r.Compute, r.Error = again.Outcome, cmp.Or(again.Error, r.Error)
		}
	}
	if err == nil {
		r.Source = source
	}
	return r, err
}

// compile builds the image of a cell and deletes it.
func (l *laboratory) compile(ctx context.Context, c *cell, flags []string) (r *result, err error) {
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
		"--os", c.System, "--driver", c.Driver.version, "--kernel", c.Kernel.Release, "--flavour", c.Flavour, "--profile", matrix.ProfileCompute,
		"--allow-incompatible", "--no-fabric", "--builder", "chroot", "--base", base, "--progress", "plain",
		"--output", "oci:" + filepath.Join(dir, "oci"),
	}, flags...)
	if c.Patches == "" {
		args = append(args, "--no-patches")
	}
	_, log, failed := command(ctx, l.program, args...)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r = outcome(log, failed)
	return r, write(filepath.Join(l.work, "logs", strings.ReplaceAll(c.String(), " ", "_")+".log"), log)
}
