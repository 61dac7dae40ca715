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
	bases               map[string]string // base images by system, as --base takes them
	log                 io.Writer
}

// result is what the work folder keeps of a cell.
type result struct {
	Error    string `json:",omitempty"` // the first error of the compiler; "": it compiles
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
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// newest returns the kernel that --kernel latest means. It asks once; later commands name the kernel.
func (l *laboratory) newest(ctx context.Context, system string) (k kernel, err error) {
	d, err := distros.Lookup(system)
	if err != nil {
		return k, err
	}
	out, _, err := command(ctx, l.program, "kernels", "--os", system, "--matrix", l.matrixFile, "--base", l.bases[system], "-o", "json",
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
// name. Trouble with one cell does not stop the others, and the next run tries it again.
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
		if c.Result = kept[c.String()]; c.Result != nil || !strings.Contains(c.String(), only) {
			continue
		}
		begin := time.Now()
		r, err := l.compile(ctx, c)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fmt.Fprintf(l.log, "%2d of %d: %s: %.0f s: %+v %v\n", i+1, len(cells), c, time.Since(begin).Seconds(), r, err)
		if err == nil {
			r.Date = begin.UTC().Format(time.DateOnly)
			c.Result, kept[c.String()] = r, r
			if data, err = json.MarshalIndent(kept, "", "  "); err == nil {
				err = write(file, string(data)+"\n")
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c, err))
		}
	}
	return errors.Join(errs...)
}

// compile builds the image of a cell and deletes it. Companions are compiled against nvidia; driver-build makes
// no set without nvidia-uvm.
func (l *laboratory) compile(ctx context.Context, c *cell) (r *result, err error) {
	source, flags, err := l.source(ctx, c)
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
		"--allow-incompatible", "--no-fabric", "--builder", "chroot", "--base", l.bases[c.System], "--progress", "plain",
		"--output", "oci:" + filepath.Join(dir, "oci"),
	}, flags...)
	if c.Patches == "" {
		args = append(args, "--no-patches")
	}
	if c.Companion != nil {
		args = append(args, "--modules", "nvidia,nvidia-uvm", "--companions", c.Companion.Name)
	}
	_, log, failed := command(ctx, l.program, args...)
	if err := write(filepath.Join(l.work, "logs", strings.ReplaceAll(c.String(), " ", "_")+".log"), log); err != nil {
		return nil, err
	}
	if r, err = outcome(log, failed); err == nil {
		r.Source = source
	}
	return r, err
}
