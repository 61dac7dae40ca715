package lint

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

const module = "github.com/driver-container/driver-container"

// pkg holds the fields of `go list -json` that the rules need.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string // without _test.go, as in all of this
	Imports    []string
	Deps       []string // all packages that it reaches
}

// name returns the path inside the project: "images/matrix"; "." for the root.
func (p pkg) name() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

// project lists the packages of the project.
var project = sync.OnceValues(func() (ours []pkg, err error) {
	out, err := tool.Run(context.Background(), root, nil, "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Imports,Deps", "./...")
	for d := json.NewDecoder(strings.NewReader(out)); err == nil; {
		var p pkg
		if err = d.Decode(&p); err == nil && under(p.ImportPath, module) {
			ours = append(ours, p)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return ours, err
})

func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := project()
	require.NoErrorf(t, err, "go list")
	if len(all) < 5 {
		t.Fatalf("go list found %d packages: is this the project's root?", len(all))
	}
	return all
}

// under says whether a package is in one of the trees.
func under(importPath string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return importPath == tree || strings.HasPrefix(importPath, tree+"/") })
}

func TestWhoReachesWhom(t *testing.T) {
	t.Parallel()
	const (
		buildkit   = "github.com/moby/buildkit"
		registries = "github.com/google/go-containerregistry"
		cobra      = "github.com/spf13/cobra"
	)
	own := func(names ...string) []string {
		for i, n := range names {
			names[i] = module + "/" + n
		}
		return names
	}
	rules := []struct {
		from   []string // packages of the project
		except []string
		never  []string
		why    string
	}{
		{[]string{"distros", "kmod"}, nil, own("images", "node", "cmd", "ci"), "the ground floor: the builder and the node both stand on it"},
		{[]string{"distros", "kmod"}, nil, []string{registries, buildkit, cobra}, "the node's program links it and stays small"},
		{[]string{"images"}, nil, own("node", "cmd", "ci"), "arrows point downwards"},
		{[]string{"images"}, []string{"images/runner/buildkit"}, []string{buildkit}, "only one runner talks to BuildKit"},
		{[]string{"images"}, nil, []string{cobra, "github.com/spf13/pflag"}, "images is a library: flags and exit codes are the command's"},
		{[]string{"images"}, []string{"images/fleet", "images/status"}, own("images/fleet", "images/status"), "they ask about images: what makes images does not know them"},
		{[]string{"images"}, nil, []string{buildkit + "/util/progress/progressui"}, "what is shown on a terminal is the command's"},
		{[]string{"images/matrix", "images/runfile", "images/rootfs"}, nil, own("images/registry", "images/runner"), "they are plain readers"},
		{[]string{"images/rootfs"}, nil, []string{registries, module + "/distros"}, "formats know neither registries nor systems"},
		{[]string{"images/runfile"}, nil, []string{registries, module + "/images"}, "it is a format: of this project it knows how to decompress"},
		{[]string{"node"}, nil, own("images", "cmd", "ci"), "images and node do not know each other"},
		{[]string{"cmd/driver-entrypoint"}, nil, append(own("images", "ci"), buildkit, registries, "k8s.io", "github.com/NVIDIA/go-nvml"),
			"process 1 of a node is small and static"},
		{[]string{"node"}, nil, []string{"k8s.io"}, "a node's programs talk plain HTTPS to the cluster, by node/kubernetes"},
		{[]string{"node/status", "node/evict", "node/metrics", "node/kubernetes"}, nil,
			own("distros/apt", "distros/rpm", "kmod/kbuild", "node/headers", "node/preflight", "node/driverroot", "node/host"),
			"a package that only looks at a driver needs node/status, and nothing that loads or compiles a driver"},
		{[]string{"cmd/driver-entrypoint", "images", "node"}, nil, []string{"github.com/ThalesGroup/crypto11", "github.com/miekg/pkcs11"}, "tokens need cgo, and are for driver-build alone"},
		{[]string{"cmd/driver-entrypoint", "node"}, nil, []string{"modernc.org/sqlite"}, "a database engine is for driver-build: a node reads package lists as XML, and no package database"},
		{[]string{"cmd/driver-probe"}, nil, append(own("images", "node", "distros", "ci"), buildkit, registries, cobra), "the probe asks NVML and nothing else"},
		{[]string{"version"}, nil, append(own("images", "distros", "kmod", "node", "cmd", "ci"), buildkit, registries, cobra), "every program has it"},
		{[]string{"."}, []string{}, append(own("images", "distros", "node", "cmd"), buildkit, registries), "the root holds the embedded matrix"},
	}
	for _, p := range packages(t) {
		for _, r := range rules {
			if !under(p.name(), r.from...) || under(p.name(), r.except...) {
				continue
			}
			for _, dep := range p.Deps {
				if under(dep, r.never...) && !under(dep, own("distros/failure")...) {
					t.Errorf("%s reaches %s: %s", p.name(), dep, r.why)
				}
			}
		}
	}
}

// TestNode is about the package node itself: it knows the machine by its interfaces only, and none of its
// parts imports it.
func TestNode(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		switch {
		case p.name() == "node":
			for _, part := range []string{"host", "metrics", "kubernetes", "evict", "shim", "driverroot", "headers"} {
				assert.Equalf(t, false, slices.Contains(p.Deps, module+"/node/"+part), "node reaches node/%s, which it must not know", part)
			}
		case under(p.name(), "node") && p.name() != "node/host" && slices.Contains(p.Deps, module+"/node"):
			t.Errorf("%s reaches node; only node/host and cmd/driver-entrypoint may", p.name())
		}
	}
}

// TestCommandsAreLeaves: no package of the product imports a command, or a part of another command. The parts
// of driver-build that hold commands import what all commands share, and never each other.
func TestCommandsAreLeaves(t *testing.T) {
	t.Parallel()
	const build = module + "/cmd/driver-build"
	shared := []string{build + "/session", build + "/flags"}
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			part := under(imp, p.ImportPath) || under(p.ImportPath, build) && slices.Contains(shared, imp)
			if under(imp, module+"/cmd") && !part && !under(p.name(), "ci") {
				t.Errorf("%s imports %s", p.name(), path.Base(imp))
			}
		}
	}
}
