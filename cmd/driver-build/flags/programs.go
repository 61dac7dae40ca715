package flags

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/programs"
)

// Programs are the flags about the programs that images get.
type Programs struct {
	Entrypoint   string // FILE
	AllowMissing bool
}

// AddTo declares the flags.
func (p *Programs) AddTo(f *pflag.FlagSet) {
	f.StringVar(
		&p.Entrypoint,
		"entrypoint",
		"",
		"FILE: driver-entrypoint of the images (default: the one of this version)",
	)
	f.BoolVar(
		&p.AllowMissing,
		"allow-missing-programs",
		false,
		"leave out driver-probe, with a warning, where it is neither here nor can be made",
	)
	session.Hide(f, "allow-missing-programs", "entrypoint")
}

// Find finds the programs for the images of targets, and prints a warning for each program that
// they will lack. If they are not needed, only that of --entrypoint has to be there.
func (p *Programs) Find(
	ctx context.Context,
	a *session.App,
	targets []matrix.Target,
	needed bool,
) (session.Programs, error) {
	find := a.Programs(
		ctx,
		&programs.Finder{Entrypoint: p.Entrypoint, Partial: p.AllowMissing},
	)
	if !needed && p.Entrypoint == "" {
		return find, nil
	}
	lacks, err := programs.Check(find, targets)
	a.Warnings(lacks...)
	return find, err
}
