package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"

	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/version"
)

const modulePath = "github.com/driver-container/driver-container"

// source is the commit as a Go module.
type source struct {
	module programs.Module
	commit string
	time   time.Time // of the commit: that of all files
	dir    string    // the module's files
}

// bare is the version as packages and the chart write it.
func (s source) bare() string { return strings.TrimPrefix(s.module.Version, "v") }

// readSource makes the module of the commit that is checked out at root, as Go's proxies make it of
// the tag, and a proxy in the folder work that has it. Every Go tool that this process starts asks
// that proxy first.
func readSource(ctx context.Context, root, work string) (s source, err error) {
	s.commit, err = output(ctx, root, "git", "rev-parse", "HEAD")
	if err != nil {
		return s, err
	}
	seconds, err := output(ctx, root, "git", "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return s, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return s, err
	}
	s.time = time.Unix(n, 0).UTC()
	s.module.Path = modulePath
	s.module.Version, err = tagged(ctx, root, s.commit)
	if err != nil {
		return s, err
	}
	dir := filepath.Join(work, "proxy", modulePath, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return s, err
	}
	archive := filepath.Join(dir, s.module.Version+".zip")
	if err := zipModule(ctx, root, s, work, archive); err != nil {
		return s, err
	}
	s.module.Sum, err = dirhash.HashZip(archive, dirhash.Hash1)
	if err != nil {
		return s, err
	}
	s.dir = filepath.Join(work, "module")
	if err := zip.Unzip(s.dir, module.Version{Path: modulePath, Version: s.module.Version}, archive); err != nil {
		return s, err
	}
	goMod, err := os.ReadFile(filepath.Join(s.dir, "go.mod"))
	if err != nil {
		return s, err
	}
	info := fmt.Sprintf(`{"Version":%q,"Time":%q}`, s.module.Version, s.time.Format(time.RFC3339))
	for name, content := range map[string]string{"list": s.module.Version + "\n", s.module.Version + ".mod": string(goMod), s.module.Version + ".info": info} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return s, err
		}
	}
	others, err := output(ctx, root, "go", "env", "GOPROXY")
	if err != nil {
		return s, err
	}
	return s, errors.Join(
		os.Setenv("GOPROXY", "file://"+filepath.Join(work, "proxy")+","+others),
		os.Setenv("GONOSUMDB", modulePath),
		os.Setenv("SOURCE_DATE_EPOCH", seconds),
		os.Setenv("TZ", "UTC"),
	)
}

// tagged is the version of a commit: its tag, which has to be that of the tree, or one for
// development.
func tagged(ctx context.Context, root, commit string) (string, error) {
	tags, err := output(ctx, root, "git", "tag", "--points-at", "HEAD", "v*")
	if err != nil {
		return "", err
	}
	for tag := range strings.FieldsSeq(tags) {
		if tag != version.Tree {
			return "", fmt.Errorf(
				"the tag is %s, but version/version.go says %s: change one of them",
				tag,
				version.Tree,
			)
		}
		return tag, nil
	}
	return version.Development + ".g" + commit[:12], nil
}

// zipModule makes the archive of the module from what Git has of the commit: files that Git does
// not know are not in it. zip.CreateFromVCS does the same, but not in a worktree.
func zipModule(ctx context.Context, root string, s source, work, file string) (err error) {
	tree := filepath.Join(work, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if _, err := output(ctx, root, "git", "archive", "--format=tar", "-o", tree+".tar", s.commit); err != nil {
		return err
	}
	if _, err := output(ctx, tree, "tar", "-xf", tree+".tar"); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return zip.CreateFromDir(f, module.Version{Path: modulePath, Version: s.module.Version}, tree)
}

// output runs a program and returns its output without the last newline.
func output(ctx context.Context, dir string, args ...string) (string, error) {
	text, err := tool.Run(ctx, dir, nil, args...)
	return strings.TrimSuffix(text, "\n"), err
}
