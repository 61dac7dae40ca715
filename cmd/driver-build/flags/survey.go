package flags

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/programs"
	"github.com/driver-container/driver-container/images/status"
)

// Survey is the flags of a command that asks which images of the matrix a registry has: plan, check
// and report.
type Survey struct {
	Request Request
	Policy  Policy
}

// AddTo declares the flags that all of these commands have.
func (s *Survey) AddTo(f *pflag.FlagSet) {
	s.Request.Targets.AddTo(f)
	s.Request.Sources.AddTo(f)
	s.Request.Repository.AddTo(f, "look for images in")
	s.Request.Lock.AddTo(f)
	s.Policy.AddTo(f)
}

// Load reads the matrix and the advisories, and returns the question about its images: it has the
// repository, and no targets yet.
func (s *Survey) Load(a *session.App) (m *matrix.Matrix, q status.Query, err error) {
	m, err = s.Request.Targets.Load(a)
	if err != nil {
		return nil, q, err
	}
	_, err = s.Policy.Advisor(a)
	if err != nil {
		return nil, q, err
	}
	q.Repository, err = s.Request.Repository.Find(a, m.Defaults)
	return m, q, err
}

// Connect reads the lock, opens a session and runs ask in it. Programs for images need not be there.
func (s *Survey) Connect(
	ctx context.Context,
	a *session.App,
	m *matrix.Matrix,
	q *status.Query,
	ask func(context.Context, *session.Session) error,
) error {
	err := s.Request.OpenLock(&q.Request)
	if err != nil {
		return err
	}
	return a.Connect(ctx, m.Defaults.Mirrors, a.Programs(ctx, &programs.Finder{}), ask)
}
