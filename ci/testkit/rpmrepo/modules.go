package rpmrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The modular packages of RHEL 8: two streams of perl, of which 5.26 is the default and the catalogue's
// package is the newer one, and one of a tool set without a default, whose packages are hidden until the
// module is enabled.
const (
	newStream, oldStream = "5.36", "5.26"
	modularRelease       = "1.module+el8.10.0+1001+0a1b2c3d"
	modulesFile          = "modules.yaml"
)

// buildModules packs an older perl-interpreter for the default stream, and a newer make that only module
// build-tools has. modules.yaml beside them declares these modules.
func buildModules(ctx context.Context, sys system, perl deb, out string) (err error) {
	root, err := os.MkdirTemp(out, ".root-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	if err := WriteFile(filepath.Join(root, "usr/bin/perl"), "#!/bin/sh\nexit 1\n"); err != nil {
		return err
	}
	if err := WriteFile(filepath.Join(root, "usr/bin/make"), "#!/bin/sh\nexit 1\n"); err != nil {
		return err
	}
	pieces := []piece{
		{name: "perl-interpreter", epoch: "4", version: "5.26.3", release: modularRelease, provides: []string{"perl = %{EVR}"}, files: []string{"%attr(755,root,root) /usr/bin/perl"}},
		{name: "make", epoch: "1", version: "99.0", release: modularRelease, files: []string{"%attr(755,root,root) /usr/bin/make"}},
	}
	_, version, release := versionOf(perl.version, sys.dist)
	if err := WriteFile(filepath.Join(out, modulesFile), modules("perl-interpreter-0:"+version+"-"+release+".x86_64")); err != nil {
		return err
	}
	return rpmbuild(ctx, sys, pieces, root, filepath.Join(out, fmt.Sprint("part-", application)))
}

// modules returns the text of modules.yaml. newer is the package of perl's other stream.
func modules(newer string) string {
	var b strings.Builder
	document := func(name, stream, artifact string) {
		fmt.Fprintf(&b, `---
document: modulemd
version: 2
data:
  name: %s
  stream: "%s"
  version: 8100020240101000000
  context: 0a1b2c3d
  arch: x86_64
  summary: %[1]s for tests
  description: >-
    %[1]s for tests
  license:
    module:
    - MIT
  dependencies:
  - requires:
      platform: [el8]
  artifacts:
    rpms:
    - %[3]s
...
`, name, stream, artifact)
	}
	document("perl", oldStream, "perl-interpreter-4:5.26.3-"+modularRelease+".x86_64")
	document("perl", newStream, newer)
	document("build-tools", "rolling", "make-1:99.0-"+modularRelease+".x86_64")
	b.WriteString("---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: perl\n  stream: \"" + oldStream + "\"\n  profiles:\n    " + `"` + oldStream + `": []` + "\n...\n")
	return b.String()
}
