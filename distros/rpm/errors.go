package rpm

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels for callers to switch on. A mirror that does not answer is fetch.ErrUnreachable instead.
var (
	// ErrSignature says that a repomd.xml is not signed by a key that is trusted for its source.
	ErrSignature = errors.New("no trusted signature")
	// ErrExpired says that the key that signed a repomd.xml, or its signature, has expired.
	ErrExpired = errors.New("expired")
	// ErrIndex says that a repository contradicts itself: content that is not what its repomd.xml promises, or files that do
	// not parse.
	ErrIndex = errors.New("inconsistent repository")
	// ErrSources says that the configuration of the sources cannot be understood or used.
	ErrSources = errors.New("bad package sources")
	// ErrRollback says that a mirror serves an older index than one that was seen before.
	ErrRollback = errors.New("older than before")
)

// UnresolvableError says which request cannot be met and why.
type UnresolvableError struct {
	Chain    []string // from the package asked for down to the one with the problem, as "name version"; may be empty
	Relation string   // what the last of the chain needs, or the request itself
	Reason   string   // why that cannot be had
	Versions []string // what exists of it, as "version (where)"; may be empty
}

func (e *UnresolvableError) Error() string {
	var b strings.Builder
	b.WriteString("cannot resolve packages: ")
	if n := len(e.Chain); n > 0 {
		fmt.Fprintf(&b, "%s needs %s, ", e.Chain[n-1], e.Relation)
	} else {
		fmt.Fprintf(&b, "%s was asked for, ", e.Relation)
	}
	b.WriteString(e.Reason)
	if len(e.Versions) > 0 {
		fmt.Fprintf(&b, "; there is %s", strings.Join(e.Versions, ", "))
	}
	if len(e.Chain) > 1 {
		fmt.Fprintf(&b, " (asked for by %s)", strings.Join(e.Chain, " -> "))
	}
	return b.String()
}
