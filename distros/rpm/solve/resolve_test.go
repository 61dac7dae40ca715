package solve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// described parses packages, one a line of "name version[ arch]; requires: a, (b or c); provides: ...;
// conflicts: ...; obsoletes: ...; files: ...; origin: ...; priority: ...; hidden: ...".
func described(t testing.TB, lines string) []rpm.Package {
	var out []rpm.Package
	for line := range strings.Lines(lines) {
		parts := strings.Split(strings.TrimSpace(line), ";")
		words := append(strings.Fields(parts[0]), "x86_64")
		if len(words) < 3 {
			continue
		}
		evr := require.Value(rpmfile.ParseEVR(words[1]))(t)
		m := rpmfile.Metadata{Name: words[0], EVR: evr, Arch: words[2]}
		m.Provides = []rpmfile.Relation{{Name: m.Name, Op: "=", EVR: evr}}
		p := rpm.Package{Origin: "r", Priority: 99}
		for _, part := range parts[1:] {
			field, value, _ := strings.Cut(strings.TrimSpace(part), ": ")
			for text := range strings.SplitSeq(value, ", ") {
				var err error
				rich := func(to *[]rpmfile.Requirement) {
					var r rpmfile.Requirement
					r, err = rpmfile.ParseRequirement(text)
					*to = append(*to, r)
				}
				add := func(to *[]rpmfile.Relation) {
					var r []rpmfile.Requirement
					rich(&r)
					*to = append(*to, r[0].Relation)
				}
				switch field {
				case "requires":
					rich(&m.Requires)
				case "provides":
					add(&m.Provides)
				case "conflicts":
					rich(&m.Conflicts)
				case "obsoletes":
					add(&m.Obsoletes)
				case "files":
					m.Files = append(m.Files, text)
				case "origin":
					p.Origin = text
				case "hidden":
					p.Hidden = text
				case "priority":
					_, err = fmt.Sscan(text, &p.Priority)
				default:
					t.Fatal("unknown field", field)
				}
				if err != nil {
					t.Fatal(line, err)
				}
			}
		}
		p.Package = distros.Package{Name: m.Name, Version: evrText(evr), Arch: m.Arch}
		p.Metadata = m
		out = append(out, p)
	}
	return out
}

// indexOf returns an index of packages, which come in the order of their sources.
func indexOf(packages []rpm.Package) *rpm.Index {
	all := make([]*rpm.Package, len(packages))
	for i := range packages {
		all[i] = &packages[i]
	}
	return rpm.NewIndex("x86_64", all)
}

func metadataOf(packages []rpm.Package) []rpmfile.Metadata {
	out := make([]rpmfile.Metadata, 0, len(packages))
	for _, p := range packages {
		out = append(out, p.Metadata)
	}
	return out
}

