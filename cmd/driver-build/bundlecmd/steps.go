package bundlecmd

import (
	"path"

	"github.com/driver-container/driver-container/images/progress"
)

// steps shows work on files, or on a repository, that follow one another: a step for each, with the bytes
// that are done and all of them.
type steps struct {
	observe progress.Observer
	name    string // what is done with each
	target  string // of the step that runs
	running *progress.Step
}

// report takes the progress of a target.
func (s *steps) report(target string, done, total int64) {
	if s.running == nil || target != s.target {
		_ = s.end(nil)
		s.target, s.running = target, s.observe.Begin(target, s.name)
	}
	s.running.Progress(path.Base(target), done, total)
}

// total returns what reports the progress of one target.
func (s *steps) total(target string) func(done, total int64) {
	return func(done, total int64) { s.report(target, done, total) }
}

// end ends the step that runs with an error, which it returns.
func (s *steps) end(err error) error {
	if s.running != nil {
		_ = s.running.End(false, err)
		s.running = nil
	}
	return err
}
