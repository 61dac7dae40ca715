// Command release makes the files of a release from the commit that is checked out: archives,
// packages, an image of driver-build, the chart, manual pages, completions, an SBOM and checksums.
// The same commit gives the same bytes in any folder, with the same Go and the same C compiler.
//
// All programs are made as `go install` makes them, of the module that this commit is, so that
// everybody can make them again. Nothing is signed and nothing is published.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	root := flag.String("C", ".", "checkout of the commit")
	out := flag.String("out", "dist/release", "folder for the files; what was in it goes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := release(ctx, *root, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// maker makes the files in a work folder, from where they are moved when all of them are there.
type maker struct {
	source source
	work   string // temporary
	out    string // in work
	nfpm   string // the folder of nfpm's module, which is not in the commit's
	files  []program
	began  time.Time
}

func release(ctx context.Context, root, out string) (err error) {
	out, err = filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(out), ".release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	m := &maker{
		began: time.Now(), work: work, out: filepath.Join(work, "out"),
		nfpm: filepath.Join(root, "ci", "release", "nfpm"),
	}
	if err := os.Mkdir(m.out, 0o755); err != nil {
		return err
	}
	m.source, err = readSource(ctx, root, work)
	if err != nil {
		return fmt.Errorf("the module: %w", err)
	}
	m.say("%s of commit %s", m.source.module.Version, m.source.commit)
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"programs", m.programs},
		{"manual pages and completions", m.documents},
		{"archives", m.archives},
		{"deb and rpm", m.packages},
		{"image", m.image}, {"chart", m.chart}, {"SBOM", m.sbom}, {"checksums", m.checksums},
	} {
		m.say("%s", step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	if err := errors.Join(os.RemoveAll(out), os.Rename(m.out, out)); err != nil {
		return err
	}
	m.say("done, in %s", out)
	return nil
}

// say tells how far the release is.
func (m *maker) say(format string, args ...any) {
	fmt.Fprintf(
		os.Stderr,
		"release: %6s  %s\n",
		time.Since(m.began).Round(time.Second),
		fmt.Sprintf(format, args...),
	)
}