// short returns a result as "name version[.arch][<replaced], ...".
func short(packages []rpm.Package) string {
	var out []string
	for _, p := range packages {
		s := p.Name + " " + p.Version
		if p.Arch != "x86_64" {
			s += "." + p.Arch
		}
		if p.Replaces != "" {
			s += "<" + p.Replaces
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func wants(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ", ")
}

// resolveCase is one resolution; TestReal* of the real tier lets dnf resolve the same case.
type resolveCase struct {
	name, index, system, want string
	result                    string // in the form of short
	unlike                    string // the reason why dnf's result differs; "" if it does not
}

func resolveCases() []resolveCase {
	return []resolveCase{
		{name: "single", index: "a 1-1", want: "a", result: "a 1-1"},
		{name: "installed is enough", index: "a 2-1", system: "a 1-1", want: "a", unlike: "dnf install upgrades what it is asked for"},
		{name: "exact version", index: "a 2-1\na 1-1", want: "a = 1", result: "a 1-1"},
		{name: "exact version upgrades", index: "a 2-1", system: "a 1-1", want: "a = 2", result: "a 2-1<1-1"},
		{name: "newest", index: "a 1.9-1\na 1.10-1\na 1.10~rc1-1\na 1.9-10", want: "a", result: "a 1.10-1"},
		{name: "epoch", index: "a 2-1\na 1:1-1", want: "a", result: "a 1:1-1"},
		{name: "chain", index: "a 1-1; requires: b\nb 1-1; requires: c >= 1\nc 1-1", want: "a", result: "a 1-1, b 1-1, c 1-1"},
		{name: "cycle", index: "a 1-1; requires: b = 1\nb 1-1; requires: a = 1-1", want: "a", result: "a 1-1, b 1-1"},
		{name: "self", index: "a 1-1; requires: a = 1, v; provides: v", want: "a", result: "a 1-1"},
		{name: "noarch", index: "a 1-1 noarch; requires: b\nb 1-1", want: "a", result: "a 1-1.noarch, b 1-1"},
		{name: "not the other architecture", index: "a 1-1\na 2-1 i686", want: "a", result: "a 1-1"},
		{name: "the other architecture on request", index: "a 1-1\na 1-1 i686; requires: b(x86-32)\nb 1-1; provides: b(x86-64)\nb 1-1 i686; provides: b(x86-32)", want: "a.i686", result: "a 1-1.i686, b 1-1.i686, b 1-1"},
		{name: "provided", index: "a 1-1; requires: v\nc 1-1; provides: v\nb 1-1; provides: v", want: "a", result: "a 1-1, b 1-1"},
		{name: "provided and asked for", index: "a 1-1; requires: v\nc 1-1; provides: v\nb 1-1; provides: v", want: "a, c", result: "a 1-1, c 1-1"},
		{name: "provided and needed too", index: "a 1-1; requires: v, d\nd 1-1; requires: c\nc 1-1; provides: v\nb 1-1; provides: v", want: "a", result: "a 1-1, c 1-1, d 1-1"},
		{name: "provided and installed", index: "a 1-1; requires: v\nb 1-1; provides: v", system: "x 1-1; provides: v", want: "a", result: "a 1-1"},
		{name: "provided newer", index: "a 1-1; requires: v\nc11 1-1; provides: v = 11\nc17 1-1; provides: v = 17", want: "a", result: "a 1-1, c17 1-1"},
		{name: "versions provided", index: "a 1-1; requires: v >= 2\nb 1-1; provides: v = 1\nc 1-1; provides: v = 2\nd 1-1; provides: v", want: "a", result: "a 1-1, c 1-1"},
		{name: "provided thing asked for", index: "b 1-1; provides: kernel-devel-uname-r = 5.14.0-1.x86_64\nc 1-1; provides: kernel-devel-uname-r = 5.14.0-2.x86_64", want: "kernel-devel-uname-r = 5.14.0-1.x86_64", result: "b 1-1"},
		{name: "name before provided", index: "a 1-1; provides: v\nv 1-1", want: "v", result: "v 1-1"},
		{name: "file", index: "a 1-1; requires: /usr/bin/x\nb 1-1; files: /usr/bin/x", want: "a", result: "a 1-1, b 1-1"},
		{name: "file asked for", index: "b 1-1; files: /usr/bin/make", want: "/usr/bin/make", result: "b 1-1"},
		{name: "file installed", index: "a 1-1; requires: /usr/share/x", system: "b 1-1; files: /usr/share/x", want: "a", result: "a 1-1"},
		{name: "and", index: "a 1-1; requires: (b and c)\nb 1-1\nc 1-1", want: "a", result: "a 1-1, b 1-1, c 1-1"},
		{name: "or", index: "a 1-1; requires: (c or b)\nb 1-1\nc 1-1", want: "a", result: "a 1-1, b 1-1"},
		{name: "or with one there", index: "a 1-1; requires: (b or c)\nb 1-1\nc 1-1", system: "c 1-1", want: "a", result: "a 1-1"},
		{name: "if, and it is not", index: "a 1-1; requires: (b if c)\nb 1-1\nc 1-1", want: "a", result: "a 1-1"},
		{name: "if, and it is", index: "a 1-1; requires: (b if c)\nb 1-1", system: "c 1-1", want: "a", result: "a 1-1, b 1-1"},
		{name: "if, and it comes", index: "a 1-1; requires: (b if c)\nb 1-1\nc 1-1", want: "a, c", result: "a 1-1, b 1-1, c 1-1"},
		// dnf reads it as (b or not c) and (c or d)
		{name: "else", index: "a 1-1; requires: (b if c else d)\nb 1-1\nc 1-1\nd 1-1", want: "a", result: "a 1-1, b 1-1, c 1-1"},
		{name: "not else", index: "a 1-1; requires: (b if c else d)\nb 1-1\nc 1-1\nd 1-1", want: "a, c", result: "a 1-1, b 1-1, c 1-1"},
		{name: "with", index: "a 1-1; requires: (v >= 2 with v < 3)\nb 1-1; provides: v = 1\nc 1-1; provides: v = 2\nd 1-1; provides: v = 3", want: "a", result: "a 1-1, c 1-1"},
		{name: "without", index: "a 1-1; requires: (v without w)\nb 1-1; provides: v, w\nc 1-1; provides: v", want: "a", result: "a 1-1, c 1-1"},
		{name: "nested", index: "a 1-1; requires: ((b and c) or (d and e))\nb 1-1\nc 1-1; conflicts: a\nd 1-1\ne 1-1", want: "a", result: "a 1-1, d 1-1, e 1-1"},
		{name: "rich request", index: "a 1-1\nb 1-1", want: "(a and b)", result: "a 1-1, b 1-1", unlike: "dnf install takes no rich dependencies"},
		{name: "obsoleted request", index: "a 1-1\nb 1-1; obsoletes: a < 2", want: "a", result: "b 1-1"},
		{name: "obsoleted, but the newest is not", index: "a 2-1\na 1-1\nb 1-1; obsoletes: a < 2", want: "a", result: "a 2-1"},
		{name: "obsolete names only", index: "a 1-1; provides: v\nb 1-1; obsoletes: v", want: "a, b", result: "a 1-1, b 1-1"},
		{name: "obsoleted by what is installed", index: "a 1-1", system: "b 1-1; obsoletes: a", want: "a"},
		{name: "obsoleted provider", index: "x 1-1; requires: v\na 1-1; provides: v\nb 1-1; provides: v; obsoletes: a", want: "x", result: "b 1-1, x 1-1"},
		{name: "obsoletes what is installed", index: "b 1-1; obsoletes: a < 2; provides: a = 2", system: "a 1-1\nc 1-1; requires: a", want: "b", result: "b 1-1<a-1-1"},
		{name: "conflict makes another choice", index: "a 1-1; requires: v\nb 1-1; provides: v; conflicts: d\nc 1-1; provides: v\nd 1-1", want: "a, d", result: "a 1-1, c 1-1, d 1-1"},
		{name: "conflict with the installed one upgrades it", index: "a 1-1; conflicts: b < 2\nb 2-1", system: "b 1-1", want: "a", result: "a 1-1, b 2-1<1-1"},
		{name: "the installed one conflicts", index: "a 1-1\nb 2-1", system: "b 1-1; conflicts: a < 2", want: "a", result: "a 1-1, b 2-1<1-1"},
		{name: "own conflict", index: "a 1-1; provides: v; conflicts: v", want: "a", result: "a 1-1"},
		{name: "conflict with both", index: "a 1-1; requires: v; conflicts: (b and c)\nb 1-1; provides: v\nc 1-1; provides: v\nd 1-1; requires: b", want: "a, d", result: "a 1-1, b 1-1, d 1-1"},
		{name: "conflict with either", index: "a 1-1; requires: v; conflicts: (b or c)\nb 1-1; provides: v\nc 1-1; provides: v\nd 1-1; provides: v", want: "a", result: "a 1-1, d 1-1"},
		{name: "conflict with one version range", index: "a 1-1; requires: v; conflicts: (v >= 2 with v < 4)\nb 1-1; provides: v = 3\nc 1-1; provides: v = 1", want: "a", result: "a 1-1, c 1-1"},
		{name: "conflict except", index: "a 1-1; requires: v; conflicts: (v without w)\nb 1-1; provides: v = 2\nc 1-1; provides: v = 1, w", want: "a", result: "a 1-1, c 1-1"},
		{name: "conflict unless", index: "a 1-1; requires: b; conflicts: (b unless c)\nb 1-1\nc 1-1", want: "a", result: "a 1-1, b 1-1, c 1-1"},
		{name: "conflict unless, else", index: "a 1-1; requires: b, c; conflicts: (b unless c else d)\nb 1-1\nc 1-1\nd 1-1\nx 1-1; requires: v\ne 1-1; provides: v", want: "a, x", result: "a 1-1, b 1-1, c 1-1, e 1-1, x 1-1"},
		{name: "own rich conflict", index: "a 1-1; provides: v; requires: b; conflicts: (v or c)\nb 1-1", want: "a", result: "a 1-1, b 1-1"},
		{name: "the installed one has a rich conflict", index: "a 1-1; requires: v\nb 1-1; provides: v\nc 1-1; provides: v", system: "x 1-1; conflicts: (b and x)", want: "a", result: "a 1-1, c 1-1"},
		{name: "what was in conflict stays so", index: "a 1-1", system: "b 1-1; conflicts: (c and d)\nc 1-1\nd 1-1", want: "a", result: "a 1-1"},
		{name: "only the other architecture", index: "a 1-1; requires: v\nb 1-1 i686; provides: v; requires: c\nc 1-1 i686\nc 1-1", want: "a", result: "a 1-1, b 1-1.i686, c 1-1"},
		{name: "only the other architecture, asked for", index: "b 1-1 i686", want: "b", result: "b 1-1.i686"},
		{name: "the other architecture brings its own", index: "a 1-1; requires: v\nb 1-1 i686; provides: v\nb 1-1", want: "a", result: "a 1-1, b 1-1.i686, b 1-1"},
		{name: "a conflict upgrades the other architecture", index: "a 1-1; requires: libc\nlibc 2-1; conflicts: lib32 < 2\nlib32 2-1 i686", system: "lib32 1-1 i686", want: "a", result: "a 1-1, lib32 2-1.i686<1-1, libc 2-1"},
		{name: "dead end", index: "a 1-1; requires: v\nb 1-1; provides: v; requires: missing\nc 1-1; provides: v", want: "a", result: "a 1-1, c 1-1"},
		{name: "deep dead end", index: "a 1-1; requires: v\nb 1-1; provides: v; requires: d\nd 1-1; requires: e\ne 1-1; requires: missing\nc 1-1; provides: v", want: "a", result: "a 1-1, c 1-1"},
		{name: "older of a requirement", index: "a 1-1; requires: b\nb 2-1; requires: missing\nb 1-1", want: "a", result: "a 1-1, b 1-1"},
		{name: "upgrade demanded", index: "a 1-1; requires: libc = 2\nlibc 2-1", system: "libc 1-1", want: "a", result: "a 1-1, libc 2-1<1-1"},
		{
			name: "upgrade takes its family along", want: "glibc-devel", system: "glibc 1-1; requires: glibc-common = 1-1\nglibc-common 1-1; requires: glibc = 1-1\nglibc-minimal-langpack 1-1; requires: glibc = 1-1",
			index:  "glibc 2-1; requires: glibc-common = 2-1\nglibc-common 2-1; requires: glibc = 2-1\nglibc-minimal-langpack 2-1; requires: glibc = 2-1\nglibc-devel 2-1; requires: glibc = 2-1\nbash 9-1",
			result: "glibc 2-1<1-1, glibc-common 2-1<1-1, glibc-devel 2-1, glibc-minimal-langpack 2-1<1-1",
		},
		{
			name: "the version that fits what is installed", want: "a", system: "libc 1-1\nkeeper 1-1; requires: libc = 1-1",
			index: "a 1-1; requires: devel\ndevel 2-1; requires: libc = 2-1\ndevel 1-1; requires: libc = 1-1\nlibc 2-1", result: "a 1-1, devel 1-1",
		},
		{name: "kernels beside each other", index: "kernel-core 2-1; provides: installonlypkg(kernel)\nkernel-core 3-1; provides: installonlypkg(kernel)", system: "kernel-core 1-1; provides: installonlypkg(kernel)", want: "kernel-core = 2", result: "kernel-core 2-1"},
		{name: "el7's kernels too", index: "kernel-devel 2-1", system: "kernel-devel 1-1", want: "kernel-devel = 2", result: "kernel-devel 2-1"},
		{name: "priority", index: "a 2-1; priority: 99\na 1-1; priority: 10; origin: q", want: "a", result: "a 1-1"},
		{name: "priority of a requirement", index: "x 1-1; requires: a\na 2-1; priority: 99\na 1-1; priority: 10; origin: q", want: "x", result: "a 1-1, x 1-1"},
		{name: "an upgrade rather than a new package", index: "a 1-1; requires: v = 2\nb 1-1; provides: v = 2\nz 2-1; provides: v = 2", system: "z 1-1; provides: v = 1", want: "a", result: "a 1-1, z 2-1<1-1"},
		{name: "what was broken stays so", index: "a 1-1", system: "b 1-1; requires: missing", want: "a", result: "a 1-1"},
		{name: "the same package is installed", index: "a 1-1; requires: b = 1\nb 1-1", system: "b 1-1", want: "a", result: "a 1-1"},
		{name: "installed and noarch now", index: "a 2-1 noarch\nb 1-1; requires: a >= 2", system: "a 1-1", want: "b", result: "a 2-1.noarch<1-1, b 1-1"},
		{name: "python's pattern", index: "p 1-1; requires: ((python3.9dist(x) < 2 or python3.9dist(x) > 2.1) with python3.9dist(x) >= 1)\nx 1-1; provides: python3.9dist(x) = 1.5\nx 2-1; provides: python3.9dist(x) = 2", want: "p", result: "p 1-1, x 1-1"},
	}
}

// TestResolve: the result depends neither on the order of the database nor on that of the packages of one repository.
func TestResolve(t *testing.T) {
	t.Parallel()
	for _, tt := range resolveCases() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			index, system := described(t, tt.index), described(t, tt.system)
			for range 3 {
				got := require.Value(Resolve(context.Background(), indexOf(index), metadataOf(system), wants(tt.want)))(t)
				assert.Equalf(t, tt.result, short(got), "Resolve(%s)", tt.want)
				slices.Reverse(index)
				slices.Reverse(system)
			}
		})
	}
}

