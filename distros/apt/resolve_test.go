package apt

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/dpkg"
)

// control writes one paragraph for each line "name version[ arch]; Field: value; ...".
func control(lines string, more ...string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		parts := strings.Split(strings.TrimSpace(line), ";")
		words := strings.Fields(parts[0])
		if len(words) == 0 {
			continue
		}
		words = append(words, "amd64")
		fmt.Fprintf(&b, "Package: %s\nVersion: %s\nArchitecture: %s\n", words[0], words[1], words[2])
		for _, p := range append(parts[1:], more...) {
			b.WriteString(strings.TrimSpace(p) + "\n")
		}
		fmt.Fprintf(&b, "Filename: pool/%s_%s_%s.deb\nSize: 10\nSHA256: %064d\nMD5sum: 0\n\n", words[0], words[1], words[2], len(words[0]))
	}
	return b.String()
}

// indexOf returns an index made without a network. Each text is a repository of its own; one that begins with
// "backports" is NotAutomatic.
func indexOf(t require.T, texts ...string) *Index {
	x := &Index{releases: &Releases{options: Options{Arch: "amd64"}}}
	var found [][]entry
	for i, text := range texts {
		text, backports := strings.CutPrefix(text, "backports")
		r := &repo{base: fmt.Sprintf("http://r%d", i), suite: fmt.Sprintf("s%d", i), rel: &release{notAutomatic: backports}}
		var entries []entry
		for p, err := range dpkg.ReadParagraphs(strings.NewReader(control(text))) {
			require.NoError(t, err)
			e := newEntry(p, job{repo: r, component: "main"}, "amd64")
			if e.arch == "amd64" || e.arch == "all" {
				entries = append(entries, e)
			}
		}
		found = append(found, entries)
	}
	x.build(found)
	return x
}

