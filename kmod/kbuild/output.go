package kbuild

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
)

const (
	tailLines  = 40
	errorLines = 5
	maxLine    = 4 << 10  // bytes of a line that are kept for people; the log has the whole line
	maxLog     = 64 << 20 // bytes of the log; a compile prints about 150 KB
)

// output reads the output of make line by line. It keeps the log, the last lines, the first errors,
// the number of finished steps, and whether a compiler was killed.
type output struct {
	log      io.Writer
	progress func(done, total int, what string)
	total    int

	done    int
	partial []byte
	tail    []string
	errors  []string
	killed  bool
	noSpace bool
}

// Write never fails, so that make never gets SIGPIPE.
func (o *output) Write(p []byte) (int, error) {
	_, _ = o.log.Write(p) // a disk that is full is found otherwise; the compile goes on
	rest := p
	for {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if room := maxLine - len(o.partial); room > 0 {
			o.partial = append(o.partial, line[:min(room, len(line))]...)
		}
		if !found {
			return len(p), nil
		}
		o.line(strings.TrimRight(string(o.partial), "\r"))
		o.partial = o.partial[:0]
		rest = after
	}
}

// close handles a last line without a line end.
func (o *output) close() {
	if len(o.partial) > 0 {
		o.line(string(o.partial))
		o.partial = nil
	}
}

var (
	// step matches the lines that make prints with V=0 for a compiler run, a link, and one of
	// NVIDIA's compile tests.
	step = lazyregexp.New(`^\s*(?:(CC|LD) \[M\]\s+(\S+)|(CONFTEST): ([a-z0-9_]+))$`)
	// firstError matches errors of the compiler, of the linker, of modpost and of the Makefile's
	// own checks.
	firstError = lazyregexp.New(
		`(?i)(?:^|[\s:])(?:fatal )?error: |undefined reference|ERROR: modpost|No such file or directory|: not found$|\*\*\* [^\[w]`,
	)
	// killed matches the messages of gcc, make and sh for a compiler or linker that got SIGKILL.
	// Only the kernel sends it, when memory is short.
	killed = lazyregexp.New(
		`Killed signal|signal 9 \[?Killed|internal compiler error: Killed|\] Killed|Error 137|^(?:\S+: )*(?:line )?(?:\d+: )?\s*(?:\d+ )?Killed\b`,
	)
	noSpace = lazyregexp.New(`No space left on device|Disk quota exceeded`)
)

func (o *output) line(text string) {
	if len(o.tail) == tailLines {
		o.tail = append(o.tail[:0], o.tail[1:]...)
	}
	o.tail = append(o.tail, text)
	if m := step().FindStringSubmatch(text); m != nil {
		o.step(m[1]+m[3], m[2]+m[4])
		return
	}
	o.killed = o.killed || killed().MatchString(text)
	o.noSpace = o.noSpace || noSpace().MatchString(text)
	if len(o.errors) < errorLines && firstError().MatchString(text) {
		o.errors = append(o.errors, strings.TrimSpace(text))
	}
}

// step counts a step and reports it, without the path of the scratch folder: "CC nvidia/nv.o".
func (o *output) step(verb, what string) {
	o.done++
	if o.total > 0 {
		o.done = min(o.done, o.total-1) // the last step is the check of the modules
	}
	if _, inside, found := strings.Cut(what, "/"+scratchSource+"/"); found {
		what = inside
	}
	if o.progress != nil {
		o.progress(o.done, o.total, verb+" "+what)
	}
}

var (
	sourceEntry = lazyregexp.New(
		`(?m)^\s*[A-Z0-9_]*SOURCES(?:_CXX)?\s*[+:?]?=\s*([A-Za-z0-9_./-]+\.(?:c|cpp))\b`,
	)
	testEntry = lazyregexp.New(`(?m)^\s*NV_CONFTEST_[A-Z]+_COMPILE_TESTS\s*\+?=\s*([a-z0-9_]+)`)
)

// steps returns an estimate of how many steps the compile will print, from the driver's lists:
// every source and every test once, and for each module its own description and two links. It is 0
// when the lists cannot be read.
func steps(source string, modules []string) int {
	once := map[string]bool{}
	files := []string{filepath.Join(source, "Kbuild")}
	for _, m := range modules {
		more, _ := filepath.Glob(filepath.Join(source, m, "*.Kbuild")) //nolint:errcheck // none is an answer
		files = append(files, more...)
	}
	for _, file := range files {
		text := bounded.Head(file, 1<<20)
		for _, list := range []*regexp.Regexp{sourceEntry(), testEntry()} {
			for _, m := range list.FindAllSubmatch(text, 10_000) {
				once[string(m[1])] = true
			}
		}
	}
	if len(once) == 0 {
		return 0
	}
	return len(once) + 3*len(modules) + 1
}
