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
)

// outcome judges what driver-build said and how it ended. The error is what failed for another reason than the
// compiler's: memory, disk, network, packages. It proves nothing about the driver.
func outcome(log string, failed error) (*result, error) {
	r := &result{}
	if m := compiler.FindStringSubmatch(log); m != nil {
		r.Compiler = m[1]
	}
	says := failure
	if failed == nil {
		says = leftOut
	}
	all := says.FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return r, failed
	}
	if r.Error = strings.TrimSpace(places.ReplaceAllString(all[len(all)-1][1], "")); r.Error == "" {
		r.Error = "make says no reason"
	}
	return r, nil
}
