package apt

import (
	"errors"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/pgp"
)

// Sentinels for callers to switch on. A mirror that does not answer is fetch.ErrUnreachable instead.
var (
	// ErrSignature says that a Release file is not signed by a key that is trusted for its source.
	ErrSignature = pgp.ErrSignature
	// ErrExpired says that a Release file is past its Valid-Until, or that the key that signed it has expired.
	ErrExpired = pgp.ErrExpired
	// ErrIndex says that a repository contradicts itself: content that is not what its signed Release file promises, or
	// files that do not parse.
	ErrIndex = errors.New("inconsistent repository")
	// ErrSources says that the configuration of the sources cannot be understood or used.
	ErrSources = errors.New("bad package sources")
)

// ComponentError says that a component was asked for that the repository does not have.
type ComponentError struct {
	Component  string   // what was asked for
	Repository string   // URI and suite; several are joined by commas when none of them has it
	Have       []string // what exists
}

func (e *ComponentError) Error() string {
	return fmt.Sprintf("component %q does not exist in %s; it has %s", e.Component, e.Repository, strings.Join(e.Have, ", "))
}

// UnresolvableError says which request cannot be met and why.
type UnresolvableError = distros.UnresolvableError
