package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/driver-container/driver-container/images/bundle"
	"github.com/driver-container/driver-container/images/recipe"
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

// documents makes the manual pages, by the tests that know the commands, and asks driver-build for its
// completions. The tests are those of the module, from a module that only requires it, and with the flags of
// programs: so they are made of what was compiled for the programs.
func (m *maker) documents(ctx context.Context) error {
	for _, dir := range []string{manDir, completionsDir} {
		if err := os.Mkdir(filepath.Join(m.work, dir), 0o755); err != nil {
			return err
		}
	}
	goMod, err := os.ReadFile(filepath.Join(m.source.dir, "go.mod"))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(m.source.dir, "go.sum"))
	if err != nil {
		return err
	}
	require := "\nrequire " + modulePath + " " + m.source.module.Version + "\n"
	dir := filepath.Join(m.work, "pages")
	err = errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644),
		os.WriteFile(filepath.Join(dir, "go.mod"), append(bytes.Replace(goMod, []byte(modulePath), []byte("example.org/pages"), 1), require...), 0o644))
	if err != nil {
		return err
	}
	for cgo, names := range map[string][]string{"0": {"driver-build", recipe.EntrypointName, recipe.EvictName}, "1": {recipe.ProbeName}} {
		args := []string{"test", "-mod=mod", "-trimpath", "-tags=netgo,osusergo", "-vet=off", "-ldflags=-w", "-count=1", "-run=^TestManPages$"}
		for _, name := range names {
			args = append(args, modulePath+"/cmd/"+name)
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "DRIVER_MAN_DIR="+filepath.Join(m.work, manDir), "GOFLAGS=", "GOWORK=off", "GOGC=400", "CGO_ENABLED="+cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
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
	c, err := bundle.ReadChart(filepath.Join(m.source.dir, "deploy", "chart"))
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
	return os.WriteFile(filepath.Join(m.out, c.Name+"-"+c.Version+".tgz"), archive, 0o644)
}

// compress packs a manual page as packages have it.
func compress(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(raw); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
}
