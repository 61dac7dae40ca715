// Package version says which version of the project a program is of: the one that Go wrote into it. The tag
// decides; a program of a checkout without tags has the version that the tree names.
package version

import (
	"runtime/debug"
	"strings"
)

// Tree is the version of this tree: that of its tag or, before the tag is set, that of the next one. It is
// the only place to change for a new version, with the files that the tests of this package compare with it.
const Tree = "v0.3.0"

// Development is the version of a program that was compiled in a checkout without tags.
const Development = Tree + "-dev"

// maxRevision is how many digits of a commit a version shows.
const maxRevision = 12

// Of returns the version of the program that has this build information; nil is a program without any.
func Of(info *debug.BuildInfo) string {
	if info == nil {
		return Development
	}
	if v := info.Main.Version; v != "" && v != "(devel)" && !strings.HasPrefix(v, "v0.0.0-") {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = "+" + s.Value[:min(len(s.Value), maxRevision)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".dirty"
		}
	}
	if revision == "" {
		return Development
	}
	return Development + revision + dirty
}

// Own returns the version of this program.
func Own() string {
	info, _ := debug.ReadBuildInfo()
	return Of(info)
}
