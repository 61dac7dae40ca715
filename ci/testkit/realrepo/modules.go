package realrepo

import (
	"fmt"
	"strings"
)

// The modular packages of RHEL 8: two streams of perl, of which 5.26 is the default and the catalogue's
// package is the newer one; and one of a tool set without a default, whose make, newer than all others, is
// hidden until the module is enabled.
func modularPackages() []Package {
	script := func(path string) []File { return []File{{Path: path, Body: "#!/bin/sh\nexit 1\n", Mode: 0o755}} }
	const release = "-1.module+el8.10.0+1001+0a1b2c3d"
	return []Package{
		{Name: "perl-interpreter", Version: "4:5.26.3" + release, Files: script("/usr/bin/perl")},
		{Name: "make", Version: "1:99.0" + release, Files: script("/usr/bin/make")},
	}
}

// moduleList returns the text of modules.yaml. newer is the package of perl's other stream.
func moduleList(newer Package) string {
	var text strings.Builder
	document := func(name, stream string, p Package) {
		version := p.Version
		if !strings.Contains(version, ":") {
			version = "0:" + version
		}
		fmt.Fprintf(&text, `---
document: modulemd
version: 2
data:
  name: %s
  stream: "%s"
  version: 8100020240101000000
  context: 0a1b2c3d
  arch: x86_64
  summary: for tests
  description: for tests
  license:
    module: [MIT]
  dependencies:
  - requires:
      platform: [el8]
  artifacts:
    rpms:
    - %s-%s.x86_64
...
`, name, stream, p.Name, version)
	}
	modular := modularPackages()
	document("perl", "5.26", modular[0])
	document("perl", "5.36", newer)
	document("build-tools", "rolling", modular[1])
	text.WriteString("---\ndocument: modulemd-defaults\nversion: 1\ndata: {module: perl, stream: \"5.26\", profiles: {\"5.26\": []}}\n...\n")
	return text.String()
}