func TestUnresolvable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, index, system, want, message string }{
		{
			"unknown", "a 1-1", "", "b",
			"cannot resolve packages: b was asked for, which no repository has; add the repository that has it",
		},
		{
			"version unknown", "a 1-1", "", "a = 2",
			"cannot resolve packages: a = 2 was asked for, which no repository has in that version; there is a 1-1 (r)",
		},
		{
			"chain", "a 1-1; requires: b\nb 2-1; requires: c >= 3\nc 1-1\nd 1-1; provides: c = 2", "", "a",
			"cannot resolve packages: b 2-1 needs c >= 3, which no repository has in that version; there is c 1-1 (r), d 1-1 (r), which provides c = 2 (asked for by a 1-1 -> b 2-1)",
		},
		{
			"hidden", "a 1-1; requires: b\nb 1-1; hidden: its module nodejs:18 is not enabled", "", "a",
			"cannot resolve packages: a 1-1 needs b, which is not to be had; there is b 1-1 (r), but its module nodejs:18 is not enabled",
		},
		{
			"rich", "a 1-1; requires: (b or c)", "", "a",
			"cannot resolve packages: a 1-1 needs (b or c), which no repository has; add the repository that has it",
		},
		{
			"only the newest of what was asked for", "a 2-1; requires: missing\na 1-1", "", "a",
			"cannot resolve packages: a 2-1 needs missing, which no repository has; add the repository that has it",
		},
		{
			"no downgrade", "a 1-1; requires: libc = 1\nlibc 1-1", "libc 2-1", "a",
			"cannot resolve packages: a 1-1 needs libc = 1, which needs libc 1-1, but the newer libc 2-1 is installed, and packages are not downgraded; use a newer repository or an older base; there is libc 1-1 (r)",
		},
		{
			"conflict with installed", "a 1-1; conflicts: b", "b 1-1", "a",
			"cannot resolve packages: a 1-1 was asked for, which cannot be with b 1-1 (installed): a 1-1 conflicts with b, that is b 1-1",
		},
		{
			"the other architecture is older, and the own one needed", "a 1-1; requires: v, b\nb 1-1 i686; provides: v\nb 2-1", "", "a",
			"cannot resolve packages: b 1-1 needs b.x86_64 = 1-1, which no repository has in that version; there is b 2-1 (r), b 1-1.i686 (r) (asked for by a 1-1 -> b 1-1)",
		},
		{
			"rich conflict", "a 1-1; conflicts: (b and c)\nb 1-1\nc 1-1", "", "a, b, c",
			"cannot resolve packages: a was asked for, which cannot be met together; a 1-1 conflicts with (b and c)",
		},
		{
			"conflict among chosen", "a 1-1; requires: b, c\nb 1-1\nc 1-1; conflicts: b", "", "a",
			"cannot resolve packages: a 1-1 needs b 1-1, which cannot be with c 1-1 (needed by a 1-1): c 1-1 conflicts with b, that is b 1-1",
		},
		{
			"two versions needed", "a 1-1; requires: b = 1, c\nb 1-1\nb 2-1\nc 1-1; requires: b = 2", "", "a",
			"cannot resolve packages: a 1-1 needs b = 1, which cannot be met together with b 2-1 (needed by c 1-1): c 1-1 needs b = 2; there is b 1-1 (r), b 2-1 (r)",
		},
		{
			"an installed one would lose what it needs", "a 1-1; requires: libc >= 2\nlibc 2-1", "libc 1-1\nbin 1-1; requires: libc = 1", "a",
			"cannot resolve packages: a 1-1 needs libc >= 2, which cannot be met together with libc 1-1 (installed): bin 1-1 needs libc = 1; there is libc 2-1 (r)",
		},
		{
			"obsoleted by what is installed", "c 1-1; requires: a\na 1-1", "b 1-1; obsoletes: a", "c",
			"cannot resolve packages: c 1-1 needs a 1-1, which cannot be with b 1-1 (installed): b 1-1 obsoletes a, that is a 1-1",
		},
		{
			"unless", "a 1-1; requires: (b unless c)\nb 1-1", "c 1-1", "a",
			"cannot resolve packages: a 1-1 was asked for, which cannot be with c 1-1 (installed): a 1-1 requires (b unless c), that is c 1-1",
		},
		{
			"cycle without an end", "a 1-1; requires: b\nb 1-1; requires: a, missing", "", "a",
			"cannot resolve packages: b 1-1 needs missing, which no repository has; add the repository that has it (asked for by a 1-1 -> b 1-1)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x := indexOf(described(t, tt.index))
			got, err := Resolve(context.Background(), x, metadataOf(described(t, tt.system)), wants(tt.want))
			var un *distros.UnresolvableError
			if !errors.As(err, &un) {
				t.Fatalf("Resolve = %v, %v; want an UnresolvableError", short(got), err)
			}
			assert.Samef(t, tt.message, err.Error(), "message (-want +got)")
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	x := indexOf(described(t, "a 1-1"))
	for _, want := range []string{"", "a >", "(a or", "a=1"} {
		assert.ErrorIsf(t, assert.Err(Resolve(context.Background(), x, nil, []string{want})), distros.ErrSources, "Resolve(%q)", want)
	}
	many := slices.Repeat([][]literal{{1}}, 1<<20)
	assert.ErrorIsf(t, assert.Err(either(many, many)), distros.ErrIndex, "a requirement of many alternatives")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.ErrorIsf(t, assert.Err(Resolve(ctx, x, nil, []string{"a"})), context.Canceled, "Resolve when cancelled")
}

// TestFileLists checks that the lists of files are used only if nothing else shows which package has a file,
// or if the solution depends on the assumption that all versions of a package have it.
func TestFileLists(t *testing.T) {
	t.Parallel()
	const file = "/usr/share/x"
	for _, tt := range []struct {
		name, index, system, owner, want, result string
		asked                                    bool
	}{
		{"nobody else knows", "a 1-1; requires: /usr/share/x\nb 1-1", "", "b 1-1", "a", "a 1-1, b 1-1", true},
		{"installed", "a 1-1; requires: /usr/share/x\nb 2-1", "b 1-1; files: /usr/share/x", "b 2-1", "a", "a 1-1", false},
		{"kept in the upgrade", "a 1-1; requires: /usr/share/x, b = 2\nb 2-1", "b 1-1; files: /usr/share/x", "b 2-1", "a", "a 1-1, b 2-1<1-1", true},
		{"moved in the upgrade", "a 1-1; requires: /usr/share/x, b = 2\nb 2-1\nc 2-1", "b 1-1; files: /usr/share/x", "c 2-1", "a", "a 1-1, b 2-1<1-1, c 2-1", true},
		{"asked for", "b 1-1", "", "b 1-1", file, "b 1-1", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := repotest.Serve(t, nil)
			r := repotest.NewRepository(t, server.URL, "/os", func(path string, data []byte) { server.Files[path] = data })
			r.ListsOnly = true
			for _, p := range described(t, tt.index) {
				made := repotest.RPM{Name: p.Name, EVR: p.Version}
				for _, q := range p.Metadata.Requires {
					made.Requires = append(made.Requires, q.String())
				}
				if p.String() == tt.owner {
					made.AllFiles = []string{file}
				}
				r.Packages = append(r.Packages, made)
			}
			r.Publish()
			releases := require.Value(rpm.OpenReleases(t.Context(), rpm.Options{
				Fetch: &fetch.Client{Store: require.Value(fetch.OpenStore(t.TempDir()))(t)}, Root: testfile.FS(nil), Arch: "x86_64",
				Sources: []repoconf.Source{{ID: "r", BaseURLs: []string{r.BaseURL()}, Key: repotest.Public(t, repotest.Key("k", 0))}},
			}))(t)
			got := require.Value(Resolve(t.Context(), require.Value(releases.Load(t.Context()))(t), metadataOf(described(t, tt.system)), wants(tt.want)))(t)
			assert.Equalf(t, tt.result, short(got), "Resolve(%s)", tt.want)
			assert.Equalf(t, tt.asked, server.Requests["GET /os/repodata/filelists.xml.gz"] > 0, "the lists of files were used")
		})
	}
}