func statusOf(t require.T, lines string) *dpkg.Status {
	return require.Value(dpkg.ReadStatus(strings.NewReader(control(lines, "Status: install ok installed"))))(t)
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, index, status, want string
		result                    string // "name version[<replaced] ..."
	}{
		{"single", "a 1", "", "a", "a 1"},
		{"installed is enough", "a 2", "a 1", "a", ""},
		{"exact version upgrades", "a 2", "a 1", "a=2", "a 2<1"},
		{"older version asked for", "a 1\na 2", "", "a=1", "a 1"},
		{"newest wins by dpkg order", "a 1.9\na 1.10\na 1.10~rc1", "", "a", "a 1.10"},
		{"epoch", "a 2\na 1:1", "", "a", "a 1:1"},
		{"chain", "a 1; Depends: b\nb 1; Pre-Depends: c\nc 1", "", "a", "a 1, b 1, c 1"},
		{"recommends are not followed", "a 1; Recommends: b\nb 1", "", "a", "a 1"},
		{"cycle", "a 1; Depends: b (= 1)\nb 1; Depends: a (= 1)", "", "a", "a 1, b 1"},
		{"arch all", "a 1 all; Depends: b\nb 1", "", "a", "a 1, b 1"},
		{"other archs are not there", "a 1\na 2 arm64", "", "a:amd64", "a 1"},
		{"first alternative", "a 1; Depends: b | c\nb 1\nc 1", "", "a", "a 1, b 1"},
		{"second where the first is missing", "a 1; Depends: b | c\nc 1", "", "a", "a 1, c 1"},
		{"second where the first is too old", "a 1; Depends: b (>= 2) | c\nb 1\nc 1", "", "a", "a 1, c 1"},
		{"installed alternative", "a 1; Depends: b | c\nb 1\nc 1", "c 1", "a", "a 1"},
		{"asked for alternative", "a 1; Depends: b | c\nb 1\nc 1", "", "a c", "a 1, c 1"},
		{"alternative that a later need chooses", "a 1; Depends: b, d\nb 1; Depends: c | d\nc 1\nd 1", "", "a", "a 1, b 1, c 1, d 1"},
		{"alternative that an earlier need chooses", "a 1; Depends: d, b\nb 1; Depends: c | e\nc 1\nd 1; Depends: e\ne 1", "", "a", "a 1, b 1, d 1, e 1"},
		{"alternative that does not clash", "a 1; Depends: b | c\nb 1; Conflicts: d\nc 1\nd 1", "d 1", "a", "a 1, c 1"},
		{"virtual", "a 1; Depends: v\nc 1; Provides: v\nb 1; Provides: v", "", "a", "a 1, b 1"},
		{"virtual by priority", "a 1; Depends: v\nc 1; Provides: v; Priority: important\nb 1; Provides: v; Priority: optional", "", "a", "a 1, c 1"},
		{"real before virtual", "a 1; Depends: v\nb 1; Provides: v\nv 1", "", "a", "a 1, v 1"},
		{"virtual installed", "a 1; Depends: v\nb 1; Provides: v", "x 1; Provides: v", "a", "a 1"},
		{"versioned provides", "a 1; Depends: v (>= 2)\nb 1; Provides: v (= 1)\nc 1; Provides: v (= 2)\nd 1; Provides: v", "", "a", "a 1, c 1"},
		{"virtual asked for", "b 1; Provides: v", "", "v", "b 1"},
		{"upgrade demanded", "a 1; Depends: libc (= 2)\nlibc 2", "libc 1", "a", "a 1, libc 2<1"},
		{"upgrade takes its family along", "a 1; Depends: libc (>= 2)\nlibc 2\nbin 2; Depends: libc (= 2)", "libc 1\nbin 1; Depends: libc (= 1)", "a", "a 1, bin 2<1, libc 2<1"},
		{"breaks upgrades the other", "a 1; Breaks: b (<< 2)\nb 2", "b 1", "a", "a 1, b 2<1"},
		{"the installed one breaks us", "a 1\nb 2", "b 1; Breaks: a (<< 2)", "a", "a 1, b 2<1"},
		{"own virtual conflict", "a 1; Provides: v; Conflicts: v", "", "a", "a 1"},
		{"qualifiers", "a 1; Depends: b:any, c:amd64, d:native\nb 1; Multi-Arch: allowed\nc 1\nd 1", "", "a", "a 1, b 1, c 1, d 1"},
		{"foreign helps", "a 1; Depends: b\nb 1", "b 1 i386; Multi-Arch: foreign", "a", "a 1"},
		{"foreign does not help", "a 1; Depends: b\nb 1", "b 1 i386; Multi-Arch: same", "a", "a 1, b 1"},
		{"foreign demanded and there", "a 1; Depends: b:i386", "b 1 i386", "a", "a 1"},
		{"what was broken stays so", "a 1", "b 1; Depends: missing", "a", "a 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			x := indexOf(t, tt.index)
			for range 3 {
				got := require.Value(x.Resolve(statusOf(t, tt.status), strings.Fields(tt.want)))(t)
				assert.Equalf(t, tt.result, short(got), "Resolve(%s)", tt.want)
			}
		})
	}
}

