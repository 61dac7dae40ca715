// Package lazyregexp has regular expressions that are compiled when they are first used. A global
// that is compiled at the start costs every process of a node time and memory, also those that
// never use it: all expressions of driver-entrypoint together took 1.1 MB in each of its two
// processes.
//
// The package does not check expressions: a wrong one panics at its first use, so each needs a test
// that uses it.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. It is safe for concurrent use.
// Inlined, it would be copied with all that sync.OnceValue consists of for each expression: 78 KB
// of driver-entrypoint.
//
//go:noinline
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
