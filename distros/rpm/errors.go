package rpm

import (
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/pgp"
	"github.com/driver-container/driver-container/distros/rpm/repoconf"
)

// Sentinels that callers distinguish. If a mirror does not answer, the error is fetch.ErrUnreachable instead.
var (
	// ErrSignature says that a repomd.xml is not signed by a key that is trusted for its source.
	ErrSignature = pgp.ErrSignature
	// ErrExpired says that the key that signed a repomd.xml, or its signature, has expired.
	ErrExpired = pgp.ErrExpired
	// ErrIndex says that a repository contradicts itself.
	ErrIndex = distros.ErrIndex
	// ErrSources says that the configuration of the sources cannot be understood or used.
	ErrSources = repoconf.ErrSources
	// ErrRollback says that a mirror serves an older index than one that was seen before.
	ErrRollback = failure.New(failure.Content, "older than before")
)

// UnresolvableError names a request that cannot be met, and the reason.
type UnresolvableError = distros.UnresolvableError