func short(pkgs []Package) string {
	var out []string
	for _, p := range pkgs {
		s := p.Name + " " + p.Version
		if p.Replaces != "" {
			s += "<" + p.Replaces
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestUnresolvable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, index, status, want, message string }{
		{
			"unknown", "a 1", "", "b",
			"cannot resolve packages: b was asked for, which no repository has; add the component or the repository that has it",
		},
		{
			"version unknown", "a 1", "", "a=2",
			"cannot resolve packages: a (= 2) was asked for, which no repository has in that version; there is a 1 (s0/main)",
		},
		{
			"chain", "a 1; Depends: b\nb 2; Depends: c (>= 3) | d\nc 1\ne 1; Provides: d-dev", "", "a",
			"cannot resolve packages: b 2 needs c (>= 3) | d, which no repository has in that version; there is c 1 (s0/main) (asked for by a 1 -> b 2)",
		},
		{
			"unversioned provides does not meet a version", "a 1; Depends: v (>= 1)\nb 7; Provides: v", "", "a",
			"cannot resolve packages: a 1 needs v (>= 1), which no repository has in that version; there is b 7 (s0/main), which provides v",
		},
		{
			"no downgrade", "a 1; Depends: libc (= 1)\nlibc 1", "libc 2", "a",
			"cannot resolve packages: a 1 needs libc (= 1), which cannot be met together with what is there; there is libc 2 (installed), libc 1 (s0/main)",
		},
		{
			"conflict with installed", "a 1; Conflicts: b\nb 2", "b 1", "a",
			"cannot resolve packages: a 1 was asked for, which cannot be with b 1 (installed): a 1 conflicts with b, that is b 1; there is b 2 (s0/main)",
		},
		{
			"conflict among chosen", "a 1; Depends: b, c\nb 1\nc 1; Conflicts: b", "", "a",
			"cannot resolve packages: a 1 needs c 1, which cannot be with b 1 (needed too): c 1 conflicts with b, that is b 1",
		},
		{
			"two versions needed", "a 1; Depends: b (= 1), c\nb 1\nb 2\nc 1; Depends: b (= 2)", "", "a",
			"cannot resolve packages: c 1 needs b (= 2), which cannot be met together with what is there; there is b 1 (already chosen for a), b 2 (s0/main), b 1 (s0/main) (asked for by a 1 -> c 1)",
		},
		{
			"other architecture", "a 1; Depends: b:i386\nb 1", "", "a",
			"cannot resolve packages: a 1 needs b:i386, but only packages for amd64 are to be had here; there is b 1 (s0/main)",
		},
		{
			"an installed one would lose what it needs", "a 1; Depends: libc (>= 2)\nlibc 2", "libc 1\nbin 1; Depends: libc (= 1)", "a",
			"cannot resolve packages: bin 1 needs libc (= 1), which cannot be met together with what is there; there is libc 2 (already chosen for a), libc 2 (s0/main)",
		},
		{
			"twins must stay alike", "a 1; Depends: l (>= 2)\nl 2; Multi-Arch: same", "l 1; Multi-Arch: same\nl 1 i386; Multi-Arch: same", "a",
			"cannot resolve packages: a 1 needs l 2, but l must stay at the same version as its i386 twin, which is installed as 1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := indexOf(t, tt.index).Resolve(statusOf(t, tt.status), strings.Fields(tt.want))
			if _, ok := errors.AsType[*distros.UnresolvableError](err); !ok {
				t.Fatalf("Resolve = %v, %v; want an distros.UnresolvableError", got, err)
			}
			assert.Samef(t, tt.message, err.Error(), "message (-want +got)")
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	x := indexOf(t, "good 1\nbad 1; Depends: ((")
	for want, target := range map[string]error{"": distros.ErrSources, "a | b": distros.ErrSources, "a(x": distros.ErrSources, "bad": distros.ErrIndex} {
		assert.ErrorIsf(t, assert.Err(x.Resolve(nil, []string{want})), target, "Resolve(%q)", want)
	}
	if _, ok := x.Candidate("nothing"); ok {
		t.Error("a candidate of an unknown package")
	}
	if p, ok := x.Candidate("good"); !ok || p.URL != "http://r0/pool/good_1_amd64.deb" {
		t.Errorf("Candidate(good) = %+v, %v", p, ok)
	}
}

func TestCandidateAcrossRepositories(t *testing.T) {
	t.Parallel()
	x := indexOf(t, "a 1\nb 1", "a 1\nb 2", "backports a 9\nc 3\nd 5; Depends: a (>= 9)")
	for want, result := range map[string]string{"a": "a 1", "b": "b 2", "c": "c 3", "d": "a 9, d 5", "a=9": "a 9"} {
		got, err := x.Resolve(nil, []string{want})
		if err != nil || short(got) != result {
			t.Errorf("Resolve(%s) = %q, %v; want %q", want, short(got), err, result)
		}
	}
	if p, _ := x.Candidate("a"); p.Origin != "s0/main" {
		t.Errorf("the same version comes from %s, want the first repository", p.Origin)
	}
}

func TestEntriesAreChecked(t *testing.T) {
	t.Parallel()
	for _, field := range []string{
		"Filename: ../x.deb", "Filename: a/../b", "Filename: /..", "Filename: a\\b", "Filename: /", "Filename: ", "Size: -1", "Size: x", "SHA256: 12", "SHA256: ",
	} {
		name, _, _ := strings.Cut(field, ":")
		raw := strings.Replace(control("a 1"), name+":", "X-"+name+":", 1) + field + "\n"
		p := require.Value(dpkg.ParseParagraph([]byte(strings.ReplaceAll(raw, "\n\n", "\n"))))(t)
		assert.ErrorIsf(t, newEntry(p, job{repo: &repo{}}, "amd64").fault, distros.ErrIndex, "entry with %q", field)
	}
}

// TestUnusableIsNoted: what an index has and cannot be used is counted, and its fault is said where it is wanted.
func TestUnusableIsNoted(t *testing.T) {
	t.Parallel()
	const text = "Package: bad\nVersion: 2\nFilename: ../bad.deb\nSize: 1\nSHA256: %064d\n\n" +
		"Package: weak\nVersion: 1\nFilename: weak.deb\nSize: 1\nMD5sum: 0\n\n" +
		"Package: needs\nVersion: 1\nDepends: weak\nFilename: needs.deb\nSize: 1\nSHA512: %0128d\n"
	j := job{repo: &repo{base: "http://r", suite: "s", rel: &release{}}, component: "main"}
	entries := require.Value(j.read(strings.NewReader(fmt.Sprintf(text, 0, 0)), Options{Arch: "amd64"}))(t)
	x := &Index{releases: &Releases{options: Options{Arch: "amd64"}}}
	x.build([][]entry{entries})
	assert.Equal(t, 1, x.Len())
	assert.Equal(t, 1, len(x.Notes()))
	assert.Contains(t, x.Notes()[0], "2 of 3 packages cannot be used")
	_, ok := x.Candidate("bad")
	assert.Equal(t, false, ok)
	for want, say := range map[string]string{"bad": "bad Filename", "bad=2": "bad Filename", "weak": "no SHA256 and no SHA512", "needs": ""} {
		_, err := x.Find(want)
		_, err2 := x.Resolve(nil, []string{want})
		if say == "" {
			assert.NoError(t, err)
			assert.ErrorContains(t, err2, "no SHA256 and no SHA512")
			continue
		}
		assert.ErrorContains(t, err, say)
		assert.ErrorContains(t, err2, say)
	}
}

// TestNames: of an index with tens of thousands of packages only the chosen ones stay in memory.
func TestNames(t *testing.T) {
	t.Parallel()
	text := control("linux-headers-1 1\nbash 5\nlinux-headers-2 1")
	j := job{repo: &repo{rel: &release{}}}
	all := require.Value(j.read(strings.NewReader(text), Options{Arch: "amd64"}))(t)
	assert.Equal(t, 3, len(all))
	headers := func(name string) bool { return strings.HasPrefix(name, "linux-") }
	chosen := require.Value(j.read(strings.NewReader(text), Options{Arch: "amd64", Names: headers}))(t)
	assert.Equal(t, 2, len(chosen))
}

func TestFind(t *testing.T) {
	t.Parallel()
	x := indexOf(t, "a 1; Depends: missing\na 2", "backports a 3")
	for want, version := range map[string]string{"a": "2", "a=1": "1", "a=3": "3", "a=4": "", "b": "", "a b": ""} {
		p, err := x.Find(want)
		var un *distros.UnresolvableError
		switch {
		case version == "" && !errors.As(err, &un) && !errors.Is(err, distros.ErrSources):
			t.Errorf("Find(%q): %v, want an error", want, err)
		case version != "" && (err != nil || p.Version != version):
			t.Errorf("Find(%q) = %v, %v; want version %s", want, p, err, version)
		}
	}
}
