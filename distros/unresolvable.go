package distros

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
)

// UnresolvableError says which request cannot be met and why.
type UnresolvableError struct {
	Chain    []string // from the requested package to the one with the problem, as "name version"; may be empty
	Relation string   // what the last of the chain needs, or the request itself
	Reason   string   // why it is not available
	Versions []string // the existing versions, as "version (where)"; may be empty
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

// FailureKind says what the command makes of it.
func (*UnresolvableError) FailureKind() failure.Kind { return failure.Step }
