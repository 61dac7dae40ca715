package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
)

// laboratory holds what the compiles of all cells share.
type laboratory struct {
	program, matrixFile string
	work                string // folder for matrices and archives, kept between runs
	matrix              *matrix.Matrix
	bases               map[string]string // base images by system, as --base takes them
	log                 io.Writer
}

// command returns what a program printed. A compile takes minutes, on a busy machine many of them.
func command(ctx context.Context, name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	var out, log bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &log
	err = cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", cmp.Or(context.Cause(ctx), err), lastLine(log.String()))
	}
	return out.String(), log.String(), err
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// newest returns the kernel that --kernel latest means. It asks once; later commands name the
// kernel.
func (l *laboratory) newest(ctx context.Context, system string) (k kernel, err error) {
	d, err := distros.Lookup(system)
	if err != nil {
		return k, err
	}
	out, _, err := command(
		ctx,
		l.program,
		"kernels",
		"--os",
		system,
		"--matrix",
		l.matrixFile,
		"--base",
		l.bases[system],
		"-o",
		"json",
		"--progress",
		"quiet",
	)
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

// fill compiles the cells without a result that have a word in their name, and calls done after
// each. Trouble with one cell does not stop the others, and the next run tries it again.
func (l *laboratory) fill(
	ctx context.Context,
	cells []*cell,
	only string,
	done func() error,
) error {
	var errs []error
	for i, c := range cells {
		if c.Result != nil || !strings.Contains(c.String(), only) {
			continue
		}
		begin := time.Now()
		compiler, err := l.compile(ctx, c)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fmt.Fprintf(
			l.log,
			"%2d of %d: %s: %.0f s: %+v %v\n",
			i+1,
			len(cells),
			c,
			time.Since(begin).Seconds(),
			c.Result,
			err,
		)
		for _, other := range cells {
			if other.System == c.System && compiler != "" {
				other.Kernel.Compiler = compiler
			}
		}
		err = errors.Join(err, done())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c, err))
		}
	}
	return errors.Join(errs...)
}

// compile builds the image of a cell, deletes it, and sets the cell's result.
func (l *laboratory) compile(ctx context.Context, c *cell) (compiler string, err error) {
	source, flags, err := l.source(ctx, c)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(l.work, "image-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	args := append([]string{
		"--os", c.System, "--driver", c.Driver.version, "--kernel", c.Kernel.Release, "--flavour", c.Flavour, "--profile", "compute",
		"--allow-incompatible", "--no-fabric", "--builder", "chroot", "--base", l.bases[c.System], "--progress", "plain",
		"--output", "oci:" + filepath.Join(dir, "oci"),
	}, flags...)
	if c.Patches == "" {
		args = append(args, "--no-patches")
	}
	_, log, failed := command(ctx, l.program, args...)
	compiler, problem, err := outcome(log, failed)
	if err != nil {
		return compiler, err
	}
	c.Result = &result{Error: problem, Source: source}
	return compiler, nil
}

var (
	// failure matches the entrypoint's message when make or strip fails; see kbuild.CompileError.
	failure = regexp.MustCompile(`compile driver \S+ for kernel \S+: (?:make|strip) failed: ` +
		`(?:exit status \d+|signal: \w+)(?:: (.*?))?; does this driver support this kernel`)
	// compiling matches the entrypoint's message when a compile begins.
	compiling = regexp.MustCompile(`compiling driver=.* compiler="(\S+ \d[^\s"]*)" jobs=`)
	// places matches folders that do not matter to readers: the scratch folder, and the two folders
	// of the kernel headers.
	places = regexp.MustCompile(`/\S*?/driver-modules/source/|/usr/src/linux-headers-[^/\s]+/`)
)

// outcome judges what driver-build said and how it ended: with which compiler it compiled, "" when
// the modules were in driver-build's cache, and the compiler's first error. The error is what
// failed for another reason: memory, disk, network, packages. It proves nothing about the driver.
func outcome(log string, failed error) (compiler, problem string, _ error) {
	if m := compiling.FindStringSubmatch(log); m != nil {
		compiler = m[1]
	}
	all := failure.FindAllStringSubmatch(log, -1)
	if failed == nil || len(all) == 0 {
		return compiler, "", failed
	}
	problem = strings.TrimSpace(places.ReplaceAllString(all[len(all)-1][1], ""))
	return compiler, cmp.Or(problem, "make says no reason"), nil
}
