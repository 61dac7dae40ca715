package doctor

import (
	"context"
	"fmt"

	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
)

// Matrix reports how the matrix was read.
func Matrix(m *matrix.Matrix, err error) Question {
	return Question{
		Name: "matrix", Fix: "correct the file, or name another with --matrix",
		Ask: func(context.Context) (string, error) {
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d systems, %d drivers", len(m.Systems), len(m.Drivers)), nil
		},
	}
}

// Lock asks whether the lock that builds would go by can be read. b has its file and no targets.
func Lock(b batch.Batch) Question {
	return Question{
		Name: "lock", Fix: "write it again with driver-build lock, or build without it (--lock none)",
		Ask: func(context.Context) (string, error) {
			if err := b.OpenLock(); err != nil {
				return "", err
			}
			if b.Lock == nil {
				return "none: builds take what base and repositories have now", nil
			}
			return b.Lock.File, nil
		},
	}
}

// Compile asks for what compiles modules ahead of time. find looks for it as a build does; required says that
// the user named it.
func Compile(find func(context.Context) (string, error), required bool) Question {
	return Question{
		Name: "compile", Optional: !required,
		Fix: "make one of the two work if images with --kernel are built here; other images need neither",
		Ask: find,
	}
}
