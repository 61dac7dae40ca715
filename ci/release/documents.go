package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/bundle"
)

// The folders of manual pages and completions below the work folder, by their names in archives.
const (
	manDir         = "man"
	completionsDir = "completions"
)

// completions are the files of completions by shell: in an archive, and in a package.
var completions = []struct{ shell, file, installed string }{
	{"bash", "driver-build.bash", "usr/share/bash-completion/completions/driver-build"},
	{"zsh", "_driver-build", "usr/share/zsh/vendor-completions/_driver-build"},
	{"fish", "driver-build.fish", "usr/share/fish/vendor_completions.d/driver-build.fish"},
}

// documents makes the manual pages, by the tests that know the commands, and asks driver-build for
// its completions.
func (m *maker) documents(ctx context.Context) error {
	if err := errors.Join(os.Mkdir(filepath.Join(m.work, manDir), 0o755), os.Mkdir(filepath.Join(m.work, completionsDir), 0o755)); err != nil {
		return err
	}
	env := []string{"DRIVER_MAN_DIR=" + filepath.Join(m.work, manDir), "GOFLAGS=", "GOWORK=off"}
	if _, err := tool.Run(ctx, m.source.dir, env, "go", "test", "-trimpath", "-tags=netgo,osusergo", "-vet=off", "-count=1", "-run=^TestManPages$", "./cmd/..."); err != nil {
		return err
	}
	for _, c := range completions {
		text, err := output(ctx, m.work, m.ownDriverBuild(), "completion", c.shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(m.work, completionsDir, c.file), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manPages are the files of the pages.
func (m *maker) manPages() ([]string, error) {
	all, err := filepath.Glob(filepath.Join(m.work, manDir, "*.1"))
	if err == nil && len(all) < 4 { // one a program, at least
		err = fmt.Errorf("there are %d manual pages", len(all))
	}
	return all, err
}

// chart packs the chart as driver-build packs it into bundles.
func (m *maker) chart(context.Context) error {
	c, err := bundle.ReadChart("", filepath.Join(m.source.dir, "deploy", "chart"))
	if err != nil {
		return err
	}
	r, err := c.Content.Blobs[0].Open() // the archive; the config follows
	if err != nil {
		return err
	}
	archive, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	return os.WriteFile(
		filepath.Join(m.out, strings.ReplaceAll(c.Title, " ", "-")+".tgz"),
		archive,
		0o644,
	)
}
