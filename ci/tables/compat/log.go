package main

import (
	"regexp"
	"strings"
)

var (
	// failure matches the entrypoint's message when make or strip fails; see kbuild.CompileError.
	failure = regexp.MustCompile(`compile driver \S+ for kernel \S+: (?:make|strip) failed: ` +
		`(?:exit status \d+|signal: \w+)(?:: (.*?))?; does this driver support this kernel`)
	// leftOut matches driver-build's message about a companion that does not compile.
	leftOut = regexp.MustCompile(`left out: \S+ for \S+ \([a-z]+\): (.*)`)
	// compiler matches the entrypoint's message when a compile begins.
	compiler = regexp.MustCompile(`compiling driver=.* compiler="(\S+ \d[^\s"]*)" jobs=`)
	// places matches folders that do not matter to readers: the scratch folder, and the two folders of the
	// kernel headers.
	places = regexp.MustCompile(`/\S*?/driver-modules/source/|/usr/src/linux-headers-[^/\s]+/`)
	// module matches the module that an error is in, by the folder of the source or the name of the object.
	module = regexp.MustCompile(`(?:^|\s|/)(nvidia(?:-[a-z]+)?)(?:/|\.ko\b|\.o\b)`)
)

// outcome judges what driver-build said and how it ended. A compile fails with the first error of the compiler;
// what fails for another reason (memory, disk, network, packages) is trouble.
func outcome(log string, failed error) *result {
	r := &result{Outcome: compiles}
	if m := compiler.FindStringSubmatch(log); m != nil {
		r.Compiler = m[1]
	}
	says := failure
	if failed == nil {
		says = leftOut
	}
	if all := says.FindAllStringSubmatch(log, -1); all != nil {
		r.Outcome, r.Error = fails, strings.TrimSpace(places.ReplaceAllString(all[len(all)-1][1], ""))
		if r.Error == "" {
			r.Error = "make says no reason"
		}
	} else if failed != nil {
		r.Outcome, r.Error = trouble, failed.Error()
	}
	return r
}

// essential says whether an error is in a module that every node needs, or in a file that belongs to no
// module, such as a header.
func essential(message string) bool {
	m := module.FindStringSubmatch(message)
	return m == nil || m[1] == "nvidia" || m[1] == "nvidia-uvm"
}
