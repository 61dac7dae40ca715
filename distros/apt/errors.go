package apt

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/pgp"
)

// Sentinels for callers to test. The error for a mirror that does not answer is fetch.ErrUnreachable.
var (
	// ErrSignature says that no key that is trusted for its source signed a Release file.
	ErrSignature = pgp.ErrSignature
	// ErrExpired says that a Release file is past its Valid-Until, or that the key that signed it has expired.
	ErrExpired = pgp.ErrExpired
	// ErrIndex says that a repository contradicts itself.
	ErrIndex = distros.ErrIndex
	// ErrSources says that the configuration of the sources cannot be parsed or used.
	ErrSources = distros.ErrSources
)

// noComponent says that repositories do not have a component. where is URI and suite.
func noComponent(component, where string, have []string) error {
	return fmt.Errorf("component %q does not exist in %s; it has %s", component, where, strings.Join(have, ", "))
}

// UnresolvableError says which request cannot be met and why.
type UnresolvableError = distros.UnresolvableError
