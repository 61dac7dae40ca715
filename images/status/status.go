// Package status asks about many images without building one: which are due, which could be built, what the
// registry has of them, which kernels there are, and what a lock is to say.
//
// Images share bases, package repositories and most packages, so each question is asked once for all of them.
// The package prints nothing and knows no flags and no exit codes: these are the command's.
package status

import (
	"github.com/driver-container/driver-container/images"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/layer"
)

// survey asks registries, package repositories and servers about many images, each question once.
type survey struct {
	plans  *batch.Plans
	online *images.Builder
	bases  layer.Once[string] // digest, by reference and architecture
	sizes  layer.Once[int64]  // by address
}

// newSurvey starts a survey for one call.
func newSurvey(b *images.Builder) (*survey, error) {
	plans, err := batch.NewPlans(b)
	return &survey{plans: plans, online: b}, err
}
