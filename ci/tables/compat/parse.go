package main

import (
	"regexp"
	"strings"
)

var (
	// failure matches the entrypoint's message when make or strip fails; see kbuild.CompileError.
	failure = regexp.MustCompile(`compile driver \S+ for kernel \S+: (?:make|strip) failed: (?:exit status \d+|signal: \w+)(?:: (.*?))?; does this driver support this kernel`)
	// compiler matches the entrypoint's message when a compile begins.
	compiler = regexp.MustCompile(`compiling driver=.* compiler="(\S+ \d[^\s"]*)" jobs=`)
	// left matches driver-build's message about a companion that does not compile.
	left = regexp.MustCompile(`left out: \S+ for \S+ \([a-z]+\): (.*)`)
	// places matches folders that do not matter to readers: the scratch folder, and the two folders of the
	// kernel headers.
	places = regexp.MustCompile(`/\S*?/driver-modules/source/|/usr/src/linux-headers-[^/\s]+/`)
	// module matches the module that an error is in, by the folder of the source or the name of the object.
	module = regexp.MustCompile(`(?:^|\s|/)(nvidia(?:-[a-z]+)?)(?:/|\.ko\b|\.o\b)`)
)

// compileError returns the first error of the compiler. ok is false when driver-build failed for another
// reason: memory, disk, network, packages.
func compileError(log string) (message string, ok bool) {
	all := failure.FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return "", false
	}
	message = places.ReplaceAllString(all[len(all)-1][1], "")
	if message = strings.TrimSpace(message); message == "" {
		message = "make says no reason"
	}
	return message, true
}

// leftOut returns why the modules have no companion. ok is false if they have it.
func leftOut(log string) (reason string, ok bool) {
	m := left.FindStringSubmatch(log)
	if m == nil {
		return "", false
	}
	return strings.TrimSpace(places.ReplaceAllString(m[1], "")), true
}

// compilerOf returns the compiler: "gcc 12.2.0"; "" when nothing was compiled.
func compilerOf(log string) string {
	if m := compiler.FindStringSubmatch(log); m != nil {
		return m[1]
	}
	return ""
}

// essential says whether an error is in a module that every node needs, or in a file that belongs to no
// module, such as a header.
func essential(message string) bool {
	m := module.FindStringSubmatch(message)
	return m == nil || m[1] == "nvidia" || m[1] == "nvidia-uvm"
}
