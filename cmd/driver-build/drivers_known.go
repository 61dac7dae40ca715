package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/releases"
)

// releasesHelp explains the flag that says where fresh data comes from.
const releasesHelp = "FILE or URL of a releases.json as NVIDIA publishes it, or none: the built-in table alone (default NVIDIA's own, where it can be reached)"

// releasesPatience bounds the question to NVIDIA's server that nobody asked for by name: the built-in table is there.
const releasesPatience = 15 * time.Second

// knownDrivers is the table of drivers there are, and what is to be said about where it comes from.
type knownDrivers struct {
	*releases.Table
	notes []string // for stderr, when the display has ended
}

// knownDrivers joins the built-in table with NVIDIA's list: that of from, or the public one. A public one that cannot be had is
// no failure; one that was asked for is.
func (a *app) knownDrivers(ctx context.Context, s *session, from string) (knownDrivers, error) {
	table, err := releases.Builtin()
	if err != nil || from == "none" {
		return knownDrivers{Table: table}, err
	}
	address, asked := releases.Address, from != ""
	if asked {
		if address, err = addressOf("--releases", from); err != nil {
			return knownDrivers{}, usageError{err}
		}
	}
	text, err := latestReleases(ctx, s, address, asked)
	var fresh *releases.Table
	var notes []string
	if err == nil {
		fresh, notes, err = releases.Parse(text)
	}
	switch {
	case err == nil:
		known := knownDrivers{Table: table.With(fresh)}
		if a.offline && !asked {
			known.notes = append(known.notes, "NVIDIA's list of releases is that of the last download (--offline)")
		}
		for _, n := range notes {
			known.notes = append(known.notes, address+": "+n)
		}
		return known, nil
	case asked && errors.Is(err, releases.ErrFormat):
		return knownDrivers{}, usageError{fmt.Errorf("--releases %s: %w", from, err)}
	case asked:
		return knownDrivers{}, fmt.Errorf("--releases %s: %w", from, err)
	case ctx.Err() != nil:
		return knownDrivers{}, context.Cause(ctx)
	}
	return knownDrivers{table, []string{fmt.Sprintf("NVIDIA's list of releases cannot be had, the built-in table is used: %v", err)}}, nil
}

func latestReleases(ctx context.Context, s *session, address string, asked bool) ([]byte, error) {
	if !asked {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, releasesPatience, fmt.Errorf("%w within %v", fetch.ErrUnreachable, releasesPatience))
		defer cancel()
	}
	step := s.display.stepFor("drivers", "read "+address)
	text, err := s.builder.Fetch.Latest(ctx, address, releases.MaxSize)
	_ = step.End(false, nil) // what went wrong is told by the command
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return text, err
}

// now is the time that a command counts with: SOURCE_DATE_EPOCH, so that the same inputs give the same page, or the clock.
func (a *app) now() (time.Time, error) {
	epoch := a.getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		return time.Now().UTC().Truncate(time.Second), nil
	}
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || n < 0 {
		return time.Time{}, usageError{fmt.Errorf("SOURCE_DATE_EPOCH=%s: %w", epoch, cmp.Or(err, errors.New("it is negative")))}
	}
	return time.Unix(n, 0).UTC(), nil
}
