package kbuild

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

// Compiler is the C compiler for a kernel's modules.
type Compiler struct {
	Path     string // "/usr/bin/gcc-12"
	Version  string // "gcc 12.2.0"
	Mismatch bool   // it is not the version that built the kernel: callers warn
	// the version that built the kernel, "gcc 12.3.0"; "" when the headers do not say
	Wanted string
}

// NoCompilerError says that there is no compiler of the right family.
type NoCompilerError struct {
	Wanted   string // "gcc 12.2.0", "clang 16.0.6"; "" when the headers do not say
	Searched string // the search path that was searched
	Found    []string
}

func (e *NoCompilerError) Error() string {
	found := "there is no other one"
	if len(e.Found) > 0 {
		found = "there is only " + strings.Join(e.Found, ", ")
	}
	return fmt.Sprintf(
		"no compiler for this kernel: it was built with %s, and in %s %s; use an image that has this compiler, "+
			"or one with precompiled modules",
		cmp.Or(e.Wanted, "gcc"),
		e.Searched,
		found,
	)
}

// version is a compiler's family and version, as numbers.
type version struct {
	family string // gcc or clang
	text   string // "12.2.0"
	fields []int
}

func (v version) String() string { return v.family + " " + v.text }

func (v version) field(i int) int {
	if i < len(v.fields) {
		return v.fields[i]
	}
	return 0
}

var versionNumber = lazyregexp.New(`(?:^|\s)v?(\d{1,3}(?:\.\d{1,3}){0,3})(?:[-+~\s,]|$)`)

// parenthesis matches the version suffixes of distributors: "(Debian 12.2.0-14+deb12u1)", "(Red Hat
// 4.8.5-44)".
var parenthesis = lazyregexp.New(`\([^()]*\)`)

// parseVersion parses what compilers print as their version and what kernels record of it:
//
//	gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0
//	gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC)
//	x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0, GNU ld (GNU Binutils for Ubuntu) 2.42
//	Debian clang version 16.0.6 (15~deb12u1)
func parseVersion(text string) (version, bool) {
	v := version{family: "gcc"}
	if strings.Contains(text, "clang") {
		v.family = "clang"
	}
	text, _, _ = strings.Cut(text, ", ") // the linker follows
	m := versionNumber().FindStringSubmatch(parenthesis().ReplaceAllString(text, " "))
	if m == nil {
		return version{}, false
	}
	v.text = m[1]
	for field := range strings.SplitSeq(v.text, ".") {
		n, _ := strconv.Atoi(field) //nolint:errcheck // one to three digits
		v.fields = append(v.fields, n)
	}
	return v, true
}

// compilerName matches programs that can be a C compiler: gcc, gcc-12, gcc-4.8,
// x86_64-linux-gnu-gcc-13, clang-16, cc.
var compilerName = lazyregexp.New(
	`^(?:[a-z0-9_]+-[a-z0-9-]+-)?(?:gcc|clang)(?:-[0-9.]{1,8})?$|^cc$`,
)

// IsCompilerName reports whether a program of this name can be a C compiler, as FindCompiler looks
// for it.
func IsCompilerName(name string) bool { return compilerName().MatchString(name) }

// maxCandidates bounds how many programs are run for their version.
const maxCandidates = 32

// FindCompiler returns the compiler for modules of the kernel, from the folders in path (as in
// $PATH): the version that built the kernel, or else the nearest one, newer rather than older. A
// kernel built by clang needs clang. The error is a *NoCompilerError.
func FindCompiler(ctx context.Context, h buildtree.Headers, path string) (Compiler, error) {
	best := Compiler{}
	rank := []int(nil)
	missing := &NoCompilerError{Searched: path}
	wanted, known := parseVersion(h.CompilerText)
	if known {
		missing.Wanted = wanted.String()
	} else {
		wanted.family = "gcc"
	}
	for _, candidate := range compilers(path) {
		v, err := askVersion(ctx, candidate)
		if cause := context.Cause(ctx); cause != nil {
			return Compiler{}, fmt.Errorf("look for a compiler: %w", cause)
		}
		if err != nil {
			continue // a broken link, a program of another architecture: a later one may work
		}
		if v.family != wanted.family {
			missing.Found = append(missing.Found, candidate+" ("+v.String()+")")
			continue
		}
		r := append(distance(wanted, v), nameRank(h.CompilerText, filepath.Base(candidate)))
		if rank == nil || slices.Compare(r, rank) < 0 {
			best = Compiler{Path: candidate, Version: v.String(), Wanted: missing.Wanted}
			rank = r
		}
	}
	if rank == nil {
		return Compiler{}, missing
	}
	best.Mismatch = known && best.Version != wanted.String()
	return best, nil
}

// distance orders candidates: by distance of the major version, newer before older, then by minor
// and patch level; without a wanted version, the newest first.
func distance(wanted, v version) []int {
	d := make([]int, 3)
	for i := range d {
		switch n := v.field(i) - wanted.field(i); {
		case len(wanted.fields) == 0:
			d[i] = -n
		case n < 0:
			d[i] = -2*n + 1
		default:
			d[i] = 2 * n
		}
	}
	return d
}

// nameRank orders names of equal versions: first the name that the kernel's text has ("gcc-12"),
// then any other, "cc" last.
func nameRank(text, name string) int {
	own, _, _ := strings.Cut(text, " ")
	switch name {
	case own:
		return 0
	case "cc":
		return 2
	}
	return 1
}

// compilers returns the programs in path that can be a C compiler. Of equal names the first counts.
func compilers(path string) []string {
	var all []string
	for _, dir := range filepath.SplitList(path) {
		entries, err := os.ReadDir(dir)
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		for _, e := range entries {
			if IsCompilerName(e.Name()) && len(all) < maxCandidates {
				all = append(all, filepath.Join(dir, e.Name()))
			}
		}
	}
	return all
}

// toolPrefix returns the prefix in the names of linker, assembler and strip,
// "x86_64-cros-linux-gnu-", where they have that of the compiler and there is no plain ld in path.
func toolPrefix(compiler, path string) string {
	prefix, _, _ := strings.Cut(filepath.Base(compiler), "gcc")
	_, plain := find("ld", path)
	_, own := find(prefix+"ld", path)
	if plain == nil || own != nil || prefix == filepath.Base(compiler) {
		return ""
	}
	return prefix
}

// askVersion runs the compiler with --version. Kernels record the same text, so one parser reads
// both.
func askVersion(ctx context.Context, path string) (version, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.Command(path, "--version")
	cmd.Env = []string{"PATH=" + searchPath(filepath.Dir(path)), "LC_ALL=C"}
	var out bytes.Buffer
	cmd.Stdout = &limitedWriter{w: &out, left: 64 << 10}
	if err := runGroup(ctx, cmd); err != nil {
		return version{}, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	v, ok := parseVersion(line)
	if !ok {
		return version{}, fmt.Errorf("ask %s for its version: it answers %q", path, line)
	}
	return v, nil
}
