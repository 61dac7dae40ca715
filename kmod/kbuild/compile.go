package kbuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

const (
	// below Job.Work: everything that a compile writes, except the log
	scratch        = "driver-modules"
	scratchSource  = "source"
	scratchModules = "modules"
	scratchTemp    = "tmp"
)

// CompileError says that make or strip failed.
type CompileError struct {
	Driver, Release string
	Jobs            int
	Tail            []string // the last 40 lines of the output
	Errors          []string // the first lines of the output that report an error; may be empty
	Log             string   // the file with the whole output
	Killed          bool     // the kernel killed a compiler for lack of memory
	// how the command ended; wraps unix.ENOSPC when the disk was full
	Err error `json:"-"`
}

func (e *CompileError) Error() string {
	text := fmt.Sprintf("compile driver %s for kernel %s: %v", e.Driver, e.Release, e.Err)
	hint := "does this driver support this kernel and compiler?"
	if len(e.Errors) > 0 {
		text += ": " + e.Errors[0]
	}
	switch {
	case e.Killed && e.Jobs > 1:
		hint = fmt.Sprintf("out of memory with %d jobs: raise the container's memory limit or allow fewer jobs;", e.Jobs)
	case e.Killed:
		hint = "out of memory: raise the container's memory limit above 1 GiB;"
	case errors.Is(e.Err, unix.ENOSPC):
		hint = "free some space there;"
	}
	return text + "; " + hint + " whole output in " + e.Log
}

func (e *CompileError) Unwrap() error { return e.Err }

// compile is a job at work.
type compile struct {
	Job
	dir        string    // the scratch folder
	root       *os.Root  // the same
	transcript io.Writer // the file Job.Log
	names      []string  // of the modules, without companions
	total      int       // steps
}

// Compile compiles the job's modules and returns the set. The set stays in Job.Work until the next
// Compile there: put it into a Cache. Errors: ctx's cause within 2 s of its end, with no process
// left; *CompileError; ErrBusy when another compile uses Job.Work; sources that cannot give the
// modules; file errors. After a failure only the log is left.
func Compile(ctx context.Context, j Job) (_ *Set, err error) {
	names, err := j.check()
	if err != nil {
		return nil, err
	}
	dir, unlock, err := prepare(j.Work)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer func() {
		toRemove := []string{scratchSource, scratchCompanions, scratchTemp}
		if err != nil {
			toRemove = append(toRemove, scratchModules)
		}
		removed := removeAll(dir, toRemove)
		if removed != nil {
			err = errors.Join(err, fmt.Errorf("clean up after the compile: %w", removed))
		}
	}()
	log, err := os.Create(j.Log)
	if err != nil {
		return nil, fmt.Errorf("open the log of the compile: %w", err)
	}
	defer log.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Never by hard links: make writes through some names (a rule with ">" does), and a write
	// through a hard link would change the image's own sources for good.
	err = buildtree.CopyTree(ctx, j.Source, root, scratchSource)
	if err != nil {
		return nil, fmt.Errorf("copy the driver's sources from %s to %s: %w", j.Source, dir, err)
	}
	c := &compile{
		Job:        j,
		dir:        dir,
		root:       root,
		transcript: &limitedWriter{w: log, left: maxLog},
		names:      names,
		total:      steps(j.Source, names),
	}
	return c.build(ctx)
}

// build runs make, and returns the modules that it has made.
func (c *compile) build(ctx context.Context) (*Set, error) {
	err := c.run(ctx, command{
		name:     "make",
		program:  "make",
		folder:   scratchSource,
		args:     c.arguments(),
		progress: true,
	})
	if err != nil {
		return nil, err
	}
	set, err := c.collect(ctx)
	if err != nil {
		return nil, err
	}
	err = c.addCompanions(ctx, set)
	if err != nil {
		return nil, err
	}
	c.report(c.total, "done")
	return set, nil
}

// removeAll removes what some names in a folder lead to.
func removeAll(dir string, names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	return err
}

// report says how far the compile is, if that is known.
func (c *compile) report(done int, what string) {
	if c.Progress != nil && c.total > 0 {
		c.Progress(done, c.total, what)
	}
}

// ErrBusy says that another compile uses the same scratch folder.
var ErrBusy = errors.New("another compile is at work there")

// prepare creates an empty scratch folder and locks it. The lock ends with the process, also when
// that is killed.
func prepare(work string) (dir string, unlock func(), err error) {
	dir = filepath.Join(work, scratch)
	made := os.Mkdir(dir, 0o755) // its error matters only if the folder cannot be opened
	lock, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("prepare the scratch folder: %w", errors.Join(made, err))
	}
	unlock = func() {
		// a child between fork and exec has the descriptor too
		_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
		lock.Close()
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrBusy
	}
	if err != nil {
		unlock()
		return "", nil, fmt.Errorf("prepare the scratch folder %s: %w", dir, err)
	}
	err = errors.Join(
		removeAll(dir, []string{scratchSource, scratchCompanions, scratchModules, scratchTemp}),
		os.Mkdir(filepath.Join(dir, scratchModules), 0o755),
		os.Mkdir(filepath.Join(dir, scratchTemp), 0o755),
	)
	if err != nil {
		unlock()
		return "", nil, fmt.Errorf("prepare the scratch folder %s: %w", dir, err)
	}
	return dir, unlock, nil
}

// command is one program of a compile.
type command struct {
	name      string // for people: "make", "strip of nvidia.ko"
	program   string // its path, or a name in the search path
	folder    string // to run in, below the scratch folder
	args, env []string
	prefixMap string    // see environment
	also      io.Writer // gets the output too; may be nil
	progress  bool      // the output says how far the compile is
}

// run runs a program of the compile, whose output goes to the log. It fails also if the kernel
// killed a part of it that the program does not miss.
func (c *compile) run(ctx context.Context, what command) (err error) {
	if !filepath.IsAbs(what.program) {
		what.program, err = find(what.program, c.searchPath())
		if err != nil {
			return fmt.Errorf("compile driver %s: %w", c.Driver, err)
		}
	}
	out := &output{log: c.transcript, total: c.total}
	if what.also != nil {
		out.log = io.MultiWriter(what.also, c.transcript)
	}
	if what.progress {
		out.progress = c.Progress
	}
	cmd := exec.Command(what.program, what.args...)
	cmd.Env = append(c.environment(what.prefixMap), what.env...)
	cmd.Dir = filepath.Join(c.dir, what.folder)
	cmd.Stdout = out
	cmd.Stderr = out
	before := c.Limits.oomKills()
	err = runGroup(ctx, cmd)
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("compile driver %s for kernel %s: stopped: %w", c.Driver, c.Headers.Release, cause)
	}
	out.close()
	if after := c.Limits.oomKills(); after > before && before >= 0 {
		out.killed = true
		if err == nil {
			err = fmt.Errorf("the kernel killed %d of its programs for want of memory", after-before)
		}
	}
	if err == nil {
		return nil
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	failed := &CompileError{
		Driver: c.Driver, Release: c.Headers.Release, Jobs: max(c.Jobs, 1), Tail: out.tail, Errors: out.errors, Log: c.Log,
		Killed: out.killed || ok && strings.Contains(exit.String(), "signal: killed"), Err: fmt.Errorf("%s failed: %w", what.name, err),
	}
	if out.noSpace {
		failed.Err = fmt.Errorf("%w: %s: %w", failed.Err, c.Work, unix.ENOSPC)
	}
	return failed
}
