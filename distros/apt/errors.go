package apt

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/pgp"
)

// Sentinels for callers to test. The error for a mirror that does not answer is fetch.ErrUnreachable.
var (
	// ErrSignature says that no key that is trusted for its source signed a Release file.
	ErrSignature = pgp.ErrSignature
	// ErrExpired says that a Release file is past its Valid-Until, or that the key that signed it has expired.
	ErrExpired = pgp.ErrExpired
	// ErrIndex says that a repository is inconsistent: content differs from its signed Release file, or a file
	// does not parse.
	ErrIndex = failure.New(failure.Content, "inconsistent repository")
	// ErrSources says that the configuration of the sources cannot be parsed or used.
	ErrSources = failure.New(failure.Step, "bad package sources")
)

// ComponentError says that the repository does not have a requested component.
type ComponentError struct {
	Component  string   // the requested component
	Repository string   // URI and suite; several are joined by commas when none of them has the component
	Have       []string // the existing components
}

func (e *ComponentError) Error() string {
	return fmt.Sprintf("component %q does not exist in %s; it has %s", e.Component, e.Repository, strings.Join(e.Have, ", "))
}

// UnresolvableError says which request cannot be met and why.
type UnresolvableError = distros.UnresolvableError
